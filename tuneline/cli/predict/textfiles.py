"""CSV, TSV and JSON Lines, read one row at a time: what is wrong with one row is said of that row, and reading goes on."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from tuneline.cli.predict.rows import BadRow, Row, Rows, Wanted
from tuneline.errors import DataError

LONGEST_LINE = 1 << 24
"""Characters. Without a limit, a file that is one endless line would be read into memory whole."""
LONGEST_FIELD = 1 << 20
"""Characters. A longer field is a quote that was never closed: it would swallow the rest of the file."""


@dataclass(frozen=True)
class Dialect:
    """How a CSV or TSV file is written.

    Attributes:
        delimiter: One character.
        literal: A quote is a character like any other.
        columns: Names for a file without a header line.
    """

    delimiter: str
    literal: bool
    columns: tuple[str, ...] | None = None


class Lines:
    """The lines of a text, counted, and none longer than the limit in memory."""

    def __init__(self, text: TextIO) -> None:
        self._text = text
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        """Gives out lines with their ends; of one that is too long, its start."""
        while line := self._text.readline(LONGEST_LINE):
            self.number += 1
            start = line
            while len(line) == LONGEST_LINE and not line.endswith("\n"):
                line = self._text.readline(LONGEST_LINE)
            yield start


def read_delimited(text: TextIO, name: str, dialect: Dialect, wanted: Wanted) -> Rows:
    """Reads CSV or TSV; empty lines are passed over.

    Args:
        text: Opened with ``newline=""`` and ``errors="surrogateescape"``.
        name: For messages.
        dialect: How it is written.
        wanted: The columns.

    Raises:
        DataError: The header is not what is wanted.
    """
    lines = Lines(text)
    records = _records(lines, dialect)
    names = list(dialect.columns) if dialect.columns else _header(next(records, None), name)
    if gone := wanted.missing(names):
        raise DataError(f"{name} has no column {gone[0]!r}.", _about(names, dialect))
    texts, kept = [names.index(column) for column in wanted.texts], {column: names.index(column) for column in wanted.kept}
    for number, (line, fields) in enumerate(records, start=1):
        if isinstance(fields, str):
            yield BadRow(number, f"line {line}", fields)
        elif len(fields) != len(names):
            yield BadRow(number, f"line {line}", f"{len(fields)} fields, where the header has {len(names)}")
        else:
            row = Row(number, tuple([fields[place] for place in texts]), {column: fields[place] for column, place in kept.items()})
            yield _decoded(row, line)


def _records(lines: Lines, dialect: Dialect) -> Iterator[tuple[int, list[str] | str]]:
    """Fields of each record with the line on which it starts; a text where it cannot be cut into fields."""
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(
        iter(lines), delimiter=dialect.delimiter, quoting=csv.QUOTE_NONE if dialect.literal else csv.QUOTE_MINIMAL, strict=True
    )
    while True:
        line = lines.number + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, str(error)
            continue
        if fields:
            yield line, fields


def _header(record: tuple[int, list[str] | str] | None, name: str) -> list[str]:
    if record is None:
        raise DataError(f"{name} is empty.", "It wants a header line that names its columns.")
    if isinstance(record[1], str):
        raise DataError(f"{name}, line {record[0]}: {record[1]}.", "Mend the header.")
    names = record[1]
    if any("\udc80" <= character <= "\udcff" for column in names for character in column):
        raise DataError(
            f"{name}: its header is not text in this encoding.", "Name another with --encoding; save a spreadsheet as CSV first."
        )
    if twice := [column for column in names if names.count(column) > 1]:
        raise DataError(f"{name}: the header names column {twice[0]!r} twice.", "Rename one of the two.")
    return names


def _about(names: Sequence[str], dialect: Dialect) -> str:
    found = ", ".join(repr(column) for column in names[:20])
    if len(names) == 1 and not dialect.columns:
        return f"Cut at {dialect.delimiter!r}, its header is {found}. Is --delimiter another? Without a header: --columns a,b."
    return f"It has {found}. Name the columns that hold the text with --text."


def read_jsonl(text: TextIO, wanted: Wanted) -> Rows:
    """Reads JSON Lines, one object per line; empty lines are passed over.

    Args:
        text: Opened with ``errors="surrogateescape"``.
        wanted: The columns.
    """
    lines, number = Lines(text), 0
    for line in lines:
        if line.strip():
            number += 1
            yield _object(line, number, lines.number, wanted)


def _object(content: str, number: int, line: int, wanted: Wanted) -> Row | BadRow:
    place = f"line {line}"
    if len(content) == LONGEST_LINE:
        return BadRow(number, place, f"longer than {LONGEST_LINE:,} characters")
    try:
        values: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        return BadRow(number, place, f"no JSON: {error}")
    if not isinstance(values, dict):
        return BadRow(number, place, "no JSON object")
    try:
        texts = [values[column] for column in wanted.texts]
        kept = {column: values[column] for column in wanted.kept}
    except KeyError as error:
        return BadRow(number, place, f"it has no {error}")
    for column, value in zip(wanted.texts, texts, strict=True):
        if not isinstance(value, str):
            return BadRow(number, place, f"{column!r} is {json.dumps(value)[:40]}, not text")
    return _decoded(Row(number, tuple(texts), kept), line)


def _decoded(row: Row, line: int) -> Row | BadRow:
    """The row, unless it holds bytes that are no text: those were read as lone surrogates."""
    for text in (*row.texts, *row.kept.values()):
        if not isinstance(text, str) or text.isascii():
            continue
        try:
            text.encode()
        except UnicodeEncodeError as error:
            point = ord(error.object[error.start])
            what = f"byte 0x{point - 0xDC00:02x} is not in the encoding of the file" if 0xDC80 <= point <= 0xDCFF else "half a character"
            return BadRow(row.number, f"line {line}", what)
    return row
