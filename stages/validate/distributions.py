"""How far two distributions are from each other, and how far chance alone would put them.

Population stability index: sum over bins of (p - q) ln(p / q). Below 0.1 nothing moved, from 0.25 on much did, by custom. Under no
change its expectation is (bins - 1)(1/n + 1/m), and PSI / (1/n + 1/m) follows a chi-squared distribution with bins - 1 degrees
of freedom (Yurdakul and Naranjo, "Statistical properties of the population stability index", 2020): small samples reach 0.25
by chance. Kolmogorov-Smirnov: the largest distance of the two cumulative distributions, with its asymptotic significance.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

LEVELS = 100
"""Percentiles that a distribution of numbers is cut at."""
PSI_BINS = 10

Numbers = NDArray[np.integer] | NDArray[np.floating]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Distribution:
    """Numbers, counted in bins.

    Attributes:
        edges: Ascending; bin ``i`` holds what is above edge ``i - 1`` and not above edge ``i``.
        counts: One more than edges.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def of_numbers(cls, values: Numbers) -> Self:
        """Cuts numbers at their percentiles."""
        levels = np.linspace(0, 1, LEVELS + 1)[1:-1]
        edges = np.unique(np.quantile(values, levels, method="inverted_cdf")) if len(values) else np.empty(0)
        return cls(tuple(float(edge) for edge in edges), tuple(binned(values, edges).tolist()))

    @classmethod
    def of_classes(cls, ids: NDArray[np.integer], classes: int) -> Self:
        """Counts class ids."""
        edges = np.arange(classes - 1)
        return cls(tuple(float(edge) for edge in edges), tuple(binned(ids, edges).tolist()))


def binned(values: Numbers, edges: Numbers) -> Counts:
    """Counts ``values`` in the bins between ``edges``; of shape ``[len(edges) + 1]``."""
    return np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)


def coarse(counts: Counts, reference: Counts) -> tuple[Counts, Counts]:
    """Joins neighbouring bins until at most ``PSI_BINS`` are left, as even in the reference as whole bins allow."""
    if len(reference) <= PSI_BINS:
        return counts, reference
    middle = np.cumsum(reference) - reference / 2
    group = np.minimum(middle * PSI_BINS // max(reference.sum(), 1), PSI_BINS - 1).astype(np.int64)
    _, starts = np.unique(group, return_index=True)
    return np.add.reduceat(counts, starts), np.add.reduceat(reference, starts)


def stability_index(counts: Counts, reference: Counts) -> float:
    """Population stability index; half a row is added to every bin, so that an empty one is no infinity."""
    shares, expected = ((bins + 0.5) / (bins.sum() + 0.5 * len(bins)) for bins in (counts, reference))
    return float(np.sum((shares - expected) * np.log(shares / expected)))


def stability_chance(index: float, counts: Counts, reference: Counts) -> float:
    """How often chance alone makes the index as large: p of the chi-squared test of Yurdakul and Naranjo."""
    from scipy.stats import chi2

    scale = 1 / max(counts.sum(), 1) + 1 / max(reference.sum(), 1)
    return float(chi2.sf(index / scale, max(len(counts) - 1, 1)))


def ks_distance(counts: Counts, reference: Counts) -> float:
    """Largest distance of the cumulative distributions, over the edges of the bins."""
    here, there = (np.cumsum(bins) / max(bins.sum(), 1) for bins in (counts, reference))
    return float(np.abs(here - there).max(initial=0.0))


def ks_chance(distance: float, counts: Counts, reference: Counts) -> float:
    """How often chance alone makes the distance as large: asymptotic p of the two-sample test."""
    from scipy.stats import kstwobign

    rows, others = counts.sum(), reference.sum()
    return float(kstwobign.sf(distance * np.sqrt(rows * others / max(rows + others, 1))))
