"""Scalar columns of the raw splits, keys of their rows, counts of their words, and the rows that repeat another row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.validate.near_duplicates import find_near_duplicates, sample_rows
from stages.validate.rows import Rows, read_batches
from tuneline.files.schemas import LABELS, UNLABELLED, LabelSchema
from tuneline.params import ValidateParams
from tuneline.paths import split_file
from tuneline.terminal import phase
from tuneline.text import (
    BROKEN_ENCODING,
    CONTROL_CHARACTERS,
    Keys,
    VocabularyCounts,
    normalized,
    row_keys,
    text_keys,
    unordered_row_keys,
    words,
)

NONE = -1
"""Marks a row that repeats no other."""


@dataclass(frozen=True)
class RawSplit:
    """One raw split.

    Attributes:
        frame: Scalar columns, one row per row: ``row``, ``missing``, ``visible_characters`` (of the shorter text), ``characters``,
            ``control_characters``, ``broken_characters``, ``labels``.
        keys: Keys of the rows' texts.
        unordered_keys: Keys that do not depend on the order of the texts in a row.
        vocabulary: Counts of the words of all rows.
    """

    frame: pd.DataFrame
    keys: Keys
    unordered_keys: Keys
    vocabulary: VocabularyCounts

    @property
    def labels(self) -> NDArray[Any]:
        """Labels of shape ``(rows,)``."""
        return self.frame[LABELS].to_numpy()

    @property
    def is_labelled(self) -> bool:
        """True if any row has a label; a split that is published without labels has -1 in all rows."""
        return not len(self.frame) or bool((self.labels != UNLABELLED).any())


def read_raw(path: Path, text_columns: Sequence[str]) -> RawSplit:
    """Read one file of ``data/raw/`` in batches of rows."""
    phase(f"texts of {path.stem}")
    frames, keys, unordered, vocabulary = [], [], [], VocabularyCounts.empty()
    for batch in read_batches(path):
        texts = [normalized(pc.fill_null(batch[name], "")) for name in text_columns]
        hashes = [text_keys(column) for column in texts]
        frames.append(_scalar_columns(batch, text_columns))
        keys.append(row_keys(hashes))
        unordered.append(unordered_row_keys(hashes))
        vocabulary = vocabulary.plus(VocabularyCounts.of(words(texts)))
    frame = pd.concat(frames, ignore_index=True)
    frame.insert(0, "row", np.arange(len(frame)))
    return RawSplit(frame, np.concatenate(keys), np.concatenate(unordered), vocabulary)


def _scalar_columns(batch: pa.RecordBatch, text_columns: Sequence[str]) -> pd.DataFrame:
    zeros = np.zeros(batch.num_rows, dtype=np.int64)
    columns = {"missing": zeros, "characters": zeros, "control_characters": zeros, "broken_characters": zeros}
    visible = np.full(batch.num_rows, np.iinfo(np.int64).max)
    for name in text_columns:
        texts, is_missing = pc.fill_null(batch[name], ""), batch[name].is_null().to_numpy(zero_copy_only=False)
        counts = {
            "missing": is_missing,
            "characters": _as_integers(pc.utf8_length(texts)),
            "control_characters": _as_integers(pc.count_substring_regex(texts, CONTROL_CHARACTERS)),
            "broken_characters": _as_integers(pc.count_substring_regex(texts, BROKEN_ENCODING)),
        }
        columns = {key: columns[key] + values for key, values in counts.items()}
        # A missing text violates missing_values only, not blank_text too.
        visible = np.minimum(visible, np.where(is_missing, visible, _as_integers(pc.utf8_length(pc.utf8_trim_whitespace(texts)))))
    labels = batch[LABELS]
    columns["missing"] = columns["missing"] + labels.is_null().to_numpy(zero_copy_only=False)
    numbers = pc.fill_null(labels, UNLABELLED).to_numpy(zero_copy_only=False)
    return pd.DataFrame({**columns, "visible_characters": visible, LABELS: numbers})


def _as_integers(column: pa.Array) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


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
