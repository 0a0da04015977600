"""The error budget of the promotion gate: how often it may promote a model that is no better, in a year.

A test at 5 % is wrong once in twenty nights, and a year has 365 of them on the same rows. So a year has one
budget, ``promotion.error_rate``, and each candidate may use up an equal part of it: its level. A fifth of
the budget is for candidates that are compared on newly labelled rows (``flows/promotion/challenge.py``). The
probability that any of a year's candidates is promoted without being better is at most the sum of their
levels (the union bound), however much the nights depend on each other. Production was chosen on the same
rows, which makes it harder to beat there, not easier.

The parts are equal, because a better model may come in any night, and because nothing is gained then by a
split that changes a little every night: its budget is renewed, and the level stays what it was. The Ladder
(Blum & Hardt, 2015, arXiv:1502.04585) bounds how far a leaderboard is off, which is another promise: its
step of one standard error promotes models that are no better (``benchmarks/gate.py``), and with a step that
keeps the year's error rate it is a normal approximation of the exact test.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from tuneline.core.records import Record

if TYPE_CHECKING:
    from tuneline.settings import PromotionPolicy

NEW_ROWS_PART = 0.2
"""Part of the year's error probability that is kept for newly labelled rows; the rest is for the split."""
CHALLENGERS = 13
"""Candidates of a year that can be compared on newly labelled rows: one every four weeks."""
NEW_ROWS = "new rows"
"""What the history has in place of the hash of a split, where newly labelled rows were read."""
YEAR = 365 * 86400.0
"""Seconds after which a decision no longer counts."""
FULL = 1e-9
"""Relative part of a level that rounding may take."""


class GateEntry(Record):
    """A decision of the gate about a candidate, in the history of the registry."""

    time: float
    """Unix time in seconds."""
    split: str
    """Name of the reported split."""
    rows_hash: str
    """SHA-256 of the files of the split; ``NEW_ROWS`` for newly labelled rows."""
    rows: int
    """Number of its rows."""
    independent: int
    """Number of its clusters of rows."""
    candidate: str
    """Hash of the candidate's model in ``dvc.lock``; empty if it is not there."""
    production: str
    """Name of the version that it was compared with."""
    number: int
    """Its number among the candidates on this split within a year, from 1."""
    level: float
    """Error probability that it was tested at, and that it has used up; 0 if an earlier entry has."""
    spent: float
    """Error probability used up on this split within a year, with this candidate."""
    left: float
    """What is left of the year's budget."""
    discordant: int | None
    """Votes of the rows that only one model predicts correctly; ``None`` unless accuracy decides."""
    difference: float | None
    """Metric of the candidate less that of production; ``None`` if one of them is not defined."""
    outcome: str
    """``promoted``, ``rejected`` or ``withheld``."""
    commit: str = ""
    """Commit of the candidate's result."""


@dataclass(frozen=True)
class ErrorBudget:
    """The budget of one split, as a candidate finds it.

    Attributes:
        total: Error probability of a year.
        night: The equal part of a candidate.
        entries: Decisions on this split within the last year, the latest last.
        rows_hash: SHA-256 of the files of the split.
        candidate: Hash of the model that is judged; empty if it is unknown.
        repeated: Level of an earlier decision about the same two models on these rows, if there was one.
    """

    total: float
    night: float
    entries: Sequence[GateEntry] = ()
    rows_hash: str = ""
    candidate: str = ""
    repeated: float | None = None

    @classmethod
    def of(
        cls, history: Sequence[GateEntry], rows_hash: str, now: float, *, error_rate: float, candidates: int
    ) -> Self:
        """Return the budget of the split with a hash, from the history of all splits."""
        entries = []
        for entry in history:
            if entry.rows_hash == rows_hash and now - entry.time < YEAR:
                entries.append(entry)
        return cls(error_rate, error_rate / candidates, tuple(entries), rows_hash)

    def of_pair(self, candidate: str, production: str) -> Self:
        """Return the budget for a decision about two models.

        The same test on the same rows has the same result, so it uses up nothing when it is repeated: after
        a hold, or a promotion of another machine that was taken back.
        """
        repeated = None
        for entry in self.entries:
            is_same_pair = entry.candidate == candidate and entry.production == production
            if candidate and is_same_pair and entry.level > 0:
                repeated = entry.level
        return replace(self, candidate=candidate, repeated=repeated)

    @classmethod
    def of_split(
        cls, history: Sequence[GateEntry], rows_hash: str, now: float, policy: "PromotionPolicy"
    ) -> Self:
        """Return the budget of a split under the settings of the gate."""
        error_rate = (1 - NEW_ROWS_PART) * policy.error_rate
        return cls.of(history, rows_hash, now, error_rate=error_rate, candidates=policy.candidates_per_year)

    @classmethod
    def of_new_rows(cls, history: Sequence[GateEntry], now: float, policy: "PromotionPolicy") -> Self:
        """Return the budget of newly labelled rows under the settings of the gate."""
        error_rate = NEW_ROWS_PART * policy.error_rate
        return cls.of(history, NEW_ROWS, now, error_rate=error_rate, candidates=CHALLENGERS)

    @property
    def number(self) -> int:
        """Number of the next candidate among those within a year, from 1."""
        return len(self.entries) + 1

    @property
    def spent(self) -> float:
        """Error probability that is used up."""
        return sum(entry.level for entry in self.entries)

    @property
    def left(self) -> float:
        """Error probability that is not used up."""
        return max(self.total - self.spent, 0.0)

    @property
    def level(self) -> float:
        """Level of the next candidate; 0 when the budget of the year is used up."""
        if self.repeated is not None:
            return self.repeated
        if self.left < self.night * (1 - FULL):
            return 0.0
        return self.night

    @property
    def cost(self) -> float:
        """Error probability that the next candidate uses up."""
        if self.repeated is not None:
            return 0.0
        return self.level
