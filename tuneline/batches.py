"""Tokenized rows in memory and padded batches of them, for torch and ONNX Runtime. Does not import torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.files.schemas import LABELS, LabelSchema, numpy_values, read_table

Batch = dict[str, NDArray[np.int64]]


@dataclass(frozen=True)
class TokenizedRows:
    """Tokenized rows as ragged arrays: 4 bytes per token id and 1 per mask value, without a Python object per row.

    Attributes:
        values: By model input, the concatenated values of all rows.
        offsets: Row ``i`` is ``values[name][offsets[i] : offsets[i + 1]]``; int64 of shape ``(rows + 1,)``.
    """

    values: Mapping[str, NDArray[np.integer]]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row, special tokens included; int64 of shape ``(rows,)``."""
        return np.diff(self.offsets)

    def pad(self, rows: NDArray[np.int64], pad_token_id: int) -> Batch:
        """Pad some rows on the right to the longest of them.

        Args:
            rows: Row numbers.
            pad_token_id: Padding of ``input_ids``. The other inputs are padded with 0.

        Returns:
            By model input, int64 of shape ``(len(rows), longest)``.
        """
        lengths = self.lengths[rows]
        real = np.arange(lengths.max(initial=0)) < lengths[:, None]
        source = (self.offsets[rows][:, None] + np.arange(real.shape[1]))[real]
        batch = {}
        for name, values in self.values.items():
            padded = np.full(real.shape, pad_token_id if name == "input_ids" else 0, dtype=np.int64)
            padded[real] = values[source]
            batch[name] = padded
        return batch


@dataclass(frozen=True)
class TokenizedSplit(TokenizedRows):
    """A tokenized Parquet file in memory.

    Attributes:
        labels: Class ids (int64) or regression targets (float32) of shape ``(rows,)``.
        label_schema: Class names, or regression.
    """

    labels: NDArray[np.int64] | NDArray[np.float32]
    label_schema: LabelSchema

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read one file of ``data/tokenized/``."""
        table = read_table(path)
        names = [name for name in table.column_names if name != LABELS]
        columns = {name: _combine_chunks(table[name]) for name in names}
        offsets = numpy_values(columns["input_ids"].offsets).astype(np.int64)
        values = {name: numpy_values(column.values) for name, column in columns.items()}
        return cls(values, offsets, numpy_values(table[LABELS]), LabelSchema.of(table.schema))

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Return a split of some rows, in the given order."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        source = np.repeat(self.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
        values = {name: column[source] for name, column in self.values.items()}
        return type(self)(values, offsets, self.labels[rows], self.label_schema)


def _combine_chunks(column: pa.ChunkedArray) -> pa.ListArray:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def length_sorted_batches(lengths: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """Return row numbers in batches of similar length, longest first.

    Sorting avoids almost all padding, and the longest batch first shows at once if memory suffices. Every row is in exactly one
    batch. Rows of the same length keep their order.
    """
    order = np.argsort(-lengths, kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
