"""Parts that all readers share: problems of rows, the names of the reading options, and checks of column names."""

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tuneline.errors import DataError

Kind = Literal["csv", "tsv", "jsonl", "parquet"]
"""Format of a file."""
ENDINGS = tuple(kind + packed for kind in (".csv", ".tsv", ".jsonl", ".parquet") for packed in ("", ".gz"))
"""Endings of the files that ``data.source: files`` reads."""


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that cannot be read.

    Attributes:
        line: Line number in the file, from 1; row number where rows are not lines.
        message: What is wrong, without the place and without a full stop.
        hint: What to do about it.
        column: The column or columns, as messages name them; empty for the whole row.
        content: The row as it is in the file, or the start of it.
        lines: Number of lines.
    """

    line: int
    message: str
    hint: str
    column: str = ""
    content: str = ""
    lines: int = 1

    def place(self, unit: str) -> str:
        """Return where the row is in its file.

        Args:
            unit: What ``line`` counts.
        """
        return f"{unit} {self.line:,}" + (f", column {self.column}" if self.column else "")

    @property
    def reason(self) -> str:
        """What is wrong, with the column."""
        return f"column {self.column}: {self.message}" if self.column else self.message


@dataclass(frozen=True)
class OptionNames:
    """Names of the settings for files, as the user of this caller writes them. Hints mention them.

    Attributes:
        delimiter, quoting, columns, encoding: For example ``data.files.delimiter`` or ``--delimiter``.
        cell, row_group, unpacked: Of the limits, for example ``data.files.max_cell_characters`` or ``--max-cell-characters``.
    """

    delimiter: str
    quoting: str
    columns: str
    encoding: str
    cell: str = "data.files.max_cell_characters"
    row_group: str = "data.files.max_row_group_mb"
    unpacked: str = "data.files.max_unpacked_mb"


PARAMETERS = OptionNames("data.files.delimiter", "data.files.quoting", "data.files.columns", "data.files.encoding")
"""The settings in ``params.yaml``."""


def check_columns(present: Sequence[str], required: Mapping[str, str], where: str, hint: str | None = None) -> None:
    """Check that each required column is present exactly once.

    Args:
        present: The columns of the file.
        required: For each required column, the option or parameter that names it.
        where: The file or data set, for messages.
        hint: What to do about a missing column. Default: list the columns that are present.

    Raises:
        DataError: A column is missing or duplicated.
    """
    for column, option in required.items():
        count = present.count(column)
        if count > 1:
            raise DataError(f"{where}: column {column!r} occurs {count} times.", "Rename all but one of them.")
        if count == 0:
            raise DataError(f"{where}: no column {column!r} ({option}){nearest(column, present)}.", hint or f"It has {listed(present)}.")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``; the nearest is 'x'``, or an empty string where no known name is similar."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; the nearest is {near[0]!r}" if near else ""


def listed(names: Iterable[str], most: int = 12) -> str:
    """Join quoted names for a message; more than ``most`` are counted instead of named."""
    shown = [repr(name) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def text_problem(value: Any, column: str) -> str | None:
    """Return why a value cannot be used as text, or ``None`` if it can.

    Args:
        value: A JSON or Arrow value.
        column: Its column, for the message.
    """
    if not isinstance(value, str):
        return f"column {column!r} is {json.dumps(value, default=str)[:40]}, not text"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"column {column!r} has an unpaired surrogate, \\u{ord(value[error.start]):04x}"
    return None
