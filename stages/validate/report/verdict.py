"""What came of all checks together."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stages.validate.catalog import CHECKS
from stages.validate.findings import Finding


@dataclass(frozen=True)
class Verdict:
    """All findings.

    Attributes:
        findings: In the order of the catalog, then of the splits.
        figures: Numbers that move between versions of the data.
    """

    findings: Sequence[Finding]
    figures: dict[str, float]

    @property
    def errors(self) -> list[Finding]:
        """Findings that end the stage."""
        return [finding for finding in self.findings if finding.stops]

    @property
    def warnings(self) -> list[Finding]:
        """Findings that do not, but should be looked at."""
        return [finding for finding in self.findings if finding.status != "passed" and not finding.stops]

    @property
    def not_run(self) -> list[str]:
        """Checks that no split gave a reason to run: see ``docs/data-checks.md`` for when that is."""
        ran = {finding.outcome.check for finding in self.findings}
        return [check for check in CHECKS if check not in ran]

    def to_json(self) -> dict[str, Any]:
        """As it is written to ``checks.json``."""
        return {
            "passed": not self.errors,
            "errors": len(self.errors),
            "warnings": len(self.warnings),
            "figures": self.figures,
            "not_run": self.not_run,
            "checks": [_to_json(finding) for finding in self.findings],
        }


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Findings in the order of the catalog; of one check, in the order they came."""
    place = {check: number for number, check in enumerate(CHECKS)}
    return sorted(findings, key=lambda finding: place[finding.outcome.check])


def _to_json(finding: Finding) -> dict[str, Any]:
    outcome = finding.outcome
    return {
        "check": outcome.check,
        "split": outcome.table.split,
        "of": outcome.table.kind,
        "severity": finding.severity,
        "status": finding.status,
        "title": CHECKS[outcome.check].title,
        "found": finding.found,
        "allowed": finding.allowed,
        "rows": outcome.rows,
        "failing": outcome.failing,
        "observed": outcome.observed,
        "expectation": {"type": outcome.type, **outcome.arguments},
        "worst": [asdict(row) for row in finding.worst],
        "advice": CHECKS[outcome.check].advice if finding.status != "passed" else None,
    }
