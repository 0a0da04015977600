"""Scalar columns of the rows that are checked, in Parquet files that are read in parts.

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

from tuneline.core.arrays import RowNumbers
from tuneline.core.tables import SplitReader, rebatch
from tuneline.runtime.atomic_files import replace_file

BATCH_ROWS = 65_536
Arrays = Mapping[str, NDArray[Any]]
"""Columns of shape ``(rows,)`` by name."""


@dataclass(frozen=True)
class StoredColumns:
    """Columns of shape ``(rows,)`` in files: several sets of files may each have some columns of the rows.

    ``places`` has, by the name of a column, its files and its name there.
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
        """Return these columns and columns of other files with as many rows.

        With ``names``, only these columns are added, under new names.
        """
        places = dict(other.places)
        if names:
            places = {new: other.places[name] for new, name in names.items()}
        return replace(self, places={**self.places, **places})

    def without(self, name: str) -> Self:
        """Return these columns without one of them."""
        return replace(self, places={kept: place for kept, place in self.places.items() if kept != name})

    def column(self, name: str) -> NDArray[Any]:
        """Read a whole column."""
        files, column = self.places[name]
        values: NDArray[Any] = files.read([column])[column].to_numpy()
        return values

    def frames(self, names: Sequence[str], at_most: int = BATCH_ROWS) -> Iterator[pd.DataFrame]:
        """Yield columns of ``at_most`` rows at a time, with the numbers of the rows as index.

        Without rows, one empty frame is yielded.
        """
        if not self.rows:
            yield self.take(names, np.empty(0, np.int64))
            return

        # all files are read in step, in batches of the same rows
        groups = self._by_files(names)
        readers = []
        for files, columns in groups.items():
            readers.append(rebatch(files.batches(columns, BATCH_ROWS), files.fields(columns), at_most))
        first = 0
        for batches in zip(*readers, strict=True):
            end = first + len(batches[0])
            tables = dict(zip(groups, batches, strict=True))
            yield self._frame(names, tables, pd.RangeIndex(first, end))
            first = end

    def take(self, names: Sequence[str], rows: RowNumbers) -> pd.DataFrame:
        """Read columns of chosen rows, whose numbers ascend and become the index."""
        tables = {files: files.take(rows, columns) for files, columns in self._by_files(names).items()}
        return self._frame(names, tables, pd.Index(rows))

    def _by_files(self, names: Sequence[str]) -> dict[SplitReader, list[str]]:
        """Return the columns to read of each set of files, each once."""
        groups: dict[SplitReader, list[str]] = {}
        for files, column in dict.fromkeys(self.places[name] for name in names):
            groups.setdefault(files, []).append(column)
        return groups

    def _frame(
        self, names: Sequence[str], tables: Mapping[SplitReader, pa.Table | pa.RecordBatch], index: pd.Index
    ) -> pd.DataFrame:
        """Return columns, which were read from their files, as a frame."""
        columns = {}
        for name in names:
            files, column = self.places[name]
            columns[name] = tables[files][column].to_numpy(zero_copy_only=False)
        return pd.DataFrame(columns, index, copy=False)


@contextmanager
def column_writer(path: Path) -> Iterator[Callable[[Arrays], None]]:
    """Yield a function that writes the columns of rows to a Parquet file, which exists when the block ends.

    Call the function once or more.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as partial, ExitStack() as stack:
        writer: pq.ParquetWriter | None = None

        def write(columns: Arrays) -> None:
            nonlocal writer
            batch = pa.record_batch([pa.array(values) for values in columns.values()], list(columns))
            if writer is None:  # the first batch has the schema
                writer = stack.enter_context(pq.ParquetWriter(partial, batch.schema))
            writer.write_batch(batch)

        yield write


def stored(path: Path) -> StoredColumns:
    """Return the columns in one file."""
    return StoredColumns.of(SplitReader(path.parent, path.stem, (path,)))


def write_columns(path: Path, columns: Arrays) -> StoredColumns:
    """Write whole columns, and return them as columns on disk."""
    rows = len(next(iter(columns.values())))
    with column_writer(path) as write:
        # also without rows: an empty batch has the schema
        for first in range(0, max(rows, 1), BATCH_ROWS):
            write({name: values[first : first + BATCH_ROWS] for name, values in columns.items()})
    return stored(path)


def read_batches(files: SplitReader, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, or some columns of them, in batches.

    Without rows, one empty batch is yielded, so that the columns are known.
    """
    if not files.rows:
        schema = files.schema if columns is None else files.fields(columns)
        yield pa.RecordBatch.from_pylist([], schema=schema)
    yield from files.batches(columns, BATCH_ROWS)


def files_of(split: SplitReader) -> list[SplitReader]:
    """Return a reader of each file of a split."""
    return [SplitReader(split.folder, split.split, (path,)) for path in split.paths]
