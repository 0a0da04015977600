"""Rows of Parquet files: all of them in batches, chosen ones, and the flat arrays of a list column."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

BATCH_ROWS = 65_536
Rows = NDArray[np.int64]


def read_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches; one empty batch for a file without rows, so that its columns are known.

    Args:
        path: A Parquet file.
        columns: Columns to read; all by default.
    """
    with pq.ParquetFile(path) as file:
        if file.metadata.num_rows == 0:
            yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)
        yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)


def take_rows(path: Path, rows: Rows, columns: Sequence[str]) -> pa.Table:
    """Read chosen rows of a file, one row group at a time.

    Args:
        path: A Parquet file.
        rows: Row numbers, ascending. Numbers beyond the last row are ignored.
        columns: Columns to read.
    """
    taken, start = [], 0
    with pq.ParquetFile(path) as file:
        schema = pa.schema([file.schema_arrow.field(name) for name in columns])
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            inside = rows[(rows >= start) & (rows < end)] - start
            if len(inside):
                taken.append(file.read_row_group(group, columns=list(columns)).take(pa.array(inside)))
            start = end
    return pa.concat_tables(taken).select(list(columns)) if taken else schema.empty_table()


def evenly_spaced(total: int, number: int) -> Rows:
    """Return at most ``number`` of ``total`` row numbers, evenly spaced from the first to the last."""
    return np.unique(np.linspace(0, max(total - 1, 0), min(number, total)).astype(np.int64))


class RaggedArray:
    """Rows of different lengths, stored as one flat array of values and the length of each row.

    Attributes:
        values: The values of all rows, one row after the other, of shape ``(values,)``.
        lengths: int64 of shape ``(rows,)``.
    """

    def __init__(self, values: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        self.values = values
        self.lengths = lengths
        self._is_filled = lengths > 0
        self._ends = np.cumsum(lengths)
        self._starts = (self._ends - lengths)[self._is_filled]

    @classmethod
    def of(cls, column: pa.ListArray) -> Self:
        """Wrap the values of an Arrow list column without a copy."""
        offsets = column.offsets.to_numpy().astype(np.int64)
        return cls(column.flatten().to_numpy(zero_copy_only=False), np.diff(offsets))

    def row(self, index: int) -> NDArray[Any]:
        """Return the values of one row."""
        return self.values[self._ends[index] - self.lengths[index] : self._ends[index]]

    def reduce(self, ufunc: np.ufunc, values: NDArray[Any], empty: int) -> NDArray[np.int64]:
        """Reduce each row to one number.

        Args:
            ufunc: The reduction, for example ``np.minimum``.
            values: What to reduce, of the shape of ``self.values``.
            empty: The result for a row without values.

        Returns:
            int64 of shape ``(rows,)``.
        """
        reduced = np.full(len(self.lengths), empty, dtype=np.int64)
        if len(self._starts):
            # Empty rows hold no values, so each filled row ends where the next filled one starts.
            reduced[self._is_filled] = ufunc.reduceat(values, self._starts, dtype=np.int64 if ufunc is np.add else None)
        return reduced

    def smallest(self) -> NDArray[np.int64]:
        """Return the smallest value of each row, 0 for an empty row."""
        return self.reduce(np.minimum, self.values, 0)

    def largest(self) -> NDArray[np.int64]:
        """Return the largest value of each row, 0 for an empty row."""
        return self.reduce(np.maximum, self.values, 0)

    def count(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count the values of each row where ``mask``, of the shape of ``values``, is true."""
        return self.reduce(np.add, mask, 0)

    def first(self) -> NDArray[np.int64]:
        """Return the first value of each row, -1 for an empty row."""
        return self._at(self._starts)

    def last(self) -> NDArray[np.int64]:
        """Return the last value of each row, -1 for an empty row."""
        return self._at(self._starts + self.lengths[self._is_filled] - 1)

    def drops(self) -> NDArray[np.int64]:
        """Count the values of each row that are smaller than the value before them."""
        is_drop = np.zeros(len(self.values), dtype=bool)
        is_drop[1:] = self.values[1:] < self.values[:-1]
        is_drop[self._starts] = False
        return self.count(is_drop)

    def _at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        result = np.full(len(self.lengths), -1, dtype=np.int64)
        result[self._is_filled] = self.values[positions]
        return result
