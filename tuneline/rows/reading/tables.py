"""A file with rows: its format, how it is written, and the open file.

Every file of a user is read through ``open_table``: the open file gives values of columns, row by row or in
batches, and the problem of each row that cannot be read. ``formats`` lists the formats.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import pyarrow as pa

from tuneline.core.stage.tables import ROW_GROUP
from tuneline.rows.reading.rows import BadRows, RowProblem
from tuneline.rows.reading.text import TextLines, file_name, open_text

BATCH_CHARACTERS = 1 << 24
"""Characters from which a batch has fewer rows than usual."""


@dataclass(frozen=True)
class Format:
    """A format of files with rows.

    Attributes:
        name: Its name in options and in records.
        suffixes: Suffixes of its files. A copy of a file gets the first one.
        open: Opens a file, which is closed with the stack; reads its header or footer.
        delimiter, quoting: How a table of this format is usually written.
        unit: What numbers of rows count, in messages and progress.
        is_columnar: A column is read without the others, and a range of rows without those before it.
    """

    name: str
    suffixes: tuple[str, ...]
    open: Callable[["Input", ExitStack], "FileTable"]
    delimiter: str = ","
    quoting: Literal["standard", "literal"] = "standard"
    unit: Literal["line", "row"] = "line"
    is_columnar: bool = False

    @property
    def usual(self) -> "Layout":
        """How a file of this format is usually written."""
        return Layout(self, delimiter=self.delimiter, quoting=self.quoting)


@dataclass(frozen=True)
class Layout:
    """How a file is written. The names are those of ``data.files``.

    Attributes:
        format: Its format, which says which of the others have a meaning.
        encoding: Encoding of a text file. A byte order mark is dropped.
        delimiter: Character between two cells.
        quoting: ``standard``: quotes enclose cells. ``literal``: a quote is a character like any other.
        columns: Names for a file without a header line.
        quote: The quote that encloses cells. It is doubled inside of one.
        escape: Character before a quote inside a cell, as MySQL writes it; ``None``: there is none.
    """

    format: Format
    encoding: str = "utf-8"
    delimiter: str = ","
    quoting: Literal["standard", "literal"] = "standard"
    columns: tuple[str, ...] | None = None
    quote: str = '"'
    escape: str | None = None

    def described(self) -> str:
        """Return the format, and what is unusual."""
        parts = [self.format.name]
        for name, value in vars(self).items():
            if value != getattr(self.format.usual, name):
                parts.append(f"{name} {value!r}")
        return ", ".join(parts)

    def told(self, values: Mapping[str, Any]) -> Self:
        """Return the layout with other values, by name. ``None`` says nothing."""
        changes: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, list):
                changes[name] = tuple(value)
            elif value is not None:
                changes[name] = value
        return replace(self, **changes)

    def values(self) -> dict[str, Any]:
        """Return the values by name, with the name of the format."""
        values = dict(vars(self))
        values["format"] = self.format.name
        return values


@dataclass(frozen=True)
class Input:
    """A file with rows that is to be read.

    Attributes:
        path: The file; ``None`` is standard input.
        layout: How it is written.
    """

    path: Path | None
    layout: Layout

    @property
    def name(self) -> str:
        """Its name in messages."""
        return file_name(self.path)

    @property
    def unit(self) -> Literal["line", "row"]:
        """What numbers of its rows count."""
        return self.layout.format.unit


@dataclass(frozen=True)
class ValueBatch:
    """Values of some columns of some rows.

    Attributes:
        positions: Line or row of each row, from 1.
        columns: Arrow arrays, or lists of any values.
    """

    positions: Sequence[int]
    columns: Mapping[str, pa.Array | list[Any]]

    @classmethod
    def numbered(cls, batches: Iterable[pa.RecordBatch], first: int = 1) -> Iterator[Self]:
        """Yield Arrow batches with the numbers of their rows."""
        for batch in batches:
            columns = {name: batch[name] for name in batch.schema.names}
            yield cls(range(first, first + batch.num_rows), columns)
            first += batch.num_rows

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.positions)


@dataclass
class FileTable(ABC):
    """An open file with rows. Read it once.

    Attributes:
        lines: The lines of a text file.
        hint: What to do about a column that is missing.
    """

    source: Input
    lines: TextLines | None = None
    hint: str | None = None

    @property
    def name(self) -> str:
        """Name of the file, for messages."""
        return self.source.name

    @property
    def total(self) -> int | None:
        """Its size where known: bytes of a text file on disk, else rows."""
        return None if self.lines is None else self.lines.size

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the columns."""

    def declared(self, column: str) -> tuple[str, ...] | None:  # noqa: ARG002
        """Return the class names of a column, by their ids, if the file stores them."""
        return None

    def has_lists(self, column: str) -> bool:  # noqa: ARG002
        """Return True if there is a column of this name, and its type is lists."""
        return False

    @abstractmethod
    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, Sequence[Any] | RowProblem]]:
        """Yield the line or row number and the values of each row, or its problem.

        A value that a row lacks is ``None``.
        """

    def batches(self, columns: Sequence[str], bad: BadRows) -> Iterator[ValueBatch]:
        """Yield batches of at most ``ROW_GROUP`` rows. Rows that cannot be read are added to ``bad``."""
        positions: list[int] = []
        records: list[Sequence[Any]] = []
        characters = 0
        for position, row in self.rows(columns):
            if isinstance(row, RowProblem):
                bad.add(row)
                continue
            positions.append(position)
            records.append(row)
            characters += sum(len(value) for value in row if isinstance(value, str))
            # Long texts make a batch smaller, so that it fits in memory.
            if len(records) == ROW_GROUP or characters >= BATCH_CHARACTERS:
                yield self._batch(positions, columns, records)
                positions = []
                records = []
                characters = 0
        if records:
            yield self._batch(positions, columns, records)

    def _batch(
        self, positions: list[int], columns: Sequence[str], records: Sequence[Sequence[Any]]
    ) -> ValueBatch:
        values = map(self.column_of, zip(*records, strict=True))
        return ValueBatch(positions, dict(zip(columns, values, strict=True)))

    def column_of(self, values: Sequence[Any]) -> pa.Array | list[Any]:
        """Return the values of a column of a batch."""
        return list(values)


def open_lines(source: Input) -> AbstractContextManager[TextLines]:
    """Open a text file for reading line by line."""
    return open_text(source.path, source.layout.encoding)


@contextmanager
def open_table(source: Input) -> Iterator[FileTable]:
    """Open a file with rows; a ``DataError`` if its header or footer cannot be read."""
    with ExitStack() as stack:
        yield source.layout.format.open(source, stack)
