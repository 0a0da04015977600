"""Parts that all readers share: problems of rows, names of options, limits, and checks of column names."""

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import first_lines, listed


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
        if self.column:
            return f"{unit} {self.line:,}, column {self.column}"
        return f"{unit} {self.line:,}"

    @property
    def reason(self) -> str:
        """What is wrong, with the column."""
        if self.column:
            return f"column {self.column}: {self.message}"
        return self.message


@dataclass(frozen=True)
class OptionNames:
    """Names of the settings for files, as the user of this caller writes them. Hints mention them.

    Attributes:
        delimiter, quoting, columns, encoding: For example ``data.files.delimiter`` or ``--delimiter``.
        escape: For example ``data.files.escape``.
        cell, row_group, unpacked: Names of the limits, for example ``data.files.max_cell_characters`` or
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
    columns: Sequence[str], required: Mapping[str, str], where: str, hint: str | None = None
) -> None:
    """Check that a table has each required column exactly once.

    Args:
        columns: The columns of the table.
        required: For each required column, the option that names it.
        where: The table, for messages.
        hint: What to do about a missing column. By default, the hint lists the columns of the table.

    Raises:
        DataError: A column is missing, or occurs twice.
    """
    for column, option in required.items():
        count = columns.count(column)
        if count > 1:
            raise DataError(
                f"{where}: column {column!r} occurs {count} times.", "Rename all but one of them."
            )
        if count == 0:
            problem, advice = missing_column(column, option, columns, hint)
            raise DataError(f"{where}: {problem}.", advice)


def missing_column(
    column: str, option: str, columns: Iterable[str], hint: str | None = None
) -> tuple[str, str]:
    """Return the message about a column that is missing, and the hint.

    Only the hint names the columns of the table: the message quotes nothing of the file.
    """
    problem = f"no column {column!r} ({option})"
    if not hint:
        hint = f"It has {listed(columns)}."
    near = nearest(column, columns).removeprefix("; the ")
    if near:
        hint = f"The {near}. {hint}"
    return problem, hint


def nearest(name: str, known_names: Iterable[str]) -> str:
    """Return ``; the nearest is 'x'``, or an empty string where no known name is similar."""
    matches = difflib.get_close_matches(name, list(known_names), n=1, cutoff=0.6)
    if not matches:
        return ""
    return f"; the nearest is {matches[0]!r}"


Action = Literal["stop", "skip"]
"""``stop``: the first bad row is an error. ``skip``: bad rows are left out and counted."""
MAX_SHARE = 0.01
"""Default for the fraction of the rows of a file that may be bad."""
SHOWN_BAD_ROWS = 5
"""Bad rows in the message about a file that has too many."""
MISREAD = 0.1
"""Share of bad rows from which the file is read wrongly: so many rows are not broken one by one."""
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
        self.name = name
        self.unit = unit
        self.policy = policy
        self.on_skip = on_skip
        self.count = 0
        self.first: list[str] = []
        self.hints: Counter[str] = Counter()
        self._last_line = 0

    def add(self, problem: RowProblem, place: str | None = None) -> None:
        """Leave a row out; ``place`` says where it is, if not its line or row.

        Raises:
            DataError: Bad rows are an error, or there are too many.
        """
        place = place or problem.place(self.unit)
        if self.policy.action == "stop":
            hint = f"{problem.hint} To leave out such rows: {self.policy.option}."
            raise DataError(f"{self.name}, {place}: {problem.message}.", hint)

        # what the message about too many bad rows needs
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
        """What to do about a file with many bad rows: the likely cause, and the most frequent hint."""
        text = "With so many bad rows, the file is written in another way than it is read."
        for hint, _ in self.hints.most_common(1):
            text += f" {hint}"
        return text

    def check(self, usable: int) -> None:
        """Check the share of bad rows at the end of a file with ``usable`` other rows.

        Raises:
            DataError: There are too many bad rows.
        """
        self._check(usable + self.count)

    def _check(self, rows: int, which: str = "") -> None:
        """Check the share of bad rows among the rows read so far; ``which`` says that the file has more."""
        share = self.count / max(rows, 1)
        limit = self.policy.max_share
        if share <= limit:
            return

        option = self.policy.share_option
        hint = f"Correct them; if they may be left out, raise {option}."
        if share > MISREAD:
            hint = self.layout_hint

        lines = [
            f"{self.name}: {self.count:,} of {which}{rows:,} rows are bad ({share:.2%}), more than {limit:g}"
            f" ({option})."
        ]
        lines += first_lines(self.first, SHOWN_BAD_ROWS, self.count)
        raise DataError("\n  ".join(lines), hint)


MB = 1 << 20
"""Bytes."""


@dataclass(frozen=True)
class Limits:
    """Largest sizes that are read.

    Attributes:
        cell: Characters of a cell.
        row_group: Bytes, decoded, of a row group or of rows staged together.
        unpacked: Bytes, decoded, of a file.
    """

    cell: int = MB
    row_group: int = 1024 * MB
    unpacked: int = 16384 * MB

    @classmethod
    def of(cls, cell_characters: int, row_group_mb: int, unpacked_mb: int) -> Self:
        """Return limits in the units of the parameters."""
        return cls(cell_characters, row_group_mb * MB, unpacked_mb * MB)


DEFAULT_LIMITS = Limits()


def too_large(where: str, met: str, limit: str, option: str) -> DataError:
    """Return the error for something that is larger than its limit.

    Args:
        where: The place of it.
        met: The size, up to the word before ``than``, such as ``2,000,000 characters, more``.
        limit: The limit with its unit.
        option: The option that sets the limit.
    """
    hint = f"Check where the file comes from. If it is as it should be, raise {option}."
    return DataError(f"{where}: {met} than {limit} ({option}).", hint)
