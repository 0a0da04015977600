"""Results of the data checks: ``reports/checks/checks.json``."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from tuneline.records.record import Record

Severity = Literal["error", "warning"]
Status = Literal["passed", "failed", "crashed"]


class Violation(Record):
    """A row that violates a check."""

    number: int
    """Row number in its split."""
    values: Mapping[str, Any]
    """The checked values, by column."""
    texts: Mapping[str, str]
    """Excerpts of its texts, by column."""
    like: str | None
    """The row that it repeats, for checks of repeated rows."""


class CheckEntry(Record):
    """Result of one expectation of a check on one split."""

    check: str
    """Key of the check, as under ``validate`` in params.yaml."""
    split: str
    table: str
    """Kind of the checked table: ``columns``, ``raw``, ``tokenized`` or ``between``."""
    severity: Severity
    status: Status
    title: str
    """What is checked, as a sentence."""
    found: str
    """The measurement, in words."""
    allowed: str
    """The limit, in words."""
    rows: int | None
    """Number of checked rows; ``None`` for an expectation of a whole column or table."""
    failing: int | None
    """Number of violating rows, likewise."""
    observed: Any
    """Observed value, for an expectation of a whole column or table."""
    expectation: Mapping[str, Any]
    """Type and arguments of the expectation of Great Expectations."""
    worst: Sequence[Violation]
    """Rows that violate the check, the worst first."""
    notes: Sequence[str] = ()
    """What the check found beside its measurement, as plain text, one line each; of passed checks, too."""
    hint: str | None
    """How to fix it; ``None`` if the check passed."""

    @property
    def stops(self) -> bool:
        """True if it ends the stage: a failed check of severity ``error``, or any check that crashed."""
        return self.status == "crashed" or (self.status == "failed" and self.severity == "error")


class Checks(Record):
    """Results of all checks."""

    written_by: ClassVar[str] = "validate"

    passed: bool
    """True if no check stops the pipeline."""
    errors: int
    """Number of results that stop the pipeline."""
    warnings: int
    """Number of failed results that do not."""
    metrics: Mapping[str, int | float]
    """Measurements as in ``metrics/validate.json``, with all digits."""
    not_run: Sequence[str]
    """Keys of checks that do not apply to this data."""
    raw_sha256: Mapping[str, str] = {}
    """SHA-256 of the checked files of ``data/raw``, by split: other files have other rows. Empty in older records."""
    checks: Sequence[CheckEntry]
    """In the order of params.yaml, then of the splits."""
