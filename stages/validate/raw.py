"""Scalar columns of the raw splits, keys of their rows, and counts of their words."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.validate.rows import read_batches
from tuneline.files.schemas import LABELS, UNLABELLED
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
