"""Is one model better than another on the same rows? Intervals and tests for paired predictions, on NumPy alone.

Paired bootstrap: rows are drawn with replacement, both models are scored on the same draw, and the percentiles of the
difference bound it (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, section 13.3; for two systems on one
test set: Koehn, "Statistical significance tests for machine translation evaluation", EMNLP 2004).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Metric = Literal["accuracy", "f1", "pearson"]
Ids = NDArray[np.int64]
Values = NDArray[np.float64]

_CHUNK = 4_000_000
"""Row draws in memory at a time: 32 MB."""


@dataclass(frozen=True)
class Interval:
    """A difference of a metric, candidate less baseline.

    Attributes:
        candidate: The metric on all rows.
        baseline: The other model's.
        low: Lower bound of the difference.
        high: Upper bound.
    """

    candidate: float
    baseline: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        """On all rows."""
        return self.candidate - self.baseline


def interval(
    metric: Metric,
    labels: NDArray[Any],
    candidate: NDArray[Any],
    baseline: NDArray[Any],
    *,
    binary: bool = False,
    resamples: int = 5000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Paired bootstrap interval of the difference of a metric.

    Args:
        metric: ``accuracy``, ``f1`` or ``pearson``.
        labels: Shape ``[rows]``: class ids, or numbers.
        candidate: Predictions of the one, of the same shape.
        baseline: Predictions of the other.
        binary: Whether F1 is that of class 1; else it is the mean over classes.
        resamples: Draws.
        confidence: Of the two-sided interval, for example 0.95.
        seed: Of the draws: the same predictions give the same decision.
    """
    columns = (labels, candidate, baseline)
    score = _numbers(*columns) if metric == "pearson" else _classes(_accuracy if metric == "accuracy" else _f1(binary), *columns)
    whole, drawn = score(np.random.default_rng(seed), resamples)
    tail = (1 - confidence) / 2 * 100
    low, high = np.percentile(drawn[:, 0] - drawn[:, 1], [tail, 100 - tail])
    return Interval(float(whole[0]), float(whole[1]), float(low), float(high))


Score = Callable[[np.random.Generator, int], tuple[Values, Values]]
"""From a generator and a number of draws: both models' metric on all rows ``[2]``, and on each draw ``[draws, 2]``."""


def _classes(measure: "Measure", labels: Ids, candidate: Ids, baseline: Ids) -> Score:
    """Drawing rows is drawing from a multinomial over the different (label, candidate, baseline) triples: the same, and fast."""
    triples, counts = np.unique(np.stack([labels, candidate, baseline], axis=1), axis=0, return_counts=True)

    def both(weights: Values) -> Values:
        return np.stack([measure(weights, triples[:, 0], triples[:, model]) for model in (1, 2)], axis=-1)

    def score(generator: np.random.Generator, draws: int) -> tuple[Values, Values]:
        drawn = generator.multinomial(counts.sum(), counts / counts.sum(), size=draws).astype(np.float64)
        return both(counts[None].astype(np.float64))[0], both(drawn)

    return score


Measure = Callable[[Values, Ids, Ids], Values]
"""From weights ``[draws, triples]``, labels and predictions ``[triples]``: the metric of each draw."""


def _accuracy(weights: Values, labels: Ids, predictions: Ids) -> Values:
    return np.asarray(weights @ (labels == predictions) / weights.sum(axis=1))


def _f1(binary: bool) -> Measure:
    """F1 of class 1, or the mean over the classes that a draw has in labels or predictions."""

    def measure(weights: Values, labels: Ids, predictions: Ids) -> Values:
        wanted = np.array([1]) if binary else np.union1d(labels, predictions)
        is_label, is_predicted = labels[:, None] == wanted, predictions[:, None] == wanted
        hits = weights @ (is_label & is_predicted)
        total = weights @ is_label + weights @ is_predicted
        f1 = np.divide(2 * hits, total, out=np.zeros_like(hits), where=total > 0)
        return np.asarray(f1.sum(axis=1) / np.maximum((total > 0).sum(axis=1), 1))

    return measure


def _numbers(labels: Values, candidate: Values, baseline: Values) -> Score:
    columns = np.stack([labels, candidate, baseline]).astype(np.float64)

    def score(generator: np.random.Generator, draws: int) -> tuple[Values, Values]:
        at_once = max(1, _CHUNK // columns.shape[1])
        drawn = [
            _pearson(columns[:, generator.integers(columns.shape[1], size=(min(at_once, draws - start), columns.shape[1]))])
            for start in range(0, draws, at_once)
        ]
        return _pearson(columns[:, None])[0], np.concatenate(drawn)

    return score


def _pearson(columns: Values) -> Values:
    """Correlation of the first of three arrays with the other two: ``[3, draws, rows]`` gives ``[draws, 2]``; 0 if undefined."""
    centred = columns - columns.mean(axis=2, keepdims=True)
    spread = np.sqrt((centred**2).sum(axis=2))
    together, apart = (centred[0] * centred[1:]).sum(axis=2), spread[0] * spread[1:]
    return np.asarray(np.divide(together, apart, out=np.zeros_like(together), where=apart > 0).T)


@dataclass(frozen=True)
class McNemar:
    """McNemar's test: of the rows that one model has right and the other wrong, do both have as many?

    Attributes:
        candidate_only: Rows that only the candidate has right.
        baseline_only: Rows that only the other has right.
        p: Two-sided, exact (McNemar, "Note on the sampling error of the difference between correlated proportions or
            percentages", Psychometrika 12, 1947; the exact conditional form: a binomial test of the discordant rows).
    """

    candidate_only: int
    baseline_only: int
    p: float


def mcnemar(labels: Ids, candidate: Ids, baseline: Ids) -> McNemar:
    """Compares which rows two classifiers have right; all arrays of shape ``[rows]``."""
    from scipy.stats import binomtest  # half a second, and only a gate needs it

    right, other = candidate == labels, baseline == labels
    ours, theirs = int((right & ~other).sum()), int((other & ~right).sum())
    return McNemar(ours, theirs, float(binomtest(ours, ours + theirs).pvalue) if ours + theirs else 1.0)


def commonest(labels: Ids) -> Ids:
    """Predictions of the strongest model that knows nothing: always the commonest label of these very rows."""
    values, counts = np.unique(labels, return_counts=True)
    return np.full_like(labels, values[counts.argmax()])
