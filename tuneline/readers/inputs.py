"""Rows to predict: texts of a user's file of any format, one row after the other.

``tuneline predict`` and flow ``score`` read through ``open_rows``. ``labelled`` has the other view of a file,
batches of texts with labels.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from tuneline.readers.rows import RowProblem, check_columns, row_problem, text_problem
from tuneline.readers.tables import FileTable, Input, open_table

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

    ``every``: copy all columns; without ``kept``, all columns of the input. A file need not have each.
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
    def names(self) -> list[str]:
        """All columns, each once."""
        return list(dict.fromkeys((*self.texts, *self.kept)))


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
        required = columns.texts if columns.every else columns.names
        check_columns(table.names(), required, table.name, table.hint)
        position = None if table.lines is None else table.lines.position
        yield InputRows(columns, _predictable(table, columns), source.unit, table.total, position)


def _predictable(table: FileTable, columns: InputColumns) -> Iterator[Row | BadRow]:
    part = table.source.part
    first = 1 if part is None else part.start + 1
    known = set(table.names())
    read = [name for name in columns.names if name in known]
    for number, (line, values) in enumerate(table.rows(read), start=first):
        if isinstance(values, RowProblem):
            yield BadRow(number, values)
            continue
        used = dict(zip(read, values, strict=True))
        texts = {name: used[name] for name in columns.texts}
        kept = {name: used.get(name) for name in columns.kept}
        message = row_problem(texts) or _kept_problem(kept)
        if message is not None:
            yield BadRow(
                number, RowProblem(line, message, "Every row needs text; --text names another column.")
            )
        else:
            yield Row(number, tuple(texts.values()), kept)


def _kept_problem(values: Mapping[str, Any]) -> str | None:
    """Return why a value cannot be copied, or ``None``: half of a character cannot be written."""
    for name, value in values.items():
        text = value
        if isinstance(value, (list, dict)):
            text = _to_json(value)
        if isinstance(text, str) and not text.isascii():
            message = text_problem(text, name)
            if message is not None:
                return message
    return None
