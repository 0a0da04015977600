"""Rows with the same text, in one split or two, and their labels. Keys are compared in partitions: memory is that of one of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.partitions import partitions
from tuneline.text import Keys

Numbers = NDArray[np.int32]
"""Row numbers, of which ten million take 40 MB; at most two billion rows."""

NONE = -1
"""Marks a row that repeats or resembles no other."""


def first_copies(keys: Keys) -> Numbers:
    """Return, for each row, the first row with the same key; ``NONE`` for that first row itself."""
    origin = np.full(len(keys), NONE, np.int32)
    for rows in partitions(keys):
        _, first, inverse = np.unique(keys[rows], return_index=True, return_inverse=True)
        originals = rows[first[inverse]]
        origin[rows] = np.where(originals == rows, NONE, originals)
    return origin


def label_conflicts(keys: Keys, labels: NDArray[Any], tolerance: float) -> Numbers:
    """Return, for each row, a row of the split that has the same text and another label.

    Args:
        keys: Keys of the rows' texts.
        labels: Class ids or regression targets.
        tolerance: Largest difference of two labels that is no conflict; 0 for class ids.
    """
    result = np.full(len(keys), NONE, np.int32)
    for rows in partitions(keys):
        order = rows[np.lexsort((labels[rows], keys[rows]))]
        sorted_keys, sorted_labels = keys[order], labels[order].astype(np.float64)
        starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])[: len(rows)]
        ends = np.r_[starts[1:], len(rows)] - 1
        text = np.repeat(np.arange(len(starts)), ends - starts + 1)
        low, high = starts[text], ends[text]
        # Rows of one text are sorted by label, so the most different label is at one of the two ends.
        to_low, to_high = sorted_labels - sorted_labels[low], sorted_labels[high] - sorted_labels
        other = np.where(to_high >= to_low, high, low)
        result[order] = np.where(sorted_labels[high] - sorted_labels[low] > tolerance, order[other], NONE)
    return result


def leaks(earlier: Sequence[Keys], keys: Keys) -> Numbers:
    """Return, for each row of a split, the first row of the earlier splits with the same key.

    Args:
        earlier: Keys of the rows of each earlier split.
        keys: Keys of the rows of the split itself.

    Returns:
        Row numbers counted through all earlier splits, or ``NONE``.
    """
    before = np.concatenate(earlier)
    number = len(before)
    result = np.full(len(keys), NONE, np.int32)
    for rows in partitions(np.concatenate([before, keys])):
        split = np.searchsorted(rows, number)
        old, new = rows[:split], rows[split:] - number
        known, first = np.unique(before[old], return_index=True)
        if len(known):
            position = np.minimum(np.searchsorted(known, keys[new]), len(known) - 1)
            is_same = known[position] == keys[new]
            result[new[is_same]] = old[first[position[is_same]]]
    return result
