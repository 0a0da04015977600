"""A file with rows: its format, how it is written, and the open file.

``Format`` and ``FileTable`` are the interface of a format: the format opens a file, and the open file gives
values of columns, row by row or in batches, and the problem of each row that cannot be read. ``formats``
lists the formats.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import pyarrow as pa

from tuneline.core.tables import ROW_GROUP
from tuneline.readers.files import DataFile
from tuneline.readers.label_values import NumberFormat
from tuneline.readers.rows import DEFAULT_LIMITS, BadRows, Limits, OptionNames, RowProblem
from tuneline.readers.text import TextLines, open_text

if TYPE_CHECKING:
    from tuneline.params.data import FilesParams

COMMAND_OPTIONS = OptionNames(
    "--delimiter",
    "--quoting",
    "--columns",
    "--encoding",
    "--max-cell-characters",
    "--max-row-group-mb",
    "--max-unpacked-mb",
)
BATCH_CHARACTERS = 1 << 24
"""Characters from which a batch has fewer rows than usual."""
Item = TypeVar("Item")


@dataclass(frozen=True)
class Format(ABC):
    """A format of files with rows.

    Attributes:
        name: Its name in options and in records.
        suffixes: Suffixes of its files. A copy of a file gets the first one.
        unit: What numbers of rows count, in messages and progress.
        is_columnar: A column is read without the others.
    """

    name: str
    suffixes: tuple[str, ...]
    unit: Literal["line", "row"] = "line"
    is_columnar: bool = False

    @property
    def usual(self) -> "Layout":
        """How a file of this format is usually written."""
        return Layout(self)

    @abstractmethod
    def described(self, layout: "Layout") -> str:
        """Return in words how a file is written."""

    @abstractmethod
    def open(self, source: "Input", stack: ExitStack) -> "FileTable":
        """Open a file, which is closed with the ``stack``.

        Raises:
            DataError: Its header or footer cannot be read.
        """

    def count_rows(self, source: "Input") -> int | None:  # noqa: ARG002
        """Return the number of rows, where a file tells it and its parts can be read; else ``None``."""
        return None


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
        skip_lines: Lines above the header, such as a title.
        decimal: Character before the decimals of a number: a point or a comma.
        thousands: Character between groups of three digits; ``None``: there is none.
        unit: What is before or after each number; ``None``: nothing.
    """

    format: Format
    encoding: str = "utf-8"
    delimiter: str = ","
    quoting: Literal["standard", "literal"] = "standard"
    columns: tuple[str, ...] | None = None
    quote: str = '"'
    escape: str | None = None
    skip_lines: int = 0
    decimal: str = "."
    thousands: str | None = None
    unit: str | None = None

    @property
    def numbers(self) -> NumberFormat:
        """How numbers are written."""
        return NumberFormat(self.decimal, self.thousands, self.unit)

    def described(self) -> str:
        """Return it in words."""
        return self.format.described(self)

    def told(self, values: Mapping[str, Any]) -> Self:
        """Return the layout with other values, by name. ``None`` says nothing."""
        changes: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, list):
                changes[name] = tuple(value)
            elif value is not None:
                changes[name] = value
        return replace(self, **changes)

    def of_data(self, files: "FilesParams") -> Self:
        """Return the layout of training data of this format, as ``data.files`` describes it."""
        return self.told(files.model_dump(exclude=LIMIT_NAMES))

    def values(self) -> dict[str, Any]:
        """Return the values by name, with the name of the format."""
        values = dict(vars(self))
        values["format"] = self.format.name
        return values


LIMIT_NAMES = {"max_cell_characters", "max_row_group_mb", "max_unpacked_mb"}
"""Keys of ``data.files`` that are limits."""


@dataclass(frozen=True)
class Input:
    """A file with rows that is to be read.

    Attributes:
        path: The file; ``None`` is standard input.
        layout: How it is written.
        part: Numbers of the rows to read, from 0, of a file with ``Format.count_rows``; ``None`` for all.
        options: Names of the settings, for hints.
        strict: Refuse what training data must not contain (``open_text``).
    """

    path: DataFile | None
    layout: Layout
    limits: Limits = DEFAULT_LIMITS
    part: range | None = None
    options: OptionNames = COMMAND_OPTIONS
    strict: bool = False

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "standard input" if self.path is None else str(self.path)

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
        keys: Names of the columns in the rows that were read, where ``has_schema`` is false.
    """

    source: Input
    lines: TextLines | None = None
    hint: str | None = None
    keys: dict[str, None] = field(default_factory=dict)

    has_schema: ClassVar[bool] = True
    """True if the columns are known before the rows, and all rows have them."""

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
        """Return the names of the columns; without a schema, of the first row."""

    def readable_names(self) -> list[str]:
        """Return the names of the columns whose values can be read."""
        return self.names()

    def declared(self, column: str) -> tuple[str, ...] | None:  # noqa: ARG002
        """Return the class names of a column, by their ids, if the file stores them."""
        return None

    def has_lists(self, column: str) -> bool:  # noqa: ARG002
        """Return True if there is a column of this name, and its type is lists."""
        return False

    @abstractmethod
    def rows(
        self,
        columns: Mapping[str, str],
        everywhere: Collection[str] | None = None,
        lists: Collection[str] = (),
    ) -> Iterator[tuple[int, Sequence[Any] | RowProblem]]:
        """Yield the line or row number and the values of each row, or its problem.

        Args:
            columns: The columns to read, with the option or parameter that names each.
            everywhere: Columns without which a row is a problem, where there is no schema; by default all
                columns. Of other columns that a row lacks, the value is ``None``.
            lists: The columns that may hold lists, where there is a schema.
        """

    def batches(
        self,
        columns: Mapping[str, str],
        bad: BadRows,
        everywhere: Collection[str] | None = None,
        lists: Collection[str] = (),
    ) -> Iterator[ValueBatch]:
        """Yield batches of at most ``ROW_GROUP`` rows, with the arguments of ``rows``.

        Rows that cannot be read are added to ``bad``.
        """
        rows = readable(self.rows(columns, everywhere, lists), bad)
        while chunk := list(first_rows(rows)):
            positions, records = zip(*chunk, strict=True)
            arrays = map(self.column_of, zip(*records, strict=True))
            yield ValueBatch(list(positions), dict(zip(columns, arrays, strict=True)))

    def column_of(self, values: Sequence[Any]) -> pa.Array | list[Any]:
        """Return the values of a column of a batch."""
        return list(values)

    def all_columns(self, bad: BadRows) -> Iterator[ValueBatch]:
        """Yield batches of all columns that can be read; without a schema, of those that the batch has."""
        columns = self.readable_names()
        return self.batches(dict.fromkeys(columns, ""), bad, lists=columns)


def open_lines(source: Input) -> AbstractContextManager[TextLines]:
    """Open a text file for reading line by line."""
    encoding = source.layout.encoding
    return open_text(source.path, encoding, source.options, source.limits, strict=source.strict)


@contextmanager
def open_table(source: Input) -> Iterator[FileTable]:
    """Open a file with rows; a ``DataError`` if its header or footer cannot be read."""
    with ExitStack() as stack:
        yield source.layout.format.open(source, stack)


def readable(rows: Iterable[tuple[int, Item | RowProblem]], bad: BadRows) -> Iterator[tuple[int, Item]]:
    """Yield the rows that can be read; add the others to ``bad``."""
    for position, row in rows:
        if isinstance(row, RowProblem):
            bad.add(row)
        else:
            yield position, row


def first_rows(rows: Iterator[tuple[int, Item]]) -> Iterator[tuple[int, Item]]:
    """Yield the rows of the next batch: long texts make it smaller, so that it fits in memory.

    A row is a sequence of values, or an object with them.
    """
    characters = 0
    for number, row in enumerate(rows, start=1):
        yield row
        values: Any = row[1]
        if isinstance(values, dict):
            values = values.values()
        characters += sum(len(value) for value in values if isinstance(value, str))
        if number == ROW_GROUP or characters >= BATCH_CHARACTERS:
            return
