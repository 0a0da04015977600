"""Parts that all readers share: problems of rows, and checks of column names."""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import first_lines, listed, say


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that cannot be read.

    Attributes:
        line: Line number in the file, from 1; row number where rows are not lines.
        message: What is wrong, without the place and without a full stop. It quotes nothing of the file; the
            hint may.
        column: The column or columns, as messages name them; empty for the whole row.
        lines: How many lines it took, each of which counts as a row.
    """

    line: int
    message: str
    hint: str
    column: str = ""
    lines: int = 1

    @property
    def reason(self) -> str:
        """What is wrong, with the column."""
        if self.column:
            return f"column {self.column}: {self.message}"
        return self.message


def check_columns(
    columns: Sequence[str], required: Iterable[str], where: str, hint: str | None = None
) -> None:
    """Check that a table has each required column exactly once.

    Only the hint names columns of the table: the message quotes nothing of the file.

    Raises:
        DataError: A column is missing, or occurs twice. ``hint`` says what to do about a missing one.
    """
    for column in required:
        count = columns.count(column)
        if count > 1:
            raise DataError(
                f"{where}: column {column!r} occurs {count} times.", "Rename all but one of them."
            )
        if count == 0:
            near = nearest(column, columns).removeprefix("; the ").replace("nearest", "The nearest")
            advice = hint or f"It has {listed(columns)}."
            raise DataError(f"{where}: no column {column!r}.", f"{near}. {advice}" if near else advice)


def nearest(name: str, known_names: Iterable[str]) -> str:
    """Return ``; the nearest is 'x'``, or an empty string where no known name is similar."""
    matches = difflib.get_close_matches(name, list(known_names), n=1, cutoff=0.6)
    if not matches:
        return ""
    return f"; the nearest is {matches[0]!r}"


LISTED_BAD_ROWS = 10_000
"""Bad rows of a file that are listed; all are counted."""
PRINTED_BAD_ROWS = 20
"""Bad rows that a command prints."""
SHOWN_BAD_ROWS = 5
"""Bad rows in the message about a file that has too many."""
MISREAD = 0.1
"""Share of bad rows from which the file is read wrongly: so many rows are not broken one by one."""


@dataclass(frozen=True)
class BadRowPolicy:
    """The largest fraction of the rows of a file that may be bad, and the parameter or option that sets it.

    With 0, the first bad row is an error. Otherwise, bad rows are left out and counted.
    """

    max_share: float = 0.0
    option: str = "data.max_bad_share"


STOP = BadRowPolicy()
LEAVE_OUT = BadRowPolicy(1.0)
"""For files that were checked before: any number of bad rows is left out."""


class BadRows:
    """The bad rows of one file.

    Attributes:
        unit: What ``RowProblem.line`` counts: ``line`` or ``row``.
        count: Number of rows that were left out.
        problems: What is wrong with the first ``LISTED_BAD_ROWS`` of them.
        printed: True if the first ``PRINTED_BAD_ROWS`` are printed.
    """

    def __init__(self, name: str, unit: str, policy: BadRowPolicy, *, printed: bool = False) -> None:
        self.name = name
        self.unit = unit
        self.policy = policy
        self.printed = printed
        self.count = 0
        self.problems: list[RowProblem] = []

    def add(self, problem: RowProblem) -> None:
        """Leave a row out.

        Raises:
            DataError: Bad rows are an error.
        """
        if not self.policy.max_share:
            hint = f"{problem.hint} To leave out such rows: {self.policy.option} 0.01."
            raise DataError(f"{self.name}, {self.place(problem)}: {problem.message}.", hint)
        self.count += problem.lines
        if len(self.problems) < LISTED_BAD_ROWS:
            self.problems.append(problem)
            if self.printed and len(self.problems) <= PRINTED_BAD_ROWS:
                say(f"skipped {self.unit} {problem.line:,}: {problem.reason}", error=True)

    def place(self, problem: RowProblem) -> str:
        """Return where a row is, and in which column."""
        place = f"{self.unit} {problem.line:,}"
        if problem.column:
            place += f", column {problem.column}"
        return place

    def check(self, usable: int) -> None:
        """Check the share of bad rows at the end of a file with ``usable`` other rows.

        Raises:
            DataError: There are too many bad rows.
        """
        rows = usable + self.count
        share = self.count / max(rows, 1)
        limit = self.policy.max_share
        if share <= limit:
            return
        hint = f"Correct them; if they may be left out, raise {self.policy.option}."
        if share > MISREAD:
            hint = "With so many bad rows, the file is written in another way than it is read."
            hints = Counter(problem.hint for problem in self.problems)
            hint += f" {hints.most_common(1)[0][0]}"
        lines = [f"{self.name}: {self.count:,} of {rows:,} rows are bad ({share:.2%}), more than {limit:g}."]
        shown = [f"{self.place(problem)}: {problem.message}" for problem in self.problems[:SHOWN_BAD_ROWS]]
        lines += first_lines(shown, SHOWN_BAD_ROWS, self.count)
        raise DataError("\n  ".join(lines), hint)


def json_type(value: object) -> str:
    """Name the type of a JSON value, with its article."""
    if value is None:
        return "null"
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), "an object")


def text_problem(value: object, column: str) -> str | None:
    """Return why a JSON or Arrow value of a column cannot be used as text, or ``None`` if it can."""
    if not isinstance(value, str):
        return f"column {column!r} is {json_type(value)}, not text"
    # Most texts are ASCII, which costs less to test than to encode.
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"column {column!r} has an unpaired surrogate, \\u{ord(value[error.start]):04x}"
    return None


def row_problem(texts: Mapping[str, object]) -> str | None:
    """Return why a row of texts, by column, cannot be predicted, or ``None`` if it can.

    It is the same in files, programs and requests; a row without text is refused in training as well.
    """
    for column, value in texts.items():
        problem = text_problem(value, column)
        if problem is not None:
            return problem
    if any(str(value).strip() for value in texts.values()):
        return None
    columns = " and ".join(map(repr, texts))
    return f"column {columns}: no text, or only white space"
