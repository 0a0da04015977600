"""CSV and TSV files, read record by record."""

import csv
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from tuneline.core.errors import DataError
from tuneline.params.data import FilesParams
from tuneline.readers.rows import RowProblem, json_type, listed
from tuneline.readers.text import TextLines

if TYPE_CHECKING:
    from _csv import Reader

BOM = "\ufeff"
"""Byte order mark. After the start of a file, it is where another file was appended."""


@dataclass(frozen=True)
class Dialect:
    """How a CSV or TSV file is written.

    Attributes:
        literal: A quote is a character like any other; otherwise it encloses fields.
        columns: Names for a file without a header line.
        quote: The quote that encloses fields. It is doubled inside of one.
        escape: Character before a quote inside a field, as MySQL writes it; ``None``: there is none.
        skip_lines: Lines above the header, such as a title.
        decimal: Character before the decimals of a number: a point or a comma.
    """

    delimiter: str
    literal: bool
    columns: tuple[str, ...] | None = None
    quote: str = '"'
    escape: str | None = None
    skip_lines: int = 0
    decimal: str = "."

    @classmethod
    def default(
        cls,
        tabs: bool,
        delimiter: str | None = None,
        quoting: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Return the usual dialect, with changes.

        Args:
            tabs: TSV: tabs, and literal quotes. Otherwise CSV: commas, and quotes that enclose fields.
            delimiter: Another delimiter than usual.
            quoting: ``literal`` or ``standard``, where it is not the usual one.
            columns: Names for a file without a header line.
        """
        if not delimiter:
            delimiter = "\t" if tabs else ","
        literal = tabs
        if quoting is not None:
            literal = quoting == "literal"
        if columns is not None:
            columns = tuple(columns)
        return cls(delimiter, literal, columns)

    @classmethod
    def of_data(cls, tabs: bool, files: FilesParams) -> Self:
        """Return the dialect of training data, as ``data.files`` describes it."""
        usual = cls.default(tabs, files.delimiter, files.quoting, files.columns)
        return replace(
            usual, quote=files.quote, escape=files.escape, skip_lines=files.skip_lines, decimal=files.decimal
        )

    def described(self) -> str:
        """Return a description in words."""
        names = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
        parts = [names.get(self.delimiter, f"delimiter {self.delimiter!r}")]
        if self.literal:
            parts.append("quotes are literal")
        else:
            parts.append(f"quotes ({self.quote}) enclose fields")
        if self.escape is not None:
            parts.append(f"{self.escape} precedes a quote in a field")
        if self.skip_lines:
            parts.append(f"the table begins after line {self.skip_lines}")
        return ", ".join(parts)

    def records(self, lines: Iterator[str], *, strict: bool = False) -> "Reader":
        """Split lines into records, from the line after ``skip_lines``.

        ``strict`` refuses text after a closing quote.
        """
        return csv.reader(
            itertools.islice(lines, self.skip_lines, None),
            delimiter=self.delimiter,
            quotechar=self.quote,
            escapechar=None if self.literal else self.escape,
            quoting=csv.QUOTE_NONE if self.literal else csv.QUOTE_MINIMAL,
            strict=strict,
        )


def numbered_column(position: int) -> str:
    """Return the name of a column without one, by its position from 0."""
    return f"column_{position + 1}"


class DelimitedReader:
    """Records of a CSV or TSV file. Iterate once. ``hint`` says what to do about a column that is missing."""

    def __init__(self, lines: TextLines, dialect: Dialect) -> None:
        """Read the header."""
        # Without a limit, a quote that is never closed would swallow the rest of the file.
        csv.field_size_limit(lines.limits.cell)
        self._lines = lines
        self._dialect = dialect
        self._records = dialect.records(iter(lines), strict=True)
        if dialect.columns is not None:
            self.names = list(dialect.columns)
            self.hint = f"{lines.options.columns} has {listed(dialect.columns)}."
        else:
            self.names = self._read_header()
            self.hint = self._describe_header()

    def __iter__(self) -> Iterator[tuple[int, list[str] | RowProblem]]:
        """Yield each record's first line number and its fields, or its problem. Empty lines are skipped."""
        lines = self._lines
        width = len(self.names)
        header_starts = self._header_starts()

        lines.content = ""
        line = lines.number + 1
        while True:
            try:
                for fields in self._records:
                    # This is the path of nearly all rows, so it has no call.
                    if lines.problem is None and len(fields) == width and fields[0][:1] not in header_starts:
                        yield line, fields
                    elif fields or lines.problem is not None:
                        # Bytes that cannot be read do not change where a row ends.
                        is_one_row = lines.problem is not None and len(fields) == width
                        yield line, self._whole(line, self._checked(line, fields), is_one_row=is_one_row)
                    line = lines.number + 1
                    lines.content = ""
            except csv.Error as error:
                # The csv module continues with the line after the one that it cannot read.
                problem = lines.take_problem() or self._unreadable(line, str(error))
                yield line, self._whole(line, problem, is_one_row=False)
                line = lines.number + 1
                lines.content = ""
            else:
                return

    def _header_starts(self) -> set[str]:
        """Return the characters with which a row like the header begins; none where it is no problem.

        A row with which another file begins is a problem of strict reading only. The first character tells
        most rows from it.
        """
        if not self._lines.strict:
            return set()
        starts = {BOM}
        for name in self.names:
            starts.add(name.lower()[:1])
            starts.add(name.upper()[:1])
        return starts

    def _checked(self, line: int, fields: list[str]) -> list[str] | RowProblem:
        """Return the fields, or what is wrong with them."""
        if self._lines.problem is not None:
            return self._lines.take_problem() or self._ragged(line, fields)
        if self._lines.strict:
            problem = self._joint(line, fields)
            if problem is not None:
                return problem
        if len(fields) != len(self.names):
            return self._ragged(line, fields)
        return fields

    def _whole(self, line: int, row: list[str] | RowProblem, *, is_one_row: bool) -> list[str] | RowProblem:
        """Return the row; a problem with all lines of the row.

        Each line counts as a row, because a quote that is never closed takes many; not if ``is_one_row``.
        """
        if isinstance(row, list):
            return row
        lines = 1
        if not is_one_row:
            lines = max(1, self._lines.number - line + 1)
        return replace(row, content=self._lines.content, lines=lines)

    def _read_header(self) -> list[str]:
        """Return the names of the columns, from the first record that is not empty."""
        lines = self._lines
        names: list[str] = []
        line = 1
        try:
            for names in self._records:
                if names:
                    break
                line = lines.number + 1
        except csv.Error as error:
            raise self._bad_header(self._unreadable(line, str(error))) from None

        if not names:
            problem = "is empty"
            if lines.number:
                problem = "has no rows, only empty lines"
            raise DataError(
                f"{lines.name} {problem}.", "It needs a header line that names its columns, and rows."
            )
        unreadable = lines.take_problem() or lines.decoding_problem("".join(names), line)
        if unreadable:
            raise self._bad_header(replace(unreadable, hint=f"{unreadable.hint} Save a spreadsheet as CSV."))

        counts = Counter(names)
        named = list(names)
        for position, name in enumerate(names):
            if not name.strip():
                named[position] = numbered_column(position)
            elif counts[name] > 1:
                raise DataError(
                    f"{lines.name}, line {line:,}: the header has a column twice.",
                    f"Rename one of the two: {name!r}.",
                )
        return named

    def _bad_header(self, problem: RowProblem) -> DataError:
        return DataError(
            f"{self._lines.name}, line {problem.line:,}, in the header: {problem.message}.", problem.hint
        )

    def _describe_header(self) -> str:
        options = self._lines.options
        line = self._lines.number
        if len(self.names) == 1:
            for character in ";\t|,:":
                if character in self.names[0]:
                    return (
                        f"Line {line} is one column when cut at {self._dialect.delimiter!r}:"
                        f" {options.delimiter} may be {character!r}."
                    )
        return (
            f"Line {line} names {listed(self.names)}. If it is not a header, name the columns in"
            f" {options.columns}."
        )

    def _ragged(self, line: int, fields: list[str]) -> RowProblem:
        """Return the problem of a row that has not as many fields as there are columns."""
        options = self._lines.options
        width = len(self.names)
        source = options.columns if self._dialect.columns else "the header"
        columns = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
        message = f"{columns}, but {width} in {source}"

        if self._dialect.literal and any(field.startswith('"') for field in fields):
            hint = f"Quotes are literal here; if they enclose fields, set {options.quoting} to standard."
        elif len(fields) > width and any(BOM in field for field in fields):
            hint = "Another file was appended to an unfinished line: end the line before its byte order mark."
        elif len(fields) > width:
            hint = f"Quote texts that contain {self._dialect.delimiter!r} ({options.quoting}: standard)."
        else:
            hint = f"Correct the line; if quotes do not enclose fields, set {options.quoting} to literal."
        return RowProblem(line, message, hint)

    def _joint(self, line: int, fields: list[str]) -> RowProblem | None:
        """Return the problem of a row with which another file begins, or ``None``.

        Such a row is like the header, or follows a byte order mark.
        """
        cells = [field.removeprefix(BOM).strip(' "').casefold() for field in fields]
        names = [name.casefold() for name in self.names]
        if sorted(cells) != sorted(names):
            if not fields[0].startswith(BOM):
                return None
            message = "a byte order mark in front of the row"
            hint = "Another file was appended here: remove the mark, and its header if it has one."
        elif self._dialect.columns is not None:
            message = "a header line instead of a row"
            hint = f"Leave out {self._lines.options.columns}: the file has a header."
        elif cells != names:
            message = "a second header line, in another order"
            hint = (
                "Another file was appended here. Give both files the same order of columns before you join"
                " them."
            )
        else:
            message = "a second header line"
            hint = "Remove it; files that are joined keep only the first header."
        return RowProblem(line, message, hint)

    def _unreadable(self, line: int, error: str) -> RowProblem:
        """Return the problem of a record that the csv module refuses, by its message."""
        options = self._lines.options
        limit = f"{self._lines.limits.cell:,} characters ({options.cell})"
        literal = f"where quotes are only characters, set {options.quoting} to literal."
        if "field limit" in error and self._dialect.literal:
            message = f"a field of more than {limit}"
            hint = f"If it is as it should be, raise {options.cell}."
        elif "field limit" in error:
            message = f"a quote that opens in this row is never closed, or a field has more than {limit}"
            hint = f"Close it; {literal} If the text is as it should be, raise {options.cell}."
        elif "end of data" in error:
            message = "a quote that opens in this row is never closed"
            hint = f"Close it; {literal}"
        elif "expected after" in error and '\\"' in self._lines.content and self._dialect.escape is None:
            message = "a backslash before a quote, which does not double it"
            hint = f"Set {options.escape} to a backslash."
        elif "expected after" in error:
            message = "text follows a closing quote"
            hint = f"Double a quote inside a quoted field; {literal}"
        else:
            message = error
            hint = "Correct the line."
        return RowProblem(line, message, hint)


def read_jsonl(lines: TextLines) -> Iterator[tuple[int, dict[str, Any] | RowProblem]]:
    """Yield the line number and the object of each row, or its problem. Empty lines are skipped.

    The file has JSON Lines, or is one array of objects. Its first character tells which, whatever the file is
    called.
    """
    if lines.starts_with("["):
        yield from _read_array(lines)
        return

    for line in lines:
        if lines.problem is None and line.isspace():
            lines.content = ""
            continue

        record: dict[str, Any] | RowProblem
        if lines.problem is not None:
            record = lines.take_problem() or {}
        else:
            record = _parse(line, lines.number)
            if len(line) > lines.limits.cell and not isinstance(record, RowProblem):
                record = _too_long(record, lines) or record
        if isinstance(record, RowProblem):
            record = replace(record, content=lines.content)
        yield lines.number, record
        lines.content = ""


LONGEST_OBJECT = 1 << 24
"""Characters of an object of an array, which is in memory as a whole."""


def _read_array(lines: TextLines) -> Iterator[tuple[int, dict[str, Any] | RowProblem]]:
    """Yield the elements of an array of objects. After one that is not JSON, nothing more can be read."""
    array = _JsonArray(lines)
    while array.has_more():
        line, record, content = array.take()
        if not isinstance(record, RowProblem):
            record = _checked_object(record, line)
        if isinstance(record, RowProblem):
            record = replace(record, content=content)
        elif len(content) > lines.limits.cell:
            record = _too_long(record, lines) or record
        yield line, record


class _JsonArray:
    """The elements of a JSON array, which is read in pieces: it may be larger than memory."""

    def __init__(self, lines: TextLines) -> None:
        self._lines = lines
        self._text = ""
        self._decoder = json.JSONDecoder()
        self._is_broken = False
        while "[" not in self._text:
            self._text += lines.read_piece()
        self._position = self._text.index("[") + 1

    def has_more(self) -> bool:
        """Go to the start of the next element; return False at the end of the array."""
        while not self._is_broken:
            while self._position < len(self._text) and self._text[self._position] in ", \t\r\n":
                self._position += 1
            if self._position < len(self._text):
                return self._text[self._position] != "]"
            if not self._read_more():
                return True  # and ``take`` finds that the array has no end
        return False

    def take(self) -> tuple[int, Any, str]:
        """Return the line of the next element, the element or its problem, and its text."""
        while True:
            start = self._position
            line = self._lines.number + self._text.count("\n", 0, start) + 1
            try:
                value, self._position = self._decoder.raw_decode(self._text, start)
            except (ValueError, RecursionError) as error:  # also where the piece ends within the element
                is_long = len(self._text) - start > LONGEST_OBJECT
                if is_long or isinstance(error, RecursionError) or not self._read_more():
                    self._is_broken = True
                    return line, _json_problem(error, line, ""), self._text[start:]
            else:
                return line, value, self._text[start : self._position]

    def _read_more(self) -> bool:
        """Drop what was read, and read another piece; return False at the end of the file."""
        piece = self._lines.read_piece()
        self._lines.number += self._text.count("\n", 0, self._position)
        self._text = self._text[self._position :] + piece
        self._position = 0
        return bool(piece)


def _too_long(record: dict[str, Any], lines: TextLines) -> RowProblem | None:
    """Return the problem of an object with a text longer than the limit, or ``None``."""
    option = lines.options.cell
    limit = lines.limits.cell
    for name, value in record.items():
        if isinstance(value, str) and len(value) > limit:
            message = f"column {name!r} has {len(value):,} characters, more than {limit:,} ({option})"
            return RowProblem(lines.number, message, f"If the text is as it should be, raise {option}.")
    return None


def _parse(line: str, number: int) -> dict[str, Any] | RowProblem:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return _json_problem(error, number, line)
    return _checked_object(value, number)


def _json_problem(error: Exception, number: int, line: str) -> RowProblem:
    """Return what an error of the decoder means; ``line`` is what it read."""
    if isinstance(error, RecursionError):
        return RowProblem(number, "JSON nested too deep", "Write one flat JSON object per line.")
    if not isinstance(error, json.JSONDecodeError):  # a number of too many digits
        return RowProblem(number, f"JSON that cannot be read: {error}", "Write one JSON object per line.")
    if line.startswith("\ufeff"):
        return RowProblem(
            number,
            "a byte order mark in front of the row",
            "Another file was appended here: remove the mark.",
        )
    message = f"not JSON: {error.msg}"
    if line:
        message += f" at character {error.pos + 1}"
    return RowProblem(number, message, "Write one JSON object per line.")


def _checked_object(value: Any, number: int) -> dict[str, Any] | RowProblem:
    if isinstance(value, dict):
        return value
    return RowProblem(
        number,
        f"{json_type(value)} instead of a JSON object",
        'Write each row as {"text": "...", "label": "..."}.',
    )
