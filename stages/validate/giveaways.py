"""What predicts a label almost alone: a word or a pair of words, the length of a row, a number in it.

It gives a label away if almost all rows that have it have the label, and a large part of the rows with the label have it. A real word
such as "refund" meets one of the two.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.validate.word_features import Ids, WordFeatures
from tuneline.drift import Numbers
from tuneline.stats import Interval, wilson_interval

BINS = 20
"""Bins that numbers are divided into, with as many rows each."""
NUMBER = r"(?P<number>[0-9][0-9.,:/T-]*)"
"""A number, date or time. Its digits, read as one number, have the order of ISO dates."""
MAX_DIGITS = 15
MIN_ROWS = 5
"""Fewer rows are never enough, and most words have fewer."""


@dataclass(frozen=True)
class Giveaway:
    """Something that many rows with a label have, and hardly another row.

    Attributes:
        name: What the rows have.
        label: Class id.
        rows: Number of rows that have it.
        precision: Fraction of these rows that have the label.
        interval: Its 95 % interval.
        coverage: Fraction of the rows with the label that have it.
    """

    name: str
    label: int
    rows: int
    precision: float
    interval: Interval
    coverage: float

    def sentence(self, names: Sequence[str]) -> str:
        """Describe it for the report, with the names of the labels."""
        low, high = (f"{100 * end:.3g}" for end in self.interval)
        return (
            f"{self.name}: {100 * self.coverage:.3g} % of {names[self.label]} have it, and of the {self.rows:,} rows that have it, "
            f"{100 * self.precision:.3g} % are {names[self.label]} (95 % interval {low} to {high} %)."
        )


@dataclass(frozen=True)
class Criterion:
    """When something gives a label away.

    The lower end of the interval of its precision must close a fraction of the gap between the label's share of the rows and 1. This
    needs so many rows that by chance less than one in 10^11 words meets it: their number needs no correction.

    Attributes:
        rows: Rows of each label, int64 of shape ``(classes,)``.
        precision: The fraction of the gap.
    """

    rows: Ids
    precision: float

    @property
    def least(self) -> NDArray[np.float64]:
        """Least lower end for each label, of shape ``(classes,)``."""
        share: NDArray[np.float64] = self.rows / self.rows.sum()
        return share + self.precision * (1 - share)

    def apply(self, name: str, label: int, own: int, rows: int) -> Giveaway | None:
        """Return what ``rows`` rows have, of which ``own`` have the label, if it gives the label away."""
        interval = wilson_interval(own, rows)
        return Giveaway(name, label, rows, own / rows, interval, own / int(self.rows[label])) if interval.low >= self.least[label] else None


def revealing_words(features: WordFeatures, rows: NDArray[np.bool_], labels: Ids, classes: int, precision: float) -> list[Giveaway]:
    """Find words and word pairs that give a label away.

    Args:
        features: Words of the rows of all splits.
        rows: True for the rows of the split.
        labels: Class ids of the rows of all splits.
        classes: Number of classes.
        precision: That of the ``Criterion``.

    Returns:
        The words, that of the largest coverage first.
    """
    inside = rows[features.rows]
    ids = features.ids[inside] * classes + labels[features.rows[inside]]
    counts = np.bincount(ids, minlength=len(features) * classes).reshape(-1, classes)
    total, criterion = counts.sum(axis=1), Criterion(np.bincount(labels[rows], minlength=classes), precision)
    candidates = np.nonzero((counts >= criterion.least * total[:, None]) & (counts >= MIN_ROWS))
    found = [
        criterion.apply(features.name(word), int(label), int(counts[word, label]), int(total[word]))
        for word, label in zip(*candidates, strict=True)
    ]
    return sorted(filter(None, found), key=lambda giveaway: -giveaway.coverage)


def revealing_numbers(name: str, values: Numbers, labels: Ids, classes: int, precision: float) -> list[Giveaway]:
    """Find labels that a number gives away, for example the length of the row: by all bins of it that hold hardly another label.

    Args:
        name: What the number is.
        values: The number of each row, shape ``(rows,)``; NaN for none.
        labels: Class ids.
        classes: Number of classes.
        precision: That of the ``Criterion``.
    """
    known = ~np.isnan(values)
    if not known.any():
        return []
    criterion = Criterion(np.bincount(labels, minlength=classes), precision)
    if not known.all():  # else no copies of ten million numbers
        values, labels = values[known], labels[known]
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1], method="inverted_cdf"))
    bins = np.searchsorted(edges, values, side="left")
    counts = np.bincount(bins * classes + labels, minlength=(len(edges) + 1) * classes).reshape(-1, classes)
    total, found = counts.sum(axis=1), []
    for label, least in enumerate(criterion.least):
        chosen = (total > 0) & (counts[:, label] >= least * total)
        if chosen.any():
            inside = values[chosen[bins]]
            title = f"{name} from {inside.min():.15g} to {inside.max():.15g}"
            found.append(criterion.apply(title, label, int(counts[chosen, label].sum()), int(total[chosen].sum())))
    return sorted(filter(None, found), key=lambda giveaway: -giveaway.coverage)


def first_numbers(columns: Sequence[pa.Array]) -> NDArray[np.float64]:
    """Return the first number, date or time in the texts of each row, NaN for none; shape ``(rows,)``."""
    texts = pc.binary_join_element_wise(*columns, " ")
    digits = pc.replace_substring_regex(pc.struct_field(pc.extract_regex(texts, NUMBER), "number"), r"[^0-9]", "")
    numbers: NDArray[np.float64] = pc.utf8_slice_codeunits(digits, 0, MAX_DIGITS).cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers
