"""The error budget of the promotion gate: how often it may promote a model that is no better, in a year.

A test at 5 % is wrong once in twenty nights, and a year has 365 of them on the same rows. So a year has one
budget, and each candidate that is tested uses up a part of it: its level. The budget is four fifths of
``promotion.error_rate``; the rest is a margin. The probability that any of a year's candidates is promoted
without being better is at most the sum of their levels (the union bound), however much the nights depend on
each other. Production was chosen on the same rows, which makes it harder to beat there, not easier.

**The level of a candidate** is given by the validation rows, before the reported split is looked at: an equal
part of the year, divided by four times its p-value on validation, and at most a fifth of what is left. A
candidate that wins on validation so may be tested at 290 times the level of one that loses there. These are
weights of hypotheses (Genovese, Roeder & Wasserman, "False discovery control with p-value weighting",
Biometrika 93, 2006), by rows that are independent of those of the test. The promise needs nothing of them:
whatever validation says, and however much it was searched, the levels of a year sum to its budget at most.
Were all candidates of a year exactly as good as production, each on other validation rows, they would use it
up; candidates that are worse use up little.

The sum is over all rows that were reported on, because a level is large where validation is clear: a split
that gets ten rows every night would be a way around it. The Ladder (Blum & Hardt, 2015, arXiv:1502.04585)
bounds how far a leaderboard is off, which is another promise: its step of one standard error promotes models
that are no better (``benchmarks/gate.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import ValidationError

from tuneline.core.repository.git import git
from tuneline.core.stage.records import OMITTED, Record

if TYPE_CHECKING:
    from tuneline.core.settings import PromotionPolicy


BUDGET_PART = 0.8
"""Part of ``promotion.error_rate`` that the candidates of a year may use up."""
VALIDATION_WEIGHT = 1 / 4
"""Level of a candidate on which validation says nothing (a p-value of 1), as a part of its equal part."""
LARGEST_PART = 1 / 5
"""Part of what is left of the year's budget that one candidate may use up at most, of five or more a year."""
YEAR = 365 * 86400.0
"""Seconds after which a decision no longer counts."""


class GateEntry(Record):
    """A decision of the gate about a candidate, in the history of the registry."""

    time: float
    """Unix time in seconds."""
    rows_hash: str
    """SHA-256 of the files of the split."""
    candidate: str
    """Hash of the candidate's model in ``dvc.lock``; empty if it is not there."""
    production: str
    """Name of the version that it was compared with."""
    level: float
    """Error probability that it was tested at, and that it has used up; 0 if an earlier entry has."""
    outcome: str
    """``promoted``, ``rejected`` or ``withheld``."""
    commit: str = ""
    """Commit of the candidate's result."""
    validation_p: float | None = OMITTED
    """P-value of the candidate on validation, by which it has its level; ``None`` if it is not known."""


@dataclass(frozen=True)
class ErrorBudget:
    """The budget of a year, as a candidate finds it.

    Attributes:
        total: Error probability of a year.
        level: Level of the candidate; 0: the year's budget is used up.
        entries: Decisions within the last year that have used it up, the latest last.
        rows_hash: SHA-256 of the files of the reported split.
        validation_p: P-value of the candidate on validation; ``None`` if it is not known.
        candidate: Hash of the model that is judged; empty if it is unknown.
        is_repeated: True if an earlier decision was about the same two models on these rows.
    """

    total: float
    level: float
    entries: Sequence[GateEntry] = ()
    rows_hash: str = ""
    validation_p: float | None = None
    candidate: str = ""
    is_repeated: bool = False

    @classmethod
    def of_year(
        cls,
        history: Sequence[GateEntry],
        rows_hash: str,
        now: float,
        policy: "PromotionPolicy",
        validation_p: float | None = None,
    ) -> Self:
        """Return what the decisions of the last year, on whatever split, leave for a candidate.

        Its level depends on its p-value on validation; without one, it is an equal part of the year.
        """
        entries = []
        for entry in history:
            if now - entry.time < YEAR:
                entries.append(entry)
        budget = cls(BUDGET_PART * policy.error_rate, 0.0, entries, rows_hash, validation_p)

        # an equal part, and what validation may make of it
        part = budget.total / policy.candidates_per_year
        smallest = VALIDATION_WEIGHT * part
        largest = max(LARGEST_PART, 1 / policy.candidates_per_year) * budget.left
        level = part
        if validation_p is not None:
            level = smallest / max(validation_p, smallest)
        if largest < smallest:
            level = 0.0
        return replace(budget, level=min(level, largest))

    def of_pair(self, candidate: str, production: str) -> Self:
        """Return the budget for a decision about two models.

        The same test on the same rows has the same result, so it uses up nothing when it is repeated: after
        a hold, or a promotion of another machine that was taken back. It has the level of the first time.
        """
        budget = replace(self, candidate=candidate)
        for entry in self.entries:
            is_same_pair = entry.candidate == candidate and entry.production == production
            is_same_test = is_same_pair and entry.rows_hash == self.rows_hash
            if candidate and is_same_test and entry.level > 0:
                budget = replace(budget, level=entry.level, is_repeated=True)
        return budget

    @property
    def spent(self) -> float:
        """Error probability that is used up."""
        return sum(entry.level for entry in self.entries)

    @property
    def left(self) -> float:
        """Error probability that is not used up."""
        return max(self.total - self.spent, 0.0)

    @property
    def cost(self) -> float:
        """Error probability that the next candidate uses up."""
        if self.is_repeated:
            return 0.0
        return self.level


def history_ref(artifact: str) -> str:
    """Return the name of the ref with the history of an artifact."""
    return f"refs/tuneline/gate/{artifact}"


def read_gate_history(root: Path, artifact: str) -> list[GateEntry]:
    """Return the decisions about candidates of an artifact, the latest last; none without a history."""
    options = ("--reverse", "--topo-order", "-z", "--format=%B")
    return parse_messages(git(root, "log", *options, history_ref(artifact), "--").split("\0"))


def parse_messages(messages: Sequence[str]) -> list[GateEntry]:
    """Return the entries in the messages of commits; one that cannot be read is left out."""
    entries = []
    for message in messages:
        line = message.strip().rpartition("\n")[2]
        try:
            entries.append(GateEntry.model_validate_json(line))
        except ValidationError:
            continue
    return entries


def as_message(entry: GateEntry) -> str:
    """Return the message of the commit of an entry."""
    subject = f"{entry.outcome.capitalize()}: compared with {entry.production} on {entry.rows_hash[:12]}"
    return f"{subject}\n\n{entry.model_dump_json()}"
