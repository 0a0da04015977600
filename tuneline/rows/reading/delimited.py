"""CSV and TSV files, read record by record."""

import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import listed
from tuneline.rows.reading.rows import LONGEST_CELL, RowProblem
from tuneline.rows.reading.tables import FileTable, Format, Input, Layout, open_lines

if TYPE_CHECKING:
    from _csv import Reader

BOM = "\ufeff"
"""Byte order mark. After the start of a file, it is where another file was appended."""
SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=(.)"?\s*')
"""First line by which Excel is told the delimiter."""


def split_records(layout: Layout, lines: Iterator[str], *, strict: bool = False) -> "Reader":
    """Split lines into records, after the line by which Excel is told the delimiter.

    ``strict`` refuses text after a closing quote.
    """
    is_literal = layout.quoting == "literal"
    return csv.reader(
        itertools.dropwhile(SEPARATOR_LINE.fullmatch, lines),
        delimiter=layout.delimiter,
        quotechar=layout.quote,
        escapechar=None if is_literal else layout.escape,
        quoting=csv.QUOTE_NONE if is_literal else csv.QUOTE_MINIMAL,
        strict=strict,
    )


def numbered_columns(count: int) -> tuple[str, ...]:
    """Return the names of so many columns without names."""
    return tuple(f"column_{position + 1}" for position in range(count))


class DelimitedTable(FileTable):
    """An open CSV or TSV file."""

    def __init__(self, source: Input, stack: ExitStack) -> None:
        """Read the header."""
        super().__init__(source)
        # Without a limit, a quote that is never closed would swallow the rest of the file.
        csv.field_size_limit(LONGEST_CELL)
        self.lines = self._lines = stack.enter_context(open_lines(source))
        self._layout = source.layout
        self._records = split_records(source.layout, iter(self._lines), strict=True)
        if source.layout.columns is not None:
            self._names = list(source.layout.columns)
            self.hint = f"The first line is read as a row; the columns are {listed(self._names)}."
        else:
            self._names = self._read_header()
            self.hint = f"Line {self._lines.number} names {listed(self._names)}."
        self._first = self._names[0].lower()

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return self._names

    def column_of(self, values: Sequence[Any]) -> pa.Array:
        """Return the cells of a column of a batch."""
        return pa.array(values, pa.string())

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, list[str] | RowProblem]]:
        """Yield the line and the cells of each row, or its problem. Empty lines are skipped."""
        cells = [self._names.index(name) for name in columns]
        for line, fields in self._read():
            if isinstance(fields, RowProblem):
                yield line, fields
            else:
                yield line, [fields[cell] for cell in cells]

    def _read(self) -> Iterator[tuple[int, list[str] | RowProblem]]:
        """Yield each record's first line number and its fields, or its problem."""
        lines = self._lines
        line = lines.number + 1
        while True:
            try:
                for fields in self._records:
                    if fields or lines.problem is not None:
                        problem = lines.take_problem() or self._problem_of(line, fields)
                        yield line, problem or fields
                    line = lines.number + 1
            except csv.Error as error:
                # The csv module continues with the line after the one that it cannot read.
                problem = lines.take_problem() or self._unreadable(line, str(error))
                yield line, replace(problem, lines=max(1, lines.number - line + 1))
                line = lines.number + 1
            else:
                return

    def _read_header(self) -> list[str]:
        """Return the names of the columns, from the first record that is not empty."""
        lines = self._lines
        try:
            names: list[str] = next(filter(None, self._records), [])
        except csv.Error as error:
            problem: RowProblem | None = self._unreadable(max(lines.number, 1), str(error))
        else:
            problem = lines.take_problem()
        if problem is not None:
            raise DataError(
                f"{lines.name}, line {problem.line:,}, in the header: {problem.message}.", problem.hint
            )
        if not names:
            raise DataError(
                f"{lines.name} is empty, or has only empty lines.",
                "It needs a header line that names its columns, and rows.",
            )

        named = []
        counts = Counter(names)
        for name, numbered in zip(names, numbered_columns(len(names)), strict=True):
            named.append(name if name.strip() else numbered)
            if name.strip() and counts[name] > 1:
                raise DataError(
                    f"{lines.name}, line {lines.number:,}: the header has a column twice.",
                    f"Rename one of the two: {name!r}.",
                )
        return named

    def _problem_of(self, line: int, fields: list[str]) -> RowProblem | None:
        """Return the problem of a row: not as many fields as columns, or the start of another file."""
        width = len(self._names)
        # The first cell tells most rows from a second header, with which another file begins.
        first = fields[0].lower()
        if first == self._first or first.startswith(BOM):
            cells = [field.removeprefix(BOM).strip(' "').lower() for field in fields]
            if cells == [name.lower() for name in self._names]:
                hint = "Remove it: another file was appended here. If it is the first line, name no columns."
                return RowProblem(line, "a header line instead of a row", hint)
        if fields[0].startswith(BOM):
            hint = "Another file was appended here: remove the mark, and its header if it has one."
            return RowProblem(line, "a byte order mark in front of the row", hint)
        if len(fields) != width:
            columns = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
            hint = f"Quote texts that contain {self._layout.delimiter!r}, or set data.files.quoting."
            return RowProblem(line, f"{columns}, but {width} in the header", hint)
        return None

    def _unreadable(self, line: int, error: str) -> RowProblem:
        """Return the problem of a record that the csv module refuses, by its message."""
        hint = (
            "Close or double the quote. Where a backslash is before it, set data.files.escape; where quotes"
            " are only characters, set data.files.quoting to literal."
        )
        if "field limit" in error:
            message = f"a quote that is never closed, or a field of more than {LONGEST_CELL:,} characters"
        elif "end of data" in error:
            message = "a quote that opens in this row is never closed"
        elif "expected after" in error:
            message = "text follows a closing quote"
        else:
            message = error
        return RowProblem(line, message, hint)


CSV = Format("csv", (".csv", ".txt"), DelimitedTable)
TSV = Format("tsv", (".tsv", ".tab"), DelimitedTable, delimiter="\t", quoting="literal")
