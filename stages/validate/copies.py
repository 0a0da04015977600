"""Columns of the rows that repeat or resemble another row, of their split or of an earlier one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.validate.label_limits import label_tolerance
from stages.validate.raw import RawSplit
from tuneline.analysis.near_duplicates import NO_ROW, NearDuplicateRows, OriginRows, first_copies
from tuneline.analysis.text import Keys
from tuneline.tasks import Task

NUMBERED_THROUGH = ("leak_of", "near_duplicate_of")
"""Columns whose rows are numbered through all splits; other columns have rows of the split itself."""


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
    raw: Mapping[str, RawSplit], split: str, near_duplicates: NearDuplicateRows, labels: Task
) -> dict[str, NDArray[np.generic]]:
    """Return, for each row of a split, the row that it repeats or resembles.

    ``raw`` has all raw splits, earlier ones first. Columns have the shape ``(rows,)``, and ``NO_ROW`` for a
    row that repeats no other. ``duplicate_of`` and ``conflict_with`` are rows of the split itself.
    ``leak_of`` and ``near_duplicate_of`` are rows numbered through all splits; ``similarity`` belongs to the
    latter.
    """
    current = raw[split]
    columns: dict[str, NDArray[np.generic]] = {"duplicate_of": first_copies(current.keys)}
    if current.is_labelled:
        codes = current.label_codes
        columns["conflict_with"] = label_conflicts(current.keys, codes, label_tolerance(labels, codes))
    names = list(raw)
    earlier = names[: names.index(split)]
    if earlier:
        earlier_keys = [raw[name].unordered_keys for name in earlier]
        columns["leak_of"] = first_leaks(earlier_keys, current.unordered_keys)
    columns["near_duplicate_of"] = near_duplicates.origin
    columns["similarity"] = near_duplicates.similarity
    return columns


def copy_notes(
    raw: Mapping[str, RawSplit], columns: Mapping[str, NDArray[np.generic]]
) -> dict[str, list[str]]:
    """Return a line for the checks ``leakage`` and ``near_duplicates``, by key of the check.

    It says, for each split, how many rows of ``copy_columns`` are like a row of it.
    """
    ends = np.cumsum([split.rows for split in raw.values()])
    notes = {}
    for check, column, singular, plural in (
        ("leakage", "leak_of", "repeats", "repeat"),
        ("near_duplicates", "near_duplicate_of", "resembles", "resemble"),
    ):
        origin = columns.get(column, np.empty(0, np.int64))
        split_of_origin = np.searchsorted(ends, origin[origin != NO_ROW], side="right")
        counts = np.bincount(split_of_origin, minlength=len(raw)).tolist()
        parts = []
        for name, count in zip(raw, counts, strict=True):
            if count:
                verb = singular if count == 1 else plural
                parts.append(f"{count:,} {verb} a row of {name}")
        if parts:
            notes[check] = [f"Of these rows, {', '.join(parts)}."]
    return notes
