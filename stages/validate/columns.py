"""Scalar columns of the rows that are checked, in Parquet files: some columns and some rows are read at a time.

So memory does not grow with the rows times the columns: ten million rows of thirty columns are gigabytes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.atomic_files import replace_file
from tuneline.core.tables import SplitReader, rebatch

BATCH_ROWS = 65_536
Rows = NDArray[np.int64]
"""Row numbers."""
Arrays = Mapping[str, NDArray[Any]]
"""Columns of shape ``(rows,)`` by name."""


@dataclass(frozen=True)
class StoredColumns:
    """Columns of shape ``(rows,)``: the files and the name there of each.

    Files with columns of the same rows lie beside each other.
    """

    rows: int
    places: Mapping[str, tuple[SplitReader, str]]

    @classmethod
    def of(cls, files: SplitReader) -> Self:
        """Return the columns of files."""
        return cls(files.rows, {name: (files, name) for name in files.schema.names})

    @property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self.places)

    def with_columns(self, other: "StoredColumns", **names: str) -> Self:
        """Return these columns and those of other files with as many rows; of ``names``, only these, under new names."""
        places = {new: other.places[name] for new, name in names.items()} if names else other.places
        return replace(self, places={**self.places, **places})

    def column(self, name: str) -> NDArray[Any]:
        """Read a whole column."""
        files, column = self.places[name]
        values: NDArray[Any] = files.read([column])[column].to_numpy()
        return values

    def frames(self, names: Sequence[str], at_most: int = BATCH_ROWS) -> Iterator[pd.DataFrame]:
        """Yield some columns of ``at_most`` rows at a time, numbered by the index; one frame without rows if there are none."""
        groups = self._by_files(names)
        first = 0
        parts = (
            rebatch(files.batches(found, BATCH_ROWS), files.fields(found), at_most)
            for files, found in groups.items()
        )
        for batches in zip(*parts, strict=True):
            yield self._frame(
                names, dict(zip(groups, batches, strict=True)), pd.RangeIndex(first, first + len(batches[0]))
            )
            first += len(batches[0])
        if not self.rows:
            yield self.take(names, np.empty(0, np.int64))

    def take(self, names: Sequence[str], rows: Rows) -> pd.DataFrame:
        """Read some columns of chosen rows, whose numbers ascend and become the index."""
        return self._frame(
            names,
            {files: files.take(rows, found) for files, found in self._by_files(names).items()},
            pd.Index(rows),
        )

    def _by_files(self, names: Sequence[str]) -> dict[SplitReader, list[str]]:
        groups: dict[SplitReader, list[str]] = {}
        for files, column in dict.fromkeys(self.places[name] for name in names):
            groups.setdefault(files, []).append(column)
        return groups

    def _frame(
        self, names: Sequence[str], tables: Mapping[SplitReader, pa.Table | pa.RecordBatch], index: pd.Index
    ) -> pd.DataFrame:
        places = ((name, *self.places[name]) for name in names)
        columns = {
            name: tables[files][column].to_numpy(zero_copy_only=False) for name, files, column in places
        }
        return pd.DataFrame(columns, index, copy=False)


@contextmanager
def column_writer(path: Path) -> Iterator[Callable[[Arrays], None]]:
    """Yield a function that writes the columns of some rows to a Parquet file, which is there when the block ends. Call it once or more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as partial, ExitStack() as stack:
        writer: pq.ParquetWriter | None = None

        def write(columns: Arrays) -> None:
            nonlocal writer
            batch = pa.record_batch([pa.array(values) for values in columns.values()], list(columns))
            writer = writer or stack.enter_context(pq.ParquetWriter(partial, batch.schema))
            writer.write_batch(batch)

        yield write


def stored(path: Path) -> StoredColumns:
    """Return the columns of one file."""
    return StoredColumns.of(SplitReader(path.parent, path.stem, (path,)))


def write_columns(path: Path, columns: Arrays) -> StoredColumns:
    """Write whole columns, and return them as columns on disk."""
    rows = len(next(iter(columns.values())))
    with column_writer(path) as write:
        for first in range(0, max(rows, 1), BATCH_ROWS):
            write({name: values[first : first + BATCH_ROWS] for name, values in columns.items()})
    return stored(path)


def read_batches(files: SplitReader) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files in batches; one empty batch if there are none, so that the columns are known."""
    if not files.rows:
        yield pa.RecordBatch.from_pylist([], schema=files.schema)
    yield from files.batches(at_most=BATCH_ROWS)


def files_of(split: SplitReader) -> list[SplitReader]:
    """Return a reader of each file of a split."""
    return [SplitReader(split.folder, split.split, (path,)) for path in split.paths]


class RaggedArray:
    """Rows of different lengths: one flat array of values, row after row, and the length of each row, int64 of shape ``(rows,)``."""

    def __init__(self, values: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        self.values = values
        self.lengths = lengths
        self._is_filled = lengths > 0
        self._starts = (np.cumsum(lengths) - lengths)[self._is_filled]

    @classmethod
    def of(cls, column: pa.ListArray) -> Self:
        """Wrap the values of an Arrow list column without a copy."""
        offsets = column.offsets.to_numpy().astype(np.int64)
        return cls(column.flatten().to_numpy(zero_copy_only=False), np.diff(offsets))

    def reduce(self, ufunc: np.ufunc, values: NDArray[Any], empty: int = 0) -> NDArray[np.int64]:
        """Reduce each row of ``values``, of the shape of ``self.values``, to one number; ``empty`` for a row without values.

        The result is int64 of shape ``(rows,)``.
        """
        reduced = np.full(len(self.lengths), empty, dtype=np.int64)
        if len(self._starts):
            # Empty rows hold no values, so each filled row ends where the next filled one starts.
            reduced[self._is_filled] = ufunc.reduceat(
                values, self._starts, dtype=np.int64 if ufunc is np.add else None
            )
        return reduced

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
        return self.reduce(np.add, is_drop)

    def _at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        result = np.full(len(self.lengths), -1, dtype=np.int64)
        result[self._is_filled] = self.values[positions]
        return result
