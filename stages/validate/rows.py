"""Rows of Parquet files in batches, and the flat arrays of a list column."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.files.shards import SplitReader

BATCH_ROWS = 65_536
Rows = NDArray[np.int64]


def read_batches(files: SplitReader, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files in batches; one empty batch if there are none, so that the columns are known.

    Args:
        files: The files.
        columns: Columns to read; all by default.
    """
    if not files.rows:
        names = files.schema.names if columns is None else columns
        yield pa.RecordBatch.from_pylist([], schema=pa.schema([files.schema.field(name) for name in names]))
    yield from files.batches(columns, BATCH_ROWS)


def tables_of(files: SplitReader, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
    """Yield some columns of files in tables of ``rows`` rows each, except the last; one empty table if there are no rows."""
    return joined(read_batches(files, columns), rows)


def joined(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Join and divide batches, so that each table has ``rows`` rows, except the last, which has none if there are no rows."""
    waiting, number, is_first = [], 0, True
    for batch in batches:
        waiting.append(batch)
        number += batch.num_rows
        while number >= rows:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, rows)
            waiting, number, is_first = table.slice(rows).to_batches() or [batch.slice(0, 0)], number - rows, False
    if waiting and (number or is_first):
        yield pa.Table.from_batches(waiting)


def files_of(split: SplitReader) -> list[SplitReader]:
    """Return a reader of each file of a split."""
    return [SplitReader(split.folder, split.split, (path,)) for path in split.paths]


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
