"""Histograms of numbers and of labels, the distance between two of them, and its significance.

Population stability index (PSI): sum over bins of (p - q) ln(p / q). By convention below 0.1 is no change,
and 0.25 or more a large one. Without a change its expectation is (bins - 1)(1/n + 1/m), and PSI / (1/n + 1/m)
follows a chi-squared distribution with bins - 1 degrees of freedom (Yurdakul and Naranjo, "Statistical
properties of the population stability index", 2020), so small samples often reach 0.25 by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.model.tasks import Task
from tuneline.model.tasks.task import Labels

QUANTILES = 100
"""Percentiles at which a distribution of numbers is binned."""
PSI_BINS = 10
Numbers = NDArray[np.integer] | NDArray[np.floating]
Counts = NDArray[np.int64]


class Distance(NamedTuple):
    """A distance of two distributions, and the probability of one as large without a change."""

    value: float
    p_value: float


@dataclass(frozen=True)
class Distribution:
    """A histogram: bin ``i`` holds values above edge ``i - 1``, up to and including edge ``i``.

    So there is one bin more than edges.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def of_numbers(cls, values: Numbers) -> Self:
        """Bin numbers at their percentiles."""
        edges = np.empty(0)
        if len(values):
            levels = np.linspace(0, 1, QUANTILES + 1)[1:-1]
            edges = np.unique(np.quantile(values, levels, method="inverted_cdf"))
        counts = bin_counts(values, edges)
        return cls(tuple(map(float, edges)), tuple(counts.tolist()))

    @classmethod
    def of_classes(cls, ids: NDArray[np.integer], classes: int) -> Self:
        """Count class ids, one bin per class."""
        edges = np.arange(classes - 1)
        counts = bin_counts(ids, edges)
        return cls(tuple(map(float, edges)), tuple(counts.tolist()))

    def quantile(self, level: float) -> float:
        """Return the lowest edge that at least a fraction of the values do not exceed, else the highest edge.

        There must be an edge.
        """
        reached = np.cumsum(self.counts)[:-1] >= level * sum(self.counts)
        if not reached.any():
            return self.edges[-1]
        return self.edges[int(reached.argmax())]


def bin_counts(values: Numbers, edges: Numbers) -> Counts:
    """Count ``values`` in the bins between ``edges``; of shape ``(len(edges) + 1,)``."""
    return np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)


def merge_bins(counts: Counts, reference: Counts) -> tuple[Counts, Counts]:
    """Merge neighbouring bins of both histograms until at most ``PSI_BINS`` are left.

    The merged bins are as even in the reference as whole bins allow.
    """
    if len(reference) <= PSI_BINS:
        return counts, reference
    # A bin goes to the tenth of the reference that its middle is in.
    middle = np.cumsum(reference) - reference / 2
    merged = np.minimum(middle * PSI_BINS // max(reference.sum(), 1), PSI_BINS - 1).astype(np.int64)
    _, starts = np.unique(merged, return_index=True)
    return np.add.reduceat(counts, starts), np.add.reduceat(reference, starts)


def population_stability(counts: Counts, reference: Counts) -> Distance:
    """Return the population stability index of two histograms, with its p-value.

    It is computed over at most ``PSI_BINS`` merged bins. Half a row is added to every bin, so that an empty
    bin does not make the index infinite. The p-value comes from the chi-squared test of Yurdakul and Naranjo.
    """
    # the survival function of scipy.stats.chi2, which takes a second to import
    from scipy.special import chdtrc

    counts, reference = merge_bins(counts, reference)
    p = (counts + 0.5) / (counts.sum() + 0.5 * len(counts))
    q = (reference + 0.5) / (reference.sum() + 0.5 * len(reference))
    index = float(np.sum((p - q) * np.log(p / q)))
    scale = 1 / max(counts.sum(), 1) + 1 / max(reference.sum(), 1)
    return Distance(index, float(chdtrc(max(len(counts) - 1, 1), index / scale)))


def population_stabilities(counts: Sequence[Counts], references: Sequence[Counts]) -> list[Distance]:
    """Return the population stability index of each of several histograms and its reference.

    The p-values are multiplied by their number (Bonferroni): one of many is small by chance.
    """
    distances = []
    for histogram, reference in zip(counts, references, strict=True):
        value, p_value = population_stability(histogram, reference)
        distances.append(Distance(value, min(p_value * len(counts), 1.0)))
    return distances


def most_drifted(distances: Sequence[Distance], significance: float) -> int:
    """Return the position of the largest distance with at most this p-value; without any, of the largest."""
    return max(
        range(len(distances)),
        key=lambda position: (distances[position].p_value <= significance, distances[position].value),
    )


def bins(task: Task, train: Labels) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Return a few bins of labels, given the labels of train: their names, and the edges between them.

    Bin ``i`` has the labels above edge ``i - 1``, up to and including edge ``i``. There is one for each
    class, whose name is in quotes; numbers have two: up to the median of train, and above.
    """
    if task.has_classes:
        return tuple(f'"{name}"' for name in task.class_names), tuple(range(task.outputs - 1))
    numbers = train[task.valid(train)]
    median = float(np.median(numbers)) if len(numbers) else 0.0
    return (f"labels up to {median:.4g}", f"labels above {median:.4g}"), (median,)


def bin_values(task: Task, labels: Labels) -> Labels:
    """Return what is counted in ``bins`` of valid labels, shape ``(values,)``.

    Where a row can have several labels, it counts once for each.
    """
    if task.label_shape:
        return np.asarray(np.nonzero(labels == 1)[1])
    return labels


def histograms(task: Task, counts: NDArray[np.int64], rows: int) -> list[NDArray[np.int64]]:
    """Return what is compared with other rows to find drift, given how often each of ``bins`` occurs.

    Each histogram counts every row once. Where a row can have several labels, which depend on each other,
    there is one for each label: the rows with and without it.
    """
    if task.label_shape:
        return [np.array([count, rows - count]) for count in np.minimum(counts, rows).tolist()]
    return [counts]


def largest_share(task: Task, labels: Labels) -> float:
    """Return the share of the rows with the most frequent label, or with none; there is a row."""
    if not task.label_shape:
        _, rows = np.unique(labels, return_counts=True)
        return float(rows.max() / rows.sum())
    sets = labels[task.valid(labels)] == 1
    if not sets.size:
        return 0.0
    return float(max(sets.mean(axis=0).max(), (~sets.any(axis=1)).mean()))
