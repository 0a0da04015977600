"""Rows that repeat another row: inside a split, with another label, or across splits."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.validate.text import Keys

Rows = NDArray[np.int64]
NONE = -1
"""Stands where a row repeats no other."""


def earlier_copies(keys: Keys) -> Rows:
    """The first row with the same key, for every row after it; ``NONE`` for that first row itself."""
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    origin = first[places]
    return np.where(origin == np.arange(len(keys)), NONE, origin)


def conflicts(keys: Keys, labels: NDArray[Any], tolerance: float) -> Rows:
    """For every row whose text also stands in the split with another label, one row that says otherwise.

    Args:
        keys: Of the rows' texts.
        labels: Class ids, or numbers.
        tolerance: LabelSchema of the same text may differ by so much. 0 for class ids.
    """
    order = np.lexsort((labels, keys))
    sorted_keys, sorted_labels = keys[order], labels[order].astype(np.float64)
    starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])[: len(keys)]
    ends = np.r_[starts[1:], len(keys)] - 1
    group = np.repeat(np.arange(len(starts)), ends - starts + 1)
    low, high = starts[group], ends[group]
    # The group is sorted by label: of its two ends, the one further away says the most different thing.
    to_low, to_high = sorted_labels - sorted_labels[low], sorted_labels[high] - sorted_labels
    other = np.where(to_high >= to_low, high, low)
    found = np.full(len(keys), NONE, dtype=np.int64)
    found[order] = np.where(sorted_labels[high] - sorted_labels[low] > tolerance, order[other], NONE)
    return found


def leaks(earlier: Sequence[Keys], keys: Keys) -> Rows:
    """For every row of a split that stands in a split before it, where.

    Args:
        earlier: Keys of the rows of the splits before it.
        keys: Of its own rows.

    Returns:
        A row counted through all earlier splits, or ``NONE``.
    """
    found = np.full(len(keys), NONE, dtype=np.int64)
    known, first = np.unique(np.concatenate(earlier), return_index=True)
    if len(known):
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        same = known[place] == keys
        found[same] = first[place[same]]
    return found
