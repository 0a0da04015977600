"""Scalar columns of the raw splits, and what stands for their texts when rows are compared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.validate.lexicon import Lexicon
from stages.validate.text import BROKEN, CONTROL, Keys, folded, row_keys, text_keys, unordered_row_keys, words
from tuneline.files.schemas import LABELS, UNLABELLED

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class RawSplit:
    """What is known of one raw split.

    Attributes:
        frame: Scalar columns, one row per row: ``row``, ``missing``, ``visible_characters`` (of the shorter text), ``characters``,
            ``control_characters``, ``broken_characters``, ``labels``.
        keys: Of the rows' texts, in their order.
        unordered_keys: The same, whichever text comes first.
        lexicon: Words of all rows.
    """

    frame: pd.DataFrame
    keys: Keys
    unordered_keys: Keys
    lexicon: Lexicon

    @property
    def labels(self) -> NDArray[Any]:
        """Of shape ``[rows]``."""
        return self.frame[LABELS].to_numpy()

    @property
    def is_labelled(self) -> bool:
        """Whether any row has a label: a split published without has -1 everywhere."""
        return not len(self.frame) or bool((self.labels != UNLABELLED).any())


def read_raw(path: Path, text_columns: Sequence[str]) -> RawSplit:
    """Derives everything that is needed of one file of ``data/raw/``, a batch of rows at a time."""
    frames, keys, unordered, lexicon = [], [], [], Lexicon.empty()
    for batch in batches(path):
        texts = [folded(pc.fill_null(batch[name], "")) for name in text_columns]
        hashes = [text_keys(column) for column in texts]
        frames.append(_features(batch, text_columns))
        keys.append(row_keys(hashes))
        unordered.append(unordered_row_keys(hashes))
        lexicon = lexicon.plus(Lexicon.of(words(texts)))
    frame = pd.concat(frames, ignore_index=True)
    frame.insert(0, "row", np.arange(len(frame)))
    return RawSplit(frame, np.concatenate(keys), np.concatenate(unordered), lexicon)


def batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a file; at least one batch, so that a split without rows has its columns all the same."""
    with pq.ParquetFile(path) as file:
        if file.metadata.num_rows == 0:
            yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)
        yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)


def _features(batch: pa.RecordBatch, text_columns: Sequence[str]) -> pd.DataFrame:
    zeros = np.zeros(batch.num_rows, dtype=np.int64)
    columns = {"missing": zeros, "characters": zeros, "control_characters": zeros, "broken_characters": zeros}
    visible = np.full(batch.num_rows, np.iinfo(np.int64).max)
    for name in text_columns:
        texts, absent = pc.fill_null(batch[name], ""), batch[name].is_null().to_numpy(zero_copy_only=False)
        found = {
            "missing": absent,
            "characters": _numbers(pc.utf8_length(texts)),
            "control_characters": _numbers(pc.count_substring_regex(texts, CONTROL)),
            "broken_characters": _numbers(pc.count_substring_regex(texts, BROKEN)),
        }
        columns = {key: columns[key] + values for key, values in found.items()}
        # A missing text is told as missing, not as blank too.
        visible = np.minimum(visible, np.where(absent, visible, _numbers(pc.utf8_length(pc.utf8_trim_whitespace(texts)))))
    labels = batch[LABELS]
    columns["missing"] = columns["missing"] + labels.is_null().to_numpy(zero_copy_only=False)
    numbers = pc.fill_null(labels, UNLABELLED).to_numpy(zero_copy_only=False)
    return pd.DataFrame({**columns, "visible_characters": visible, LABELS: numbers})


def _numbers(column: pa.Array) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers
