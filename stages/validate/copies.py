"""Rows that repeat another row: in the same split, with another label, or in an earlier split."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.validate.near_duplicates import find_near_duplicates, sample_rows
from stages.validate.raw import RawSplit
from stages.validate.rows import Rows
from tuneline.files.schemas import LabelSchema
from tuneline.params import ValidateParams
from tuneline.paths import split_file
from tuneline.text import Keys

NONE = -1
"""Marks a row that repeats no other."""


def copy_columns(
    raw: Mapping[str, RawSplit], split: str, *, params: ValidateParams, folder: Path, text_columns: list[str], labels: LabelSchema
) -> dict[str, NDArray[np.generic]]:
    """Return, for each row of a split, the row that it repeats.

    Args:
        raw: All raw splits, earlier splits first.
        split: The split whose rows are compared.
        params: Similarity of near-duplicates, and the size of the sample that is compared.
        folder: Folder of the raw files.
        text_columns: Columns with texts.
        labels: The label schema.

    Returns:
        Columns of shape ``(rows,)``, -1 for a row that repeats no other. ``duplicate_of`` and ``conflict_with`` are rows of the split
        itself. ``leak_of`` and ``near_duplicate_of`` are rows of the earlier splits, numbered through all of them; ``similarity``
        belongs to ``near_duplicate_of``.
    """
    current = raw[split]
    columns: dict[str, NDArray[np.generic]] = {"duplicate_of": first_copies(current.keys)}
    if current.is_labelled:
        tolerance = float(np.nanstd(current.labels)) if labels.is_regression else 0.0
        columns["conflict_with"] = label_conflicts(current.keys, current.labels, tolerance)
    earlier = list(raw)[: list(raw).index(split)]
    if earlier:
        leak_of = leaks([raw[name].unordered_keys for name in earlier], current.unordered_keys)
        sampled = sample_rows(current.unordered_keys, params.near_duplicates.rows)
        near = find_near_duplicates(
            split_file(folder, split),
            sampled[leak_of[sampled] == NONE],  # an exact copy is reported as a leak only
            len(current.frame),
            earlier=[split_file(folder, name) for name in earlier],
            text_columns=text_columns,
            similarity=params.near_duplicates.similarity,
        )
        near.origin[sampled] = np.nan_to_num(near.origin[sampled], nan=NONE)
        columns |= {"leak_of": leak_of, "near_duplicate_of": near.origin, "similarity": near.similarity}
    return columns


def first_copies(keys: Keys) -> Rows:
    """Return, for each row, the first row with the same key; ``NONE`` for that first row itself."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    origin = first[inverse]
    return np.where(origin == np.arange(len(keys)), NONE, origin)


def label_conflicts(keys: Keys, labels: NDArray[Any], tolerance: float) -> Rows:
    """Return, for each row, a row of the split that has the same text and another label.

    Args:
        keys: Keys of the rows' texts.
        labels: Class ids or regression targets.
        tolerance: Largest difference of two labels that is no conflict; 0 for class ids.
    """
    order = np.lexsort((labels, keys))
    sorted_keys, sorted_labels = keys[order], labels[order].astype(np.float64)
    starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])[: len(keys)]
    ends = np.r_[starts[1:], len(keys)] - 1
    text = np.repeat(np.arange(len(starts)), ends - starts + 1)
    low, high = starts[text], ends[text]
    # Rows of one text are sorted by label, so the most different label is at one of the two ends.
    to_low, to_high = sorted_labels - sorted_labels[low], sorted_labels[high] - sorted_labels
    other = np.where(to_high >= to_low, high, low)
    result = np.full(len(keys), NONE, dtype=np.int64)
    result[order] = np.where(sorted_labels[high] - sorted_labels[low] > tolerance, order[other], NONE)
    return result


def leaks(earlier: Sequence[Keys], keys: Keys) -> Rows:
    """Return, for each row of a split, the first row of the earlier splits with the same key.

    Args:
        earlier: Keys of the rows of each earlier split.
        keys: Keys of the rows of the split itself.

    Returns:
        Row numbers counted through all earlier splits, or ``NONE``.
    """
    result = np.full(len(keys), NONE, dtype=np.int64)
    known, first = np.unique(np.concatenate(earlier), return_index=True)
    if len(known):
        position = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        is_same = known[position] == keys
        result[is_same] = first[position[is_same]]
    return result
