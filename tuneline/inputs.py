"""Files with texts to predict, or that were scored: the number, the texts and other columns of each row."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneline.errors import DataError
from tuneline.readers.delimited import DelimitedReader, Dialect
from tuneline.readers.jsonl import read_jsonl
from tuneline.readers.limits import DEFAULT_LIMITS, Limits
from tuneline.readers.parquet import open_parquet
from tuneline.readers.rows import Kind, OptionNames, RowProblem, check_columns, listed, text_problem
from tuneline.readers.text import Lines, open_text
from tuneline.readers.urls import DataFile

KINDS: dict[str, Kind] = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
OPTIONS = OptionNames(
    "--delimiter", "--quoting", "--columns", "--encoding", "--max-cell-characters", "--max-row-group-mb", "--max-unpacked-mb"
)
PARQUET_BATCH = 1_000
"""Rows."""
_to_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


@dataclass(frozen=True, slots=True)
class Row:
    """A row that can be predicted.

    Attributes:
        number: Row number in the input, from 1, without header and empty lines.
        texts: One or two, as the model takes them.
        kept: Values that go into the output unchanged.
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
    """A row that cannot be predicted.

    Attributes:
        number: As in ``Row``.
        problem: What is wrong with it.
    """

    number: int
    problem: RowProblem


Rows = Iterator[Row | BadRow]


@dataclass(frozen=True)
class InputColumns:
    """The columns that are read; other columns may hold anything.

    Attributes:
        texts: The model's text columns, by their names in the input.
        kept: Columns that go into the output.
    """

    texts: tuple[str, ...]
    kept: tuple[str, ...]

    @property
    def options(self) -> dict[str, str]:
        """The option that names each column."""
        return {name: "--text" if name in self.texts else "--keep" for name in (*self.texts, *self.kept)}

    def row(self, number: int, line: int, values: Mapping[str, Any], lines: Lines | None = None) -> Row | BadRow:
        """Take these columns of a row.

        Args:
            number: Row number.
            line: Line number, for messages.
            values: At least these columns.
            lines: The text file that the row was read from.
        """
        used = {name: values[name] for name in (*self.texts, *self.kept)}
        if problem := self._text_problem(used, line) or self._encoding_problem(used, line, lines):
            return BadRow(number, problem)
        return Row(number, tuple([used[name] for name in self.texts]), {name: used[name] for name in self.kept})

    def _text_problem(self, values: Mapping[str, Any], line: int) -> RowProblem | None:
        hint = "Every row needs text; --text names another column."
        for name in self.texts:
            if not isinstance(values[name], str):
                return RowProblem(line, text_problem(values[name], name) or "", hint)
        if any(values[name].strip() for name in self.texts):
            return None
        columns = " and ".join(map(repr, self.texts))
        return RowProblem(line, f"column {columns}: no text, or only white space", hint)  # as in training

    @staticmethod
    def _encoding_problem(values: Mapping[str, Any], line: int, lines: Lines | None) -> RowProblem | None:
        for name, value in values.items():
            text = _to_json(value) if isinstance(value, (list, dict)) else value
            if not isinstance(text, str) or text.isascii():
                continue
            if lines is not None and (problem := lines.decoding_problem(text, line)):
                return problem
            if message := text_problem(text, name):
                return RowProblem(line, message, "Correct the escape sequence.")
        return None


@dataclass(frozen=True)
class Input:
    """The source of the rows.

    Attributes:
        path: A file; ``None`` for standard input.
        kind: Its format.
        dialect: Dialect of CSV and TSV.
        encoding: Encoding of CSV, TSV and JSONL.
        limits: Largest sizes that are read.
        part: Parquet: numbers of the rows to read, from 0; ``None`` for all.
    """

    path: DataFile | None
    kind: Kind
    dialect: Dialect
    encoding: str = "utf-8"
    limits: Limits = DEFAULT_LIMITS
    part: range | None = None


@dataclass(frozen=True)
class InputRows:
    """An input that is being read.

    Attributes:
        rows: Its rows.
        unit: How messages and progress count: by ``line`` in text files, by ``row`` in Parquet files.
        total: Its size where known: bytes of a text file on disk, rows of a Parquet file.
        position: Returns how many of these bytes were read; ``None`` where rows are counted.
    """

    rows: Rows
    unit: Literal["line", "row"]
    total: int | None = None
    position: Callable[[], int] | None = None


def kind_of(path: DataFile | None, option: str) -> Kind:
    """Return the format by the suffix of a file, without ``.gz``.

    Args:
        path: The file; ``None`` for standard input or output, which is JSON Lines.
        option: The option that sets the format, for messages.

    Raises:
        DataError: The suffix is unknown.
    """
    if path is None:
        return "jsonl"
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in KINDS:
        raise DataError(f"{path}: the format is not clear from the suffix.", f"Set {option} to csv, tsv, jsonl or parquet.")
    return KINDS[suffix]


@contextmanager
def open_rows(source: Input, columns: InputColumns) -> Iterator[InputRows]:
    """Open an input for reading row by row.

    Raises:
        DataError: Here or while reading: the input cannot be read, or a column is missing. Problems of single rows are among the
            rows.
    """
    with ExitStack() as stack:
        if source.kind == "parquet":
            yield _open_parquet(source, columns, stack)
            return
        lines = stack.enter_context(open_text(source.path, source.encoding, OPTIONS, source.limits, strict=False))
        rows = _json_rows(lines, columns) if source.kind == "jsonl" else _delimited_rows(lines, source.dialect, columns)
        yield InputRows(rows, "line", lines.size, lines.position)


def _delimited_rows(lines: Lines, dialect: Dialect, columns: InputColumns) -> Rows:
    reader = DelimitedReader(lines, dialect)
    check_columns(reader.names, columns.options, lines.name, reader.hint)
    positions = {name: reader.names.index(name) for name in columns.options}
    for number, (line, fields) in enumerate(reader, start=1):
        if isinstance(fields, RowProblem):
            yield BadRow(number, fields)
        else:
            yield columns.row(number, line, {name: fields[position] for name, position in positions.items()}, lines)


def _json_rows(lines: Lines, columns: InputColumns) -> Rows:
    required = columns.options
    for number, (line, record) in enumerate(read_jsonl(lines), start=1):
        if isinstance(record, RowProblem):
            yield BadRow(number, record)
        elif missing := [name for name in required if name not in record]:
            yield BadRow(number, RowProblem(line, f"no column {missing[0]!r} ({required[missing[0]]})", f"It has {listed(record)}."))
        else:
            yield columns.row(number, line, record, lines)


def _open_parquet(source: Input, columns: InputColumns, stack: ExitStack) -> InputRows:
    if source.path is None:
        raise DataError("Parquet cannot be read from standard input: its directory is at its end.", "Name the file.")
    file = stack.enter_context(open_parquet(source.path, OPTIONS, source.limits))
    check_columns(file.schema.names, columns.options, str(source.path))
    batches = file.batches(PARQUET_BATCH, list(columns.options), source.part)
    values = (value for batch in batches for value in batch.to_pylist())
    first = source.part.start + 1 if source.part is not None else 1
    rows = (columns.row(number, number, value) for number, value in enumerate(values, start=first))
    return InputRows(rows, "row", file.rows)
