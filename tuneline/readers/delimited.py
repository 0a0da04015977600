"""CSV and TSV files, read record by record."""

import csv
import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tuneline.readers.rows import RowProblem
from tuneline.readers.tables import FileTable, Format, Input, Layout, open_lines
from tuneline.readers.text import TextLines
from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import listed

if TYPE_CHECKING:
    from _csv import Reader

BOM = "\ufeff"
"""Byte order mark. After the start of a file, it is where another file was appended."""


@dataclass(frozen=True)
class Delimited(Format):
    """Cells with a delimiter between them, in lines.

    Attributes:
        tabs: The usual delimiter is a tab, and quotes are literal; otherwise it is a comma, and quotes
            enclose cells.
    """

    tabs: bool = False

    @property
    def usual(self) -> Layout:
        """Tabs and literal quotes, or commas and quotes that enclose cells."""
        if self.tabs:
            return Layout(self, delimiter="\t", quoting="literal")
        return Layout(self)

    def described(self, layout: Layout) -> str:
        """Return delimiter, quotes, header and encoding."""
        names = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
        parts = [names.get(layout.delimiter, f"delimiter {layout.delimiter!r}")]
        if layout.quoting == "literal":
            parts.append("quotes are literal")
        else:
            parts.append(f"quotes ({layout.quote}) enclose fields")
        if layout.escape is not None:
            parts.append(f"{layout.escape} precedes a quote in a field")
        if layout.skip_lines:
            parts.append(f"the table begins after line {layout.skip_lines}")
        parts.append("first line names the columns" if layout.columns is None else "no header line")
        parts.append(layout.encoding)
        return ", ".join(parts)

    def open(self, source: Input, stack: ExitStack) -> "DelimitedTable":
        """Open a file, and read its header."""
        return DelimitedTable(source, stack.enter_context(open_lines(source)))


CSV = Delimited("csv", (".csv", ".txt"))
TSV = Delimited("tsv", (".tsv", ".tab"), tabs=True)


class SplitLines:
    """Records whose delimiter has several characters: a line each, without quotes.

    They are used as a reader of the csv module.
    """

    def __init__(self, lines: Iterator[str], delimiter: str) -> None:
        self.line_num = 0
        self._lines = lines
        self._delimiter = delimiter

    def __iter__(self) -> "SplitLines":
        """Return itself."""
        return self

    def __next__(self) -> list[str]:
        """Return the cells of the next line, without white space around them; none of an empty line."""
        line = next(self._lines)
        self.line_num += 1
        if not line.strip():
            return []
        return [cell.strip() for cell in line.split(self._delimiter)]


def split_records(layout: Layout, lines: Iterator[str], *, strict: bool = False) -> "Reader | SplitLines":
    """Split lines into records, from the line after ``skip_lines``.

    ``strict`` refuses text after a closing quote.
    """
    if len(layout.delimiter) > 1:
        return SplitLines(itertools.islice(lines, layout.skip_lines, None), layout.delimiter)
    is_literal = layout.quoting == "literal"
    return csv.reader(
        itertools.islice(lines, layout.skip_lines, None),
        delimiter=layout.delimiter,
        quotechar=layout.quote,
        escapechar=None if is_literal else layout.escape,
        quoting=csv.QUOTE_NONE if is_literal else csv.QUOTE_MINIMAL,
        strict=strict,
    )


def numbered_column(position: int) -> str:
    """Return the name of a column without one, by its position from 0."""
    return f"column_{position + 1}"


def numbered_columns(count: int) -> tuple[str, ...]:
    """Return the names of so many columns without names."""
    return tuple(map(numbered_column, range(count)))


class DelimitedTable(FileTable):
    """An open CSV or TSV file."""

    def __init__(self, source: Input, lines: TextLines) -> None:
        """Read the header."""
        self._records = DelimitedReader(lines, source.layout)
        super().__init__(source, lines, self._records.hint)

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return self._records.names

    def column_of(self, values: Sequence[Any]) -> pa.Array:
        """Return the cells of a column of a batch."""
        return pa.array(values, pa.string())

    def rows(
        self,
        columns: Mapping[str, str],
        everywhere: Collection[str] | None = None,  # noqa: ARG002
        lists: Collection[str] = (),  # noqa: ARG002
    ) -> Iterator[tuple[int, list[str] | RowProblem]]:
        """Yield the line and the cells of each row, or its problem."""
        cells = [self._records.names.index(name) for name in columns]
        for line, fields in self._records:
            if isinstance(fields, RowProblem):
                yield line, fields
            else:
                yield line, [fields[cell] for cell in cells]


class DelimitedReader:
    """Records of a CSV or TSV file. Iterate once. ``hint`` says what to do about a column that is missing."""

    def __init__(self, lines: TextLines, layout: Layout) -> None:
        """Read the header."""
        # Without a limit, a quote that is never closed would swallow the rest of the file.
        csv.field_size_limit(lines.limits.cell)
        self._lines = lines
        self._layout = layout
        self._records = split_records(layout, iter(lines), strict=True)
        if layout.columns is not None:
            self.names = list(layout.columns)
            self.hint = self._describe_columns(layout.columns)
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

    def _describe_columns(self, columns: tuple[str, ...]) -> str:
        """Return what is known of a file without a header line."""
        if columns == numbered_columns(len(columns)):
            return f"The first line is read as a row, so the columns are {listed(columns)}."
        return f"{self._lines.options.columns} has {listed(columns)}."

    def _describe_header(self) -> str:
        options = self._lines.options
        line = self._lines.number
        if len(self.names) == 1:
            for character in ";\t|,:":
                if character in self.names[0]:
                    return (
                        f"Line {line} is one column when cut at {self._layout.delimiter!r}:"
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
        source = options.columns if self._layout.columns else "the header"
        columns = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
        message = f"{columns}, but {width} in {source}"

        if self._layout.quoting == "literal" and any(field.startswith('"') for field in fields):
            hint = f"Quotes are literal here; if they enclose fields, set {options.quoting} to standard."
        elif len(fields) > width and any(BOM in field for field in fields):
            hint = "Another file was appended to an unfinished line: end the line before its byte order mark."
        elif len(fields) > width:
            hint = f"Quote texts that contain {self._layout.delimiter!r} ({options.quoting}: standard)."
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
        elif self._layout.columns is not None:
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
        if "field limit" in error and self._layout.quoting == "literal":
            message = f"a field of more than {limit}"
            hint = f"If it is as it should be, raise {options.cell}."
        elif "field limit" in error:
            message = f"a quote that opens in this row is never closed, or a field has more than {limit}"
            hint = f"Close it; {literal} If the text is as it should be, raise {options.cell}."
        elif "end of data" in error:
            message = "a quote that opens in this row is never closed"
            hint = f"Close it; {literal}"
        elif "expected after" in error and '\\"' in self._lines.content and self._layout.escape is None:
            message = "a backslash before a quote, which does not double it"
            hint = f"Set {options.escape} to a backslash."
        elif "expected after" in error:
            message = "text follows a closing quote"
            hint = f"Double a quote inside a quoted field; {literal}"
        else:
            message = error
            hint = "Correct the line."
        return RowProblem(line, message, hint)
