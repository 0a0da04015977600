"""Distances between two data sets, and the words they are compared by: for data checks, promotions and scoring alike.

Population stability index (PSI): sum over bins of (p - q) ln(p / q). By custom, below 0.1 nothing moved and from 0.25 on much did.
Under no change its expectation is (bins - 1)(1/n + 1/m), and PSI / (1/n + 1/m) follows a chi-squared distribution with bins - 1
degrees of freedom (Yurdakul and Naranjo, "Statistical properties of the population stability index", 2020): small samples reach
0.25 by chance. Kolmogorov-Smirnov: the largest distance of the two cumulative distributions, with its asymptotic p-value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

QUANTILES = 100
"""Bins that a distribution of numbers is cut into."""
PSI_BINS = 10
"""Bins at most for the stability index."""
WORD_SEPARATORS = r" ?[^\p{L}\p{N} ][^\p{L}\p{N}]*"
"""What separates words, except a single space: leaving single spaces out saves most of the work."""
BOUNDARY = "\x1e"
"""Marker before, between and after the texts of a row when they are split into words."""

Numbers = NDArray[np.integer] | NDArray[np.floating]
Counts = NDArray[np.int64]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Distribution:
    """Numbers, counted in bins.

    Attributes:
        edges: Ascending; bin ``i`` holds values above edge ``i - 1`` and up to edge ``i``.
        counts: Values in each bin; one more than edges.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    @classmethod
    def of_numbers(cls, values: Numbers) -> Self:
        """Count numbers in bins whose edges are their percentiles."""
        levels = np.linspace(0, 1, QUANTILES + 1)[1:-1]
        edges = np.unique(np.quantile(values, levels, method="inverted_cdf")) if len(values) else np.empty(0)
        return cls(tuple(float(edge) for edge in edges), tuple(bin_counts(values, edges).tolist()))

    @classmethod
    def of_classes(cls, ids: NDArray[np.integer], classes: int) -> Self:
        """Count class ids, one bin for each class."""
        edges = np.arange(classes - 1)
        return cls(tuple(float(edge) for edge in edges), tuple(bin_counts(ids, edges).tolist()))


def bin_counts(values: Numbers, edges: Numbers) -> Counts:
    """Count ``values`` in the bins between ``edges``; returns shape ``(len(edges) + 1,)``."""
    return np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)


def merge_bins(counts: Counts, reference: Counts) -> tuple[Counts, Counts]:
    """Join neighbouring bins until at most ``PSI_BINS`` are left, as even in the reference as whole bins allow."""
    if len(reference) <= PSI_BINS:
        return counts, reference
    middle = np.cumsum(reference) - reference / 2
    group = np.minimum(middle * PSI_BINS // max(reference.sum(), 1), PSI_BINS - 1).astype(np.int64)
    _, starts = np.unique(group, return_index=True)
    return np.add.reduceat(counts, starts), np.add.reduceat(reference, starts)


def stability_index(counts: Counts, reference: Counts) -> float:
    """Return the population stability index. Half a row is added to every bin, so that an empty bin gives no infinity."""
    shares, expected = ((bins + 0.5) / (bins.sum() + 0.5 * len(bins)) for bins in (counts, reference))
    return float(np.sum((shares - expected) * np.log(shares / expected)))


def stability_p_value(index: float, counts: Counts, reference: Counts) -> float:
    """Return the probability of an index as large under no change: chi-squared test of Yurdakul and Naranjo."""
    from scipy.stats import chi2

    scale = 1 / max(counts.sum(), 1) + 1 / max(reference.sum(), 1)
    return float(chi2.sf(index / scale, max(len(counts) - 1, 1)))


def ks_distance(counts: Counts, reference: Counts) -> float:
    """Return the largest distance of the cumulative distributions, over the edges of the bins."""
    ours, theirs = (np.cumsum(bins) / max(bins.sum(), 1) for bins in (counts, reference))
    return float(np.abs(ours - theirs).max(initial=0.0))


def ks_p_value(distance: float, counts: Counts, reference: Counts) -> float:
    """Return the probability of a distance as large under no change: asymptotic two-sample Kolmogorov-Smirnov test."""
    from scipy.stats import kstwobign

    rows, others = counts.sum(), reference.sum()
    return float(kstwobign.sf(distance * np.sqrt(rows * others / max(rows + others, 1))))


def normalized(texts: pa.StringArray) -> pa.StringArray:
    """Normalize texts: Unicode NFKC, lower case, each run of white space one space, none at the ends."""
    lowered = pc.utf8_trim_whitespace(pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC")))
    # Matching is ten times faster than replacing, and most texts have nothing to replace.
    loose = pc.match_substring_regex(lowered, r"\s\s|[^\S ]")
    if not pc.any(loose).as_py():
        return lowered
    return pc.replace_with_mask(lowered, loose, pc.replace_substring_regex(lowered.filter(loose), r"\s+", " "))


def words(columns: Sequence[pa.StringArray]) -> pa.ListArray:
    """Split the normalized texts of each row into words of letters and digits, with ``BOUNDARY`` around each text.

    A text without a letter or digit is one word by itself, so that ``!!!`` and ``???`` stay different.
    """
    edge = pa.scalar(BOUNDARY)
    parts = [edge]
    for texts in columns:
        spaced = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, WORD_SEPARATORS, " "))
        parts += [pc.if_else(pc.equal(spaced, ""), pc.replace_substring(texts, " ", "_"), spaced), edge]
    return pc.split_pattern(pc.binary_join_element_wise(*parts, " "), " ")


def text_keys(texts: pa.StringArray) -> Hashes:
    """Return a 64-bit hash of each text, the same in every run. Among a million texts two collide once in 40 million data sets."""
    from pandas.util import hash_array  # takes most of a second to import

    values = np.asarray(texts.to_pylist(), dtype=object)
    return hash_array(values, categorize=False).astype(np.uint64, copy=False)


def word_counts(rows: pa.ListArray) -> tuple[Hashes, Counts]:
    """Count the words of rows that ``words`` split.

    Returns:
        The hash of each different word, and how often it occurs, in the same order.
    """
    found = pc.value_counts(rows.flatten())
    keep = pc.not_equal(found.field("values"), BOUNDARY)
    return text_keys(found.field("values").filter(keep)), found.field("counts").filter(keep).to_numpy()
