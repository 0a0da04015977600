"""Columns of the rows that repeat or resemble another row, of their split or of an earlier one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.validate.raw import RawSplit
from tuneline.analysis.near_duplicates import NO_ROW, NearDuplicateRows, OriginRows, first_copies
from tuneline.analysis.text import Keys
from tuneline.core.tables import LABELS


def label_conflicts(keys: Keys, labels: NDArray[Any], tolerance: float) -> OriginRows:
    """Return, for each row, a row with the same text and a label that differs by more than ``tolerance``."""
    conflicts = np.full(len(keys), NO_ROW, np.int32)

    # rows of one text stand together, sorted by label: find where each text begins and ends
    order = np.lexsort((labels, keys))
    sorted_keys = keys[order]
    sorted_labels = labels[order].astype(np.float64)
    starts = np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]])[: len(keys)]
    ends = np.r_[starts[1:], len(keys)] - 1
    text = np.repeat(np.arange(len(starts)), ends - starts + 1)
    low = starts[text]
    high = ends[text]

    # so the most different label is at one of the two ends
    to_low = sorted_labels - sorted_labels[low]
    to_high = sorted_labels[high] - sorted_labels
    most_different = np.where(to_high >= to_low, high, low)
    is_conflict = sorted_labels[high] - sorted_labels[low] > tolerance
    conflicts[order] = np.where(is_conflict, order[most_different], NO_ROW)
    return conflicts


def first_leaks(earlier: Sequence[Keys], keys: Keys) -> OriginRows:
    """Return, for each row of a split, the first row of the earlier splits with the same key.

    Rows of the earlier splits are numbered through all of them.
    """
    before = sum(map(len, earlier))
    origin = first_copies(np.concatenate([*earlier, keys]))[before:]
    # from ``before`` on, the first row with this key is in the split itself
    return np.where(origin < before, origin, np.int32(NO_ROW))


def copy_columns(
    raw: Mapping[str, RawSplit], split: str, near_duplicates: NearDuplicateRows
) -> dict[str, NDArray[np.generic]]:
    """Return, for each row of a split, the row that it repeats or resembles, numbered through all splits.

    ``raw`` has all raw splits, earlier ones first. Columns have the shape ``(rows,)``, and ``NO_ROW`` for a
    row that repeats no other; ``similarity`` belongs to ``near_duplicate_of``.
    """
    current = raw[split]
    names = list(raw)
    earlier = names[: names.index(split)]
    start = sum(raw[name].rows for name in earlier)
    keys = current.columns.column("key")
    columns: dict[str, NDArray[np.generic]] = {"duplicate_of": _numbered(first_copies(keys), start)}
    if current.is_labelled:
        codes = current.columns.column(LABELS)
        tolerance = 0.0 if current.task.has_classes else float(np.nanstd(codes))
        columns["conflict_with"] = _numbered(label_conflicts(keys, codes, tolerance), start)
    if earlier:
        earlier_keys = [raw[name].columns.column("unordered_key") for name in earlier]
        columns["leak_of"] = first_leaks(earlier_keys, current.columns.column("unordered_key"))
    columns["near_duplicate_of"] = near_duplicates.origin
    columns["similarity"] = near_duplicates.similarity
    return columns


def _numbered(rows: OriginRows, start: int) -> OriginRows:
    """Return the rows of a split numbered through all splits, of which ``start`` rows are earlier."""
    return np.where(rows == NO_ROW, rows, rows + np.int32(start))


def split_of_rows(
    raw: Mapping[str, RawSplit], rows: NDArray[np.integer]
) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """Return the split of rows that are numbered through all splits, and their numbers in it."""
    ends = np.cumsum([split.rows for split in raw.values()])
    position = np.searchsorted(ends, rows, side="right")
    return np.array(list(raw))[position], rows - np.append(0, ends)[position]
