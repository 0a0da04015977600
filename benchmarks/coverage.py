"""Measure how often the 95 % intervals hold the value on fresh rows.

Start: ``python -m benchmarks.coverage [--draws 200] [KIND ...]``. Each draw of a kind of data makes a train
and a test split from a known source, fits a linear model (and one on half of the rows, for differences), and
asks whether the interval of a metric holds its value on 50,000 fresh rows.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.judge.metrics.scores import compute_metric
from tuneline.judge.metrics.stats import metric_interval, paired_difference
from tuneline.judge.metrics.table import METRIC_TABLE, Averaging

FRESH_ROWS = 50_000
TRAIN_CLUSTERS = 300
COLUMNS = ("interval", "difference")
DIMENSIONS = 10
RARE_LABELS = (0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.05, 0.04, 0.04, 0.03, 0.03)
UNEVEN_CLASSES = (0.4, 0.2, 0.15, 0.1, 0.1, 0.05)
Random = np.random.Generator
Sizes = Callable[[int, Random], NDArray[np.int64]]


def single(clusters: int, _random: Random) -> NDArray[np.int64]:
    """Return clusters of one row."""
    return np.ones(clusters, np.int64)


def uneven(clusters: int, random: Random) -> NDArray[np.int64]:
    """Return clusters of five rows in the mean, from a geometric distribution."""
    return random.geometric(0.2, clusters)


def heavy(clusters: int, random: Random) -> NDArray[np.int64]:
    """Return clusters of very different sizes, at most 200 rows."""
    return np.minimum(random.pareto(1.2, clusters) + 1, 200).astype(np.int64)


def one_huge(clusters: int, _random: Random) -> NDArray[np.int64]:
    """Return clusters of four rows, and one that has a third of all rows."""
    sizes = np.full(clusters, 4)
    sizes[0] = 2 * clusters
    return sizes


@dataclass(frozen=True)
class Kind:
    """A kind of data, and the metric that is measured.

    Attributes:
        clusters: Clusters of the test split.
        alike: Share of the variance of the vectors that the rows of a cluster have in common; rows of 1 are
            copies, which also have one label.
        shares: Shares of the classes or labels; empty for numbers.
        sets: True if a row has a set of labels.
        signal: How clear the labels are: with 1.5, about one in seven of two classes is chance.
    """

    name: str
    metric: str
    clusters: int
    sizes: Sizes = single
    alike: float = 0.0
    shares: tuple[float, ...] = (0.5, 0.5)
    sets: bool = False
    average: Averaging = "macro"
    signal: float = 1.5


KINDS = (
    Kind("independent rows", "accuracy", 300),
    Kind("independent rows, six classes", "f1", 300, shares=UNEVEN_CLASSES),
    Kind("independent rows, numbers", "pearson", 300, shares=()),
    Kind("5 % positives", "f1", 400, shares=(0.95, 0.05), average=1),
    Kind("5 % positives", "f1", 1_000, shares=(0.95, 0.05), average=1),
    Kind("5 % positives, clear ones", "f1", 300, shares=(0.95, 0.05), average=1, signal=8.0),
    Kind("5 % positives", "matthews_correlation", 400, shares=(0.95, 0.05)),
    Kind("several labels", "macro_f1", 400, shares=RARE_LABELS, sets=True),
    Kind("several labels", "micro_f1", 400, shares=RARE_LABELS, sets=True),
    Kind("several labels", "subset_accuracy", 400, shares=RARE_LABELS, sets=True),
    Kind("copies", "accuracy", 20, uneven, 1.0),
    Kind("copies", "accuracy", 51, uneven, 1.0),
    Kind("copies", "accuracy", 200, uneven, 1.0),
    Kind("copies, very uneven", "accuracy", 51, heavy, 1.0),
    Kind("copies, one huge cluster", "accuracy", 51, one_huge, 1.0),
    Kind("copies, six classes", "f1", 100, uneven, 1.0, shares=UNEVEN_CLASSES),
    Kind("copies, 5 % positives", "f1", 300, uneven, 1.0, shares=(0.95, 0.05), average=1),
    Kind("copies, several labels", "micro_f1", 100, uneven, 1.0, shares=RARE_LABELS, sets=True),
    Kind("copies, several labels", "macro_f1", 200, uneven, 1.0, shares=RARE_LABELS, sets=True),
    Kind("copies, numbers", "pearson", 51, uneven, 1.0, shares=()),
    Kind("groups", "accuracy", 20, uneven, 0.5),
    Kind("groups", "accuracy", 51, uneven, 0.5),
    Kind("groups, one huge cluster", "accuracy", 51, one_huge, 0.5),
    Kind("groups, six classes", "f1", 51, uneven, 0.5, shares=UNEVEN_CLASSES),
)


@dataclass(frozen=True)
class Rows:
    """Rows of a source: vectors ``(rows, DIMENSIONS)``, labels, and the cluster of each row."""

    vectors: NDArray[np.float64]
    labels: NDArray[Any]
    clusters: NDArray[np.int64]


class Source:
    """Where rows come from: a linear truth with noise."""

    def __init__(self, kind: Kind, random: Random) -> None:
        self.kind = kind
        self.random = random
        self.truth = random.normal(size=(DIMENSIONS, max(len(kind.shares), 1)))
        # a class has its share of the rows: offsets are found on many rows
        self.offsets = np.zeros(self.truth.shape[1])
        scores = self._scores(
            random.normal(size=(20_000, DIMENSIONS)), random.random((20_000, self._outputs))
        )
        for _ in range(60):
            self.offsets += 0.5 * (np.log(self._target) - np.log(self._shares(scores + self.offsets)))

    @property
    def _outputs(self) -> int:
        return self.truth.shape[1]

    @property
    def _target(self) -> NDArray[np.float64]:
        return np.array(self.kind.shares or (1.0,))

    def _shares(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self.kind.shares:
            return np.ones(1)
        if self.kind.sets:
            return np.maximum((scores > 0).mean(axis=0), 1e-4)
        counts = np.bincount(scores.argmax(axis=1), minlength=self._outputs)
        return np.maximum(counts / len(scores), 1e-4)

    def _scores(self, vectors: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores with logistic noise; the largest, or those above 0, are the labels."""
        noise = np.log(uniform / (1 - uniform))
        scores: NDArray[np.float64] = self.kind.signal * vectors @ self.truth + noise
        return scores

    def rows(self, sizes: NDArray[np.int64]) -> Rows:
        """Draw clusters of rows."""
        clusters = np.repeat(np.arange(len(sizes)), sizes)
        alike = self.kind.alike
        shared = self.random.normal(size=(len(sizes), DIMENSIONS))[clusters]
        own = self.random.normal(size=(len(clusters), DIMENSIONS))
        vectors = np.sqrt(alike) * shared + np.sqrt(1 - alike) * own
        uniform = self.random.random((len(clusters), self._outputs))
        if alike == 1:
            uniform = self.random.random((len(sizes), self._outputs))[clusters]
        scores = self._scores(vectors, uniform) + self.offsets

        if not self.kind.shares:
            return Rows(vectors, scores[:, 0], clusters)
        if self.kind.sets:
            return Rows(vectors, (scores > 0).astype(np.int8), clusters)
        return Rows(vectors, scores.argmax(axis=1), clusters)


def fit(kind: Kind, train: Rows) -> Callable[[NDArray[np.float64]], NDArray[Any]]:
    """Fit a linear model by least squares; it predicts each label as often as train has it."""
    targets = train.labels
    if targets.ndim == 1 and kind.shares:
        targets = targets[:, None] == np.arange(len(kind.shares))
    design = np.column_stack([train.vectors, np.ones(len(train.vectors))])
    weights, *_ = np.linalg.lstsq(design, targets.astype(np.float64).reshape(len(design), -1), rcond=None)

    def outputs(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        values: NDArray[np.float64] = np.column_stack([vectors, np.ones(len(vectors))]) @ weights
        return values

    if not kind.shares:
        return lambda vectors: outputs(vectors)[:, 0]
    fitted = outputs(train.vectors)
    thresholds = [np.quantile(fitted[:, index], 1 - share) for index, share in enumerate(kind.shares)]
    if kind.sets:
        return lambda vectors: (outputs(vectors) > thresholds).astype(np.int8)
    return lambda vectors: (outputs(vectors) - thresholds).argmax(axis=1)


@dataclass
class Tally:
    """How many intervals hold the value, and the sum of their widths."""

    held: int = 0
    width: float = 0.0

    def add(self, low: float, high: float, value: float) -> None:
        """Count an interval."""
        self.held += int(low - 1e-12 <= value <= high + 1e-12)
        self.width += high - low


def measure(kind: Kind, draws: int, seed: int) -> dict[str, Tally]:
    """Return the tallies of a kind: of the metric and of a difference."""
    metric = METRIC_TABLE[kind.metric]
    options: dict[str, Any] = {"average": kind.average}
    tallies = {name: Tally() for name in COLUMNS}

    source = Source(kind, np.random.default_rng(seed))
    for draw in range(draws):
        # two models, and their values
        random = np.random.default_rng([seed, draw])
        source.random = random
        train = source.rows(kind.sizes(TRAIN_CLUSTERS, random))
        half = train.clusters < TRAIN_CLUSTERS // 2
        first = fit(kind, train)
        second = fit(kind, Rows(train.vectors[half], train.labels[half], train.clusters[half]))
        fresh = source.rows(np.ones(FRESH_ROWS, np.int64))
        value = compute_metric(metric, fresh.labels, first(fresh.vectors), **options)
        lead = value - compute_metric(metric, fresh.labels, second(fresh.vectors), **options)

        # their intervals
        test = source.rows(kind.sizes(kind.clusters, random))
        columns = (test.labels, first(test.vectors), second(test.vectors))
        estimate = metric_interval(metric, *columns[:2], clusters=test.clusters, **options)
        if estimate is not None:
            tallies["interval"].add(estimate.low, estimate.high, value)
        difference = paired_difference(metric, *columns, clusters=test.clusters, **options)
        tallies["difference"].add(difference.low, difference.high, lead)
    return tallies


def main() -> None:
    """Print a row of a table for each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help="begin of the names of kinds; default: all")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    print(f"| kind | metric | clusters | {' | '.join(COLUMNS)} |")
    print("| --- | --- | --- | --- | --- |")
    for kind in KINDS:
        if arguments.kinds and not kind.name.startswith(tuple(arguments.kinds)):
            continue
        tallies = measure(kind, arguments.draws, arguments.seed)
        cells = []
        for column in COLUMNS:
            tally = tallies[column]
            cells.append(f"{tally.held / arguments.draws:.1%}, {tally.width / arguments.draws:.3f}")
        print(f"| {kind.name} | {kind.metric} | {kind.clusters} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
