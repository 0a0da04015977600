"""Scalar columns of the rows that are checked: those of a split lie in files, of which some columns and some rows are read at a time.

So memory does not grow with the rows times the columns: ten million rows of thirty columns are gigabytes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.validate.rows import BATCH_ROWS, Rows, tables_of
from tuneline.files import replace_file
from tuneline.files.shards import SplitReader

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class FrameColumns:
    """The columns of a small table, in memory.

    Attributes:
        frame: The columns.
    """

    frame: pd.DataFrame

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    @property
    def names(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self.frame.columns)

    def frames(self, names: Sequence[str], _: int = BATCH_ROWS) -> Iterator[pd.DataFrame]:
        """Yield some columns of all rows."""
        yield self.frame[list(names)]

    def take(self, names: Sequence[str], rows: Rows) -> pd.DataFrame:
        """Return some columns of chosen rows."""
        return self.frame[list(names)].iloc[rows]


@dataclass(frozen=True)
class StoredColumns:
    """Columns of shape ``(rows,)`` in Parquet files. Files with other columns of the same rows lie beside each other.

    Attributes:
        rows: Number of rows.
        places: Files and name there of each column.
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
        return _values(files.read([column])[column])

    def frames(self, names: Sequence[str], at_most: int = BATCH_ROWS) -> Iterator[pd.DataFrame]:
        """Yield some columns of ``at_most`` rows at a time, numbered by the index; one frame without rows if there are none."""
        places = {name: self.places[name] for name in names}
        columns = _columns_by_files(places)
        first = 0
        for tables in zip(*(tables_of(files, found, at_most) for files, found in columns.items()), strict=True):
            part = dict(zip(columns, tables, strict=True))
            index = pd.RangeIndex(first, first + len(tables[0]))
            yield pd.DataFrame({name: _values(part[files][column]) for name, (files, column) in places.items()}, index, copy=False)
            first += len(tables[0])

    def take(self, names: Sequence[str], rows: Rows) -> pd.DataFrame:
        """Read some columns of chosen rows.

        Args:
            names: The columns.
            rows: Row numbers, ascending.
        """
        places = {name: self.places[name] for name in names}
        part = {files: files.take(rows, found) for files, found in _columns_by_files(places).items()}
        return pd.DataFrame({name: _values(part[files][column]) for name, (files, column) in places.items()}, rows)


def _columns_by_files(places: Mapping[str, tuple[SplitReader, str]]) -> dict[SplitReader, list[str]]:
    columns: dict[SplitReader, list[str]] = {}
    for files, column in dict.fromkeys(places.values()):
        columns.setdefault(files, []).append(column)
    return columns


def _values(column: pa.ChunkedArray) -> NDArray[Any]:
    values: NDArray[Any] = column.to_numpy()
    return values


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
