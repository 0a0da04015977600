"""The rows of a source file as text, and the division of the file into splits, in which each record keeps its exact bytes."""

import gzip
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.cli.init.layout import Layout
from tuneline.errors import DataError
from tuneline.readers.delimited import DelimitedReader
from tuneline.readers.jsonl import read_jsonl
from tuneline.readers.parquet import open_parquet, read_batches
from tuneline.readers.rows import OptionNames, RowProblem
from tuneline.readers.text import Lines, open_text

Row = tuple[str | None, ...]
"""Cells in the order of the columns; ``None`` for a missing one."""
Record = TypeVar("Record")
NESTED = "\x00nested"
"""Cell that holds a list or an object, which is neither text nor label."""
PARQUET_BATCH = 10_000
"""Rows."""
SOURCES = OptionNames("the delimiter", "the quoting", "the first row", "the encoding")
"""What messages name instead of options: ``tuneline init`` detects them."""


class RowFile(ABC):
    """A source file.

    Attributes:
        path: The file.
        layout: Its layout.
        columns: Column names.
    """

    columns: list[str]

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path = path
        self.layout = layout

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Read the file from the first row to the last.

        Raises:
            DataError: The file or one of its rows cannot be read.
        """

    @abstractmethod
    def divide(self, parts: Iterable[str | None], targets: Mapping[str, Path]) -> None:
        """Write each row to one of several files of the same layout.

        Args:
            parts: For each row, a key of ``targets``; ``None`` for a row that is left out.
            targets: The files to write.
        """


class _TextFile(RowFile):
    """A CSV, TSV or JSON Lines file."""

    def _open(self) -> AbstractContextManager[Lines]:
        return open_text(self.path, self.layout.encoding, SOURCES, keep_raw=True)

    def _checked(self, record: Record | RowProblem) -> Record:
        if isinstance(record, RowProblem):
            raise DataError(f"{self.path}, line {record.line:,}: {record.message}.", "Correct the line, or remove it.")
        return record

    def _divide(self, records: Iterable[str], header: str, parts: Iterable[str | None], targets: Mapping[str, Path]) -> None:
        with ExitStack() as stack:
            files = {part: stack.enter_context(_create(path, self.layout)) for part, path in targets.items()}
            for file in files.values():
                file.write(header)
            for record, part in zip(records, parts, strict=True):
                if part is not None:
                    files[part].write(record if record.endswith(("\n", "\r")) else record + "\n")


class DelimitedFile(_TextFile):
    """A CSV or TSV file."""

    def __init__(self, path: Path, layout: Layout) -> None:
        """Read the column names: those of the header, or ``column_1`` and so on."""
        super().__init__(path, layout)
        with self._open() as lines:
            if layout.header:
                self.columns = DelimitedReader(lines, layout.dialect(None)).names
            else:
                width = len(next(cells for cells in layout.reader(iter(lines)) if cells))
                self.columns = [f"column_{position}" for position in range(1, width + 1)]

    def rows(self) -> Iterator[Row]:
        """Read the cells."""
        with self._open() as lines:
            for _, cells in self._reader(lines):
                lines.clear()
                yield tuple(self._checked(cells))

    def divide(self, parts: Iterable[str | None], targets: Mapping[str, Path]) -> None:
        """Write the records unchanged, and the header into each file."""
        with self._open() as lines:
            reader = self._reader(lines)
            self._divide((lines.take_raw() for _, cells in reader if self._checked(cells)), reader.header, parts, targets)

    def _reader(self, lines: Lines) -> DelimitedReader:
        return DelimitedReader(lines, self.layout.dialect(None if self.layout.header else self.columns))


class JsonLinesFile(_TextFile):
    """A file with one JSON object per line."""

    def __init__(self, path: Path, layout: Layout) -> None:
        """Read the column names: the keys of all objects, in order of their first occurrence."""
        super().__init__(path, layout)
        self.columns = list(dict.fromkeys(key for _, value in self._records() for key in value))

    def rows(self) -> Iterator[Row]:
        """Read the objects; a missing key gives ``None``."""
        for _, value in self._records():
            yield tuple(as_text(value.get(name)) for name in self.columns)

    def divide(self, parts: Iterable[str | None], targets: Mapping[str, Path]) -> None:
        """Write the lines unchanged."""
        self._divide((line for line, _ in self._records()), "", parts, targets)

    def _records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        with self._open() as lines:
            for _, record in read_jsonl(lines):
                yield lines.take_raw(), self._checked(record)


class ParquetFile(RowFile):
    """A Parquet file, read in batches."""

    def __init__(self, path: Path, layout: Layout) -> None:
        """Read the schema."""
        super().__init__(path, layout)
        with open_parquet(path) as file:
            self._schema = file.schema_arrow
        self.columns = list(self._schema.names)

    def rows(self) -> Iterator[Row]:
        """Read the values as text."""
        for batch in self._batches():
            yield from zip(*([as_text(value) for value in column.to_pylist()] for column in batch.columns), strict=True)

    def divide(self, parts: Iterable[str | None], targets: Mapping[str, Path]) -> None:
        """Write the rows to Parquet files of the same schema."""
        remaining = iter(parts)
        with ExitStack() as stack:
            writers = {
                part: stack.enter_context(pq.ParquetWriter(path, self._schema, compression="zstd")) for part, path in targets.items()
            }
            for batch in self._batches():
                chosen = [next(remaining) for _ in range(batch.num_rows)]
                for part, writer in writers.items():
                    rows = batch.filter(pa.array([one == part for one in chosen]))
                    if rows.num_rows:
                        writer.write_batch(rows)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with open_parquet(self.path) as file:
            yield from read_batches(file, self.path, PARQUET_BATCH)


FILES: dict[str, type[DelimitedFile] | type[JsonLinesFile] | type[ParquetFile]] = {
    "delimited": DelimitedFile,
    "jsonl": JsonLinesFile,
    "parquet": ParquetFile,
}


def open_rows(path: Path, layout: Layout) -> RowFile:
    """Open a source file.

    Raises:
        DataError: The file cannot be read.
    """
    return FILES[layout.kind](path, layout)


def as_text(value: Any) -> str | None:
    """Return a JSON or Arrow value as the text of a cell."""
    if value is None or isinstance(value, str):
        return value
    return NESTED if isinstance(value, (list, dict, tuple)) else str(value)


def _create(path: Path, layout: Layout) -> IO[str]:
    encoding = "utf-8" if layout.encoding == "utf-8-sig" else layout.encoding
    if not layout.compressed:
        return path.open("w", encoding=encoding, newline="")
    return TextIOWrapper(cast("IO[bytes]", _Gzip(path)), encoding=encoding, newline="")


class _Gzip(gzip.GzipFile):
    """A gzip file without time and name, so that the same rows give the same bytes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        super().__init__(filename="", mode="wb", fileobj=self._file, mtime=0)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._file.close()
