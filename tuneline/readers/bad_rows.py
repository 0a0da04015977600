"""What becomes of the rows of a file that cannot be used: the same for training data, for new labels and for predictions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from tuneline.errors import DataError
from tuneline.readers.rows import RowProblem

Action = Literal["stop", "skip"]
"""``stop``: the first bad row is an error. ``skip``: bad rows are left out and counted."""
MAX_SHARE = 0.01
"""Default for the fraction of the rows of a file that may be bad."""
SHOWN = 5
"""Bad rows in the message about a file that has too many."""
EARLY = 100_000
"""Bad rows from which a file with too many is not read to its end, which may be far away."""


@dataclass(frozen=True)
class BadRowPolicy:
    """What to do about bad rows.

    Attributes:
        action: ``stop`` or ``skip``.
        max_share: Largest fraction of the rows of a file that may be bad.
        option: The parameter or option that sets ``action``, for messages.
        share_option: The one that sets ``max_share``.
    """

    action: Action = "stop"
    max_share: float = MAX_SHARE
    option: str = "data.bad_rows: skip"
    share_option: str = "data.max_bad_share"


STOP = BadRowPolicy()


class BadRows:
    """The bad rows of one file.

    Attributes:
        name: The file, for messages.
        unit: What ``RowProblem.line`` counts: ``line`` or ``row``.
        policy: What to do about them.
        count: Number of rows that were left out. A broken record of a text file counts as many as it has lines.
        first: Places and reasons of the first ones.
        on_skip: Called with each row that is left out.
    """

    def __init__(self, name: str, unit: str, policy: BadRowPolicy, on_skip: Callable[[RowProblem], None] | None = None) -> None:
        self.name, self.unit, self.policy, self.on_skip = name, unit, policy, on_skip
        self.count = 0
        self.first: list[str] = []
        self._last_line = 0

    @property
    def state(self) -> dict[str, Any]:
        """The counts as JSON values. Setting it restores them, for a reader that resumes."""
        return {"count": self.count, "first": self.first, "last_line": self._last_line}

    @state.setter
    def state(self, value: dict[str, Any]) -> None:
        self.count, self.first, self._last_line = value["count"], list(value["first"]), value["last_line"]

    def add(self, problem: RowProblem, place: str | None = None) -> None:
        """Leave a row out.

        Args:
            problem: The row.
            place: Where it is, if not simply its line or row.

        Raises:
            DataError: Bad rows are an error, or there are too many of them so far.
        """
        policy, place = self.policy, place or problem.place(self.unit)
        if policy.action == "stop":
            hint = f"{problem.hint} To leave out such rows: {policy.option}."
            raise DataError(f"{self.name}, {place}: {problem.message}.", hint)
        self.count += problem.lines
        if len(self.first) < SHOWN:
            self.first.append(f"{place}: {problem.message}")
        if self.on_skip is not None:
            self.on_skip(problem)
        self._last_line = max(self._last_line, problem.line + problem.lines - 1)
        if self.count >= EARLY:
            self._check(max(self._last_line, self.count), "the first ")

    def check(self, usable: int) -> None:
        """Check the share of bad rows, at the end of the file.

        Args:
            usable: Number of the other rows.

        Raises:
            DataError: There are too many bad rows. The message has the first of them.
        """
        self._check(usable + self.count)

    def _check(self, rows: int, which: str = "") -> None:
        share, limit = self.count / max(rows, 1), self.policy.max_share
        if share <= limit:
            return
        problem = (
            f"{self.name}: {self.count:,} of {which}{rows:,} rows are bad ({share:.2%}), more than {limit:g} ({self.policy.share_option})."
        )
        more = [f"and {self.count - len(self.first):,} more"] if self.count > len(self.first) else []
        raise DataError(
            "\n  ".join([problem, *self.first, *more]), f"Correct them; if they may be left out, raise {self.policy.share_option}."
        )
