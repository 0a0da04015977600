"""Parts that all readers share: problems of rows, the names of the reading options, and checks of column names."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from tuneline.core.errors import DataError

Kind = Literal["csv", "tsv", "jsonl", "parquet"]
"""Format of a file."""
ENDINGS = tuple(
    kind + packed for kind in (".csv", ".tsv", ".jsonl", ".json", ".parquet") for packed in ("", ".gz")
)
"""Endings of the files that ``data.source: files`` reads."""


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that cannot be read.

    Attributes:
        line: Line number in the file, from 1; row number where rows are not lines.
        message: What is wrong, without the place and without a full stop. It quotes nothing of the file; the
            hint may.
        column: The column or columns, as messages name them; empty for the whole row.
        content: The row as it is in the file, or the start of it.
    """

    line: int
    message: str
    hint: str
    column: str = ""
    content: str = ""
    lines: int = 1

    def place(self, unit: str) -> str:
        """Return where the row is in its file, whose rows ``unit`` counts."""
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
        escape: For example ``data.files.escape``.
        cell, row_group, unpacked: Of the limits, for example ``data.files.max_cell_characters`` or
            ``--max-cell-characters``.
    """

    delimiter: str
    quoting: str
    columns: str
    encoding: str
    cell: str = "data.files.max_cell_characters"
    row_group: str = "data.files.max_row_group_mb"
    unpacked: str = "data.files.max_unpacked_mb"
    escape: str = "data.files.escape"


PARAMETERS = OptionNames(
    "data.files.delimiter", "data.files.quoting", "data.files.columns", "data.files.encoding"
)
"""The settings in ``params.yaml``."""


def check_columns(
    present: Sequence[str], required: Mapping[str, str], where: str, hint: str | None = None
) -> None:
    """Check that each required column, given with the option that names it, is present exactly once; else, a ``DataError``.

    Without a hint, the columns that are present are listed.
    """
    for column, option in required.items():
        count = present.count(column)
        if count > 1:
            raise DataError(
                f"{where}: column {column!r} occurs {count} times.", "Rename all but one of them."
            )
        if count == 0:
            problem, advice = missing_column(column, option, present, hint)
            raise DataError(f"{where}: {problem}.", advice)


def missing_column(
    column: str, option: str, present: Iterable[str], hint: str | None = None
) -> tuple[str, str]:
    """Return the message about a column that is missing, and the hint, which alone names what is there instead."""
    near = nearest(column, present)
    return f"no column {column!r} ({option})", (f"The{near[5:]}. " if near else "") + (
        hint or f"It has {listed(present)}."
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return ``; the nearest is 'x'``, or an empty string where no known name is similar."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; the nearest is {near[0]!r}" if near else ""


def listed(names: Iterable[str], most: int = 12) -> str:
    """Join quoted names for a message; more than ``most`` are counted instead of named."""
    shown = [repr(name) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def json_type(value: Any) -> str:
    """Name the type of a JSON value, with its article."""
    if value is None:
        return "null"
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), "an object")


def text_problem(value: Any, column: str) -> str | None:
    """Return why a JSON or Arrow value of a column cannot be used as text, or ``None`` if it can."""
    if not isinstance(value, str):
        return f"column {column!r} is {json_type(value)}, not text"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"column {column!r} has an unpaired surrogate, \\u{ord(value[error.start]):04x}"
    return None


Action = Literal["stop", "skip"]
"""``stop``: the first bad row is an error. ``skip``: bad rows are left out and counted."""
MAX_SHARE = 0.01
"""Default for the fraction of the rows of a file that may be bad."""
SHOWN_BAD_ROWS = 5
"""Bad rows in the message about a file that has too many."""
MISREAD = 0.1
"""Share of bad rows from which the file is read wrongly: no one has so many rows that are broken one by one."""
EARLY = 100_000
"""Bad rows from which a file with too many is not read to its end, which may be far away."""


@dataclass(frozen=True)
class BadRowPolicy:
    """What to do about bad rows, with the parameters or options that set it, for messages."""

    action: Action = "stop"
    max_share: float = MAX_SHARE
    option: str = "data.bad_rows: skip"
    share_option: str = "data.max_bad_share"


STOP = BadRowPolicy()


class BadRows:
    """The bad rows of one file.

    Attributes:
        unit: What ``RowProblem.line`` counts: ``line`` or ``row``.
        count: Number of rows that were left out. A broken record of a text file counts as many as it has
            lines.
        first: Places and reasons of the first ones.
    """

    def __init__(
        self, name: str, unit: str, policy: BadRowPolicy, on_skip: Callable[[RowProblem], None] | None = None
    ) -> None:
        self.name, self.unit, self.policy, self.on_skip = name, unit, policy, on_skip
        self.count = 0
        self.first: list[str] = []
        self.hints: Counter[str] = Counter()
        self._last_line = 0

    def add(self, problem: RowProblem, place: str | None = None) -> None:
        """Leave a row out; ``place`` says where it is, if not its line or row.

        A ``DataError`` if that is an error, or too many are.
        """
        policy, place = self.policy, place or problem.place(self.unit)
        if policy.action == "stop":
            hint = f"{problem.hint} To leave out such rows: {policy.option}."
            raise DataError(f"{self.name}, {place}: {problem.message}.", hint)
        self.count += problem.lines
        if problem.hint in self.hints or len(self.hints) < SHOWN_BAD_ROWS:
            self.hints[problem.hint] += 1
        if len(self.first) < SHOWN_BAD_ROWS:
            self.first.append(f"{place}: {problem.message}")
        if self.on_skip is not None:
            self.on_skip(problem)
        self._last_line = max(self._last_line, problem.line + problem.lines - 1)
        if self.count >= EARLY:
            self._check(max(self._last_line, self.count), "the first ")

    @property
    def layout_hint(self) -> str:
        """What to do about a file most of whose rows cannot be right: what the most frequent problem advises, and the likely cause."""
        advice = "".join(f" {hint}" for hint, _ in self.hints.most_common(1))
        return f"With so many bad rows, the file is written in another way than it is read.{advice}"

    def check(self, usable: int) -> None:
        """Check the share of bad rows at the end of a file with ``usable`` other rows; a ``DataError`` if there are too many."""
        self._check(usable + self.count)

    def _check(self, rows: int, which: str = "") -> None:
        share, limit = self.count / max(rows, 1), self.policy.max_share
        if share <= limit:
            return
        option = self.policy.share_option
        hint = f"Correct them; if they may be left out, raise {option}."
        if share > MISREAD:
            hint = self.layout_hint
        problem = (
            f"{self.name}: {self.count:,} of {which}{rows:,} rows are bad ({share:.2%}), more than {limit:g}"
            f" ({option})."
        )
        more = [f"and {self.count - len(self.first):,} more"] if self.count > len(self.first) else []
        raise DataError("\n  ".join([problem, *self.first, *more]), hint)


MB = 1 << 20
"""Bytes."""


@dataclass(frozen=True)
class Limits:
    """Largest sizes that are read: characters of a cell; bytes, decoded, of a row group or of rows staged together, and of a file."""

    cell: int = MB
    row_group: int = 1024 * MB
    unpacked: int = 16384 * MB

    @classmethod
    def of(cls, cell_characters: int, row_group_mb: int, unpacked_mb: int) -> Self:
        """Return limits in the units of the parameters."""
        return cls(cell_characters, row_group_mb * MB, unpacked_mb * MB)


DEFAULT_LIMITS = Limits()


def too_large(where: str, met: str, limit: str, option: str) -> DataError:
    """Return the error for something that is larger than its limit: where it is, what was met (``2,000,000 characters, more``)."""
    hint = f"Check where the file comes from. If it is as it should be, raise {option}."
    return DataError(f"{where}: {met} than {limit} ({option}).", hint)
