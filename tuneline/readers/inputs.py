"""Rows to predict: texts of a user's file of any format, one row after the other.

``tuneline predict`` and flow ``score`` read through ``open_rows``. ``labelled`` has the other view of a file,
batches of texts with labels.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from tuneline.readers.row_texts import text_problem, type_or_blank_problem
from tuneline.readers.rows import RowProblem, check_columns
from tuneline.readers.tables import FileTable, Input, open_table
from tuneline.readers.text import TextLines

_to_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


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

    def of(self, table: FileTable) -> "InputColumns":
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
        message = type_or_blank_problem({name: values[name] for name in self.texts})
        if message is None:
            return None
        return RowProblem(line, message, "Every row needs text; --text names another column.")

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
        if table.has_schema:
            check_columns(table.names(), columns.options, table.name, table.hint)
        position = None if table.lines is None else table.lines.position
        yield InputRows(columns, _predictable(table, columns), source.unit, table.total, position)


def _predictable(table: FileTable, columns: InputColumns) -> Iterator[Row | BadRow]:
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
