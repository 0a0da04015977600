"""Rows of a user's file, of any format: an ``InputTable`` gives values of columns, row by row or in batches.

Two views are built on it. ``open_rows`` gives texts to predict, one row after the other (``tuneline
predict``, flow ``score``); ``tuneline.readers.labelled`` gives batches of texts with labels (``download``,
flow ``ingest``, ``tuneline init``).
"""

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import pyarrow as pa

from tuneline.core.errors import DataError
from tuneline.core.tables import ROW_GROUP
from tuneline.params.data import FilesParams
from tuneline.readers.delimited import DelimitedReader, Dialect, read_jsonl
from tuneline.readers.files import DataFile
from tuneline.readers.parquet import declared_names, is_list, open_parquet
from tuneline.readers.rows import (
    DEFAULT_LIMITS,
    PARAMETERS,
    BadRows,
    Kind,
    Limits,
    OptionNames,
    RowProblem,
    check_columns,
    missing_column,
    text_problem,
)
from tuneline.readers.text import TextLines, open_text

KIND_OF_SUFFIX: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
COMMAND_OPTIONS = OptionNames(
    "--delimiter",
    "--quoting",
    "--columns",
    "--encoding",
    "--max-cell-characters",
    "--max-row-group-mb",
    "--max-unpacked-mb",
)
PREDICTED_ROWS = 1_000
"""Rows of a Parquet file that are decoded at a time where rows are taken one by one."""
BATCH_CHARACTERS = 1 << 24
"""Characters from which a batch has fewer rows than usual."""
Item = TypeVar("Item")
_to_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


def kind_of(path: DataFile | None, option: str) -> Kind:
    """Return the format by the suffix of a file, without ``.gz``; of standard input or output, JSON Lines.

    Raises:
        DataError: The suffix is unknown. The message names the option that sets the format.
    """
    if path is None:
        return "jsonl"
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in KIND_OF_SUFFIX:
        raise DataError(
            f"{path}: the format is not clear from the suffix.",
            f"Set {option} to csv, tsv, jsonl or parquet.",
        )
    return KIND_OF_SUFFIX[suffix]


@dataclass(frozen=True)
class Input:
    """A file with rows, and how it is written.

    Attributes:
        part: Parquet: numbers of the rows to read, from 0; ``None`` for all.
        options: Names of the settings, for hints.
        strict: Refuse what training data must not contain (``open_text``).
    """

    path: DataFile | None
    kind: Kind
    dialect: Dialect
    encoding: str = "utf-8"
    limits: Limits = DEFAULT_LIMITS
    part: range | None = None
    options: OptionNames = COMMAND_OPTIONS
    strict: bool = False

    @classmethod
    def of_data(cls, path: Path, files: FilesParams) -> Self:
        """Return a file of training data, as ``data.files`` describes it."""
        kind = kind_of(Path(path.name.lower()), "data.files")
        dialect = Dialect.of_data(kind == "tsv", files)
        limits = Limits.of(files.max_cell_characters, files.max_row_group_mb, files.max_unpacked_mb)
        return cls(path, kind, dialect, files.encoding, limits, options=PARAMETERS, strict=True)

    @property
    def unit(self) -> Literal["line", "row"]:
        """How messages and progress count: by ``line`` in text files, by ``row`` in Parquet files."""
        return "row" if self.kind == "parquet" else "line"


@dataclass(frozen=True)
class ValueBatch:
    """Values of some columns of some rows.

    Attributes:
        positions: Line or row of each row, from 1.
        columns: Arrow arrays, or lists of any values of JSON Lines.
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


class InputTable:
    """An open file with rows. Read it once.

    Attributes:
        keys: Keys of the JSON objects that were read, until each column was in one.
        hint: What to do about a column that is missing from the header.
    """

    def __init__(self, source: Input, stack: ExitStack) -> None:
        """Read the header or footer."""
        self.source = source
        self.name = "standard input" if source.path is None else str(source.path)
        self.lines: TextLines | None = None
        self.keys: dict[str, None] = {}
        self.hint: str | None = None
        if source.kind == "parquet":
            if source.path is None:
                raise DataError(
                    "Parquet cannot be read from standard input: its directory is at its end.",
                    "Name the file.",
                )
            self._parquet = stack.enter_context(open_parquet(source.path, source.options, source.limits))
            return
        lines = open_text(source.path, source.encoding, source.options, source.limits, strict=source.strict)
        self.lines = stack.enter_context(lines)
        if source.kind == "jsonl":
            self._objects: Iterator[tuple[int, dict[str, Any] | RowProblem]] = read_jsonl(self.lines)
        else:
            self._delimited = DelimitedReader(self.lines, source.dialect)
            self.hint = self._delimited.hint

    def names(self) -> list[str]:
        """Return the names of the columns; of JSON Lines, the keys of the first object."""
        if self.source.kind == "parquet":
            return list(self._parquet.schema.names)
        if self.source.kind != "jsonl":
            return self._delimited.names
        # Rows up to the first object with a key are read here, and put back.
        waiting: list[tuple[int, dict[str, Any] | RowProblem]] = []
        names: list[str] = []
        for line, record in itertools.islice(self._objects, ROW_GROUP):
            waiting.append((line, record))
            if isinstance(record, dict) and record:
                names = list(record)
                break
        self._objects = itertools.chain(waiting, self._objects)
        return names

    def all_names(self, bad: BadRows) -> list[str]:
        """Return the names of the columns; of JSON Lines, the keys of all objects.

        For them, the file is read to its end.
        """
        if self.source.kind != "jsonl":
            return self.names()
        names: dict[str, None] = {}  # in the order in which they occur
        for _, record in readable(self._objects, bad):
            names |= dict.fromkeys(record)
        return list(names)

    def declared(self, column: str) -> tuple[str, ...] | None:
        """Return the class names of a column, by their ids, that the datasets library stored in Parquet."""
        if self.source.kind == "parquet":
            return declared_names(self._parquet.schema, column)
        return None

    def is_nested(self, column: str) -> bool:
        """Return True if a column of a Parquet file holds lists or objects, which cannot be read."""
        return self.source.kind == "parquet" and pa.types.is_nested(self._parquet.schema.field(column).type)

    def has_lists(self, column: str) -> bool:
        """Return True if this is a Parquet file, and has a column of lists of this name."""
        if self.source.kind != "parquet" or column not in self._parquet.schema.names:
            return False
        return is_list(self._parquet.schema.field(column).type)

    @property
    def total(self) -> int | None:
        """Its size where known: bytes of a text file on disk, rows of a Parquet file."""
        return self._parquet.rows if self.lines is None else self.lines.size

    def rows(
        self,
        columns: Mapping[str, str],
        everywhere: Collection[str] | None = None,
        lists: Collection[str] = (),
    ) -> Iterator[tuple[int, Sequence[Any] | RowProblem]]:
        """Yield the line or row number and the values of each row, or its problem.

        Args:
            columns: The columns to read, with the option or parameter that names each.
            everywhere: Keys without which a JSON object is a problem; by default all columns. Of other keys
                that an object lacks, the value is ``None``.
            lists: The columns of a Parquet file that may hold lists.
        """
        if self.source.kind == "parquet":
            for batch in self._parquet_batches(columns, PREDICTED_ROWS, lists):
                arrays: list[Any] = [batch.columns[name] for name in columns]
                rows = zip(*(array.to_pylist() for array in arrays), strict=True)
                yield from zip(batch.positions, rows, strict=True)
        elif self.source.kind == "jsonl":
            if everywhere is None:
                everywhere = columns.keys()
            yield from self._json_rows(columns, everywhere)
        else:
            cells = [self._delimited.names.index(name) for name in columns]
            for line, fields in self._delimited:
                if isinstance(fields, RowProblem):
                    yield line, fields
                else:
                    yield line, [fields[cell] for cell in cells]

    def _json_rows(
        self, columns: Mapping[str, str], everywhere: Collection[str]
    ) -> Iterator[tuple[int, list[Any] | RowProblem]]:
        unseen = set(columns)
        for line, record in self._objects:
            if isinstance(record, RowProblem):
                yield line, record
                continue

            if unseen:
                unseen -= record.keys()
                self.keys |= dict.fromkeys(record)

            for name in everywhere:
                if name not in record:
                    message, hint = missing_column(name, columns[name], record)
                    yield line, RowProblem(line, message, hint)
                    break
            else:
                yield line, [record.get(name) for name in columns]

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
        if self.source.kind == "parquet":
            yield from self._parquet_batches(columns, ROW_GROUP, lists)
            return

        # Values of JSON Lines are of any type, so they stay Python objects.
        as_column: Callable[[Any], Any] = list
        if self.source.kind != "jsonl":
            as_column = partial(pa.array, type=pa.string())
        rows = readable(self.rows(columns, everywhere), bad)
        while chunk := list(_first_rows(rows)):
            positions, records = zip(*chunk, strict=True)
            arrays = map(as_column, zip(*records, strict=True))
            yield ValueBatch(list(positions), dict(zip(columns, arrays, strict=True)))

    def _parquet_batches(
        self, columns: Mapping[str, str], rows: int, lists: Collection[str] = ()
    ) -> Iterator[ValueBatch]:
        check_columns(self._parquet.schema.names, columns, self.name)
        part = self.source.part
        first = 1 if part is None else part.start + 1
        yield from ValueBatch.numbered(self._parquet.batches(rows, list(columns), part, lists), first)


@contextmanager
def open_table(source: Input) -> Iterator[InputTable]:
    """Open a file with rows; a ``DataError`` if its header or footer cannot be read."""
    with ExitStack() as stack:
        yield InputTable(source, stack)


def readable(rows: Iterable[tuple[int, Item | RowProblem]], bad: BadRows) -> Iterator[tuple[int, Item]]:
    """Yield the rows that can be read; add the others to ``bad``."""
    for position, row in rows:
        if isinstance(row, RowProblem):
            bad.add(row)
        else:
            yield position, row


def _first_rows(rows: Iterator[tuple[int, Sequence[Any]]]) -> Iterator[tuple[int, Sequence[Any]]]:
    """Yield the rows of the next batch: long texts make it smaller, so that it fits in memory."""
    characters = 0
    for number, row in enumerate(rows, start=1):
        yield row
        characters += sum(len(value) for value in row[1] if isinstance(value, str))
        if number == ROW_GROUP or characters >= BATCH_CHARACTERS:
            return


@dataclass(frozen=True, slots=True)
class Row:
    """A row that can be predicted.

    Attributes:
        number: Its number in the input, from 1, without header and empty lines.
        texts: One or two texts.
        kept: Values to copy, by column.
    """

    number: int
    texts: tuple[str, ...]
    kept: Mapping[str, Any]

    @property
    def characters(self) -> int:
        """Length of all its texts."""
        return sum(len(value) for value in (*self.texts, *self.kept.values()) if isinstance(value, str))


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be predicted, with its number as in ``Row``."""

    number: int
    problem: RowProblem


@dataclass(frozen=True)
class InputColumns:
    """The columns that are read: the model's, by their names in the input, and those to copy.

    Others may hold anything.

    ``every``: copy all columns; without ``kept``, all columns of the input. A JSON object need not have each.
    """

    texts: tuple[str, ...]
    kept: tuple[str, ...]
    every: bool = False

    def of(self, table: InputTable) -> "InputColumns":
        """Return the columns, with the names of the columns to copy."""
        if self.every and not self.kept:
            return replace(self, kept=tuple(table.names()))
        return self

    @property
    def options(self) -> dict[str, str]:
        """The option that names each column."""
        options = dict.fromkeys(self.texts, "--text")
        for name in self.kept:
            options.setdefault(name, "--keep")
        return options

    def row(
        self, number: int, line: int, values: Sequence[Any], lines: TextLines | None = None
    ) -> Row | BadRow:
        """Return a row that can be predicted, or its problem; the values are in the order of ``options``."""
        used = dict(zip(dict.fromkeys((*self.texts, *self.kept)), values, strict=True))
        problem = self._text_problem(used, line) or self._encoding_problem(used, line, lines)
        if problem is not None:
            return BadRow(number, problem)
        texts = tuple([used[name] for name in self.texts])
        return Row(number, texts, {name: used[name] for name in self.kept})

    def _text_problem(self, values: Mapping[str, Any], line: int) -> RowProblem | None:
        hint = "Every row needs text; --text names another column."
        for name in self.texts:
            if not isinstance(values[name], str):
                return RowProblem(line, text_problem(values[name], name) or "", hint)
        if any(values[name].strip() for name in self.texts):
            return None
        # A row without text is refused in training as well.
        columns = " and ".join(map(repr, self.texts))
        return RowProblem(line, f"column {columns}: no text, or only white space", hint)

    @staticmethod
    def _encoding_problem(values: Mapping[str, Any], line: int, lines: TextLines | None) -> RowProblem | None:
        for name, value in values.items():
            text = value
            if isinstance(value, (list, dict)):
                text = _to_json(value)
            if not isinstance(text, str) or text.isascii():
                continue
            if lines is not None:
                problem = lines.decoding_problem(text, line)
                if problem is not None:
                    return problem
            message = text_problem(text, name)
            if message is not None:
                return RowProblem(line, message, "Correct the escape sequence.")
        return None


@dataclass(frozen=True)
class InputRows:
    """An input that is being read.

    ``position`` returns how many bytes of a text file were read; it is ``None`` where rows are counted.
    """

    columns: InputColumns
    rows: Iterator[Row | BadRow]
    unit: Literal["line", "row"]
    total: int | None = None
    position: Callable[[], int] | None = None


@contextmanager
def open_rows(source: Input, columns: InputColumns) -> Iterator[InputRows]:
    """Open an input for reading row by row.

    Raises:
        DataError: Here or while reading: the input cannot be read, or a column is missing. Problems of single
            rows are among the rows.
    """
    with open_table(source) as table:
        columns = columns.of(table)
        if source.kind != "jsonl":
            check_columns(table.names(), columns.options, table.name, table.hint)
        position = None if table.lines is None else table.lines.position
        yield InputRows(columns, _predictable(table, columns), source.unit, table.total, position)


def _predictable(table: InputTable, columns: InputColumns) -> Iterator[Row | BadRow]:
    part = table.source.part
    first = 1 if part is None else part.start + 1
    # Columns that are copied only because all are need not be in every JSON object.
    everywhere = columns.texts if columns.every else None
    rows = table.rows(columns.options, everywhere)
    for number, (line, values) in enumerate(rows, start=first):
        if isinstance(values, RowProblem):
            yield BadRow(number, values)
        else:
            yield columns.row(number, line, values, table.lines)
