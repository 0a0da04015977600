"""Summary of the data checks: how many passed, and which failed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.cli.report.reading import read_json
from tuneline.paths import CHECKS


@dataclass(frozen=True)
class FailedCheck:
    """One failed check of one split.

    Attributes:
        name: Its key under ``validate`` in params.yaml.
        split: The checked split.
        is_error: True if it stops the pipeline; False for a warning.
        title: What is checked, as a sentence.
        found: What the data have.
        allowed: What the parameters allow.
        advice: How to fix it.
    """

    name: str
    split: str
    is_error: bool
    title: str
    found: str
    allowed: str
    advice: str


@dataclass(frozen=True)
class Checks:
    """Results of all checks.

    Attributes:
        total: Number of checks.
        passed: Number of checks that passed.
        failed: The failed checks, errors first.
        counts: Number of passed and of all checks, by checked table and split.
        splits: The checked splits.
        has_page: True if ``reports/checks/index.html`` exists.
    """

    total: int
    passed: int
    failed: list[FailedCheck]
    counts: dict[str, dict[str, tuple[int, int]]]
    splits: list[str]
    has_page: bool

    @property
    def errors(self) -> int:
        """Number of failed checks that stop the pipeline."""
        return sum(check.is_error for check in self.failed)


def read_checks(root: Path) -> Checks | None:
    """Summarize ``reports/checks/checks.json``; ``None`` if it is missing or invalid."""
    report = read_json(root / CHECKS / "checks.json")
    if report is None or not isinstance(report.get("checks"), list):
        return None
    entries: list[Mapping[str, Any]] = report["checks"]
    failed = [_failed_check(entry) for entry in entries if not _passed(entry)]
    counts: dict[str, dict[str, tuple[int, int]]] = {}
    for entry in entries:
        by_split = counts.setdefault(str(entry.get("of", "data")), {})
        split = str(entry.get("split", ""))
        passed, total = by_split.get(split, (0, 0))
        by_split[split] = (passed + _passed(entry), total + 1)
    splits = list(dict.fromkeys(split for by_split in counts.values() for split in by_split))
    has_page = (root / CHECKS / "index.html").is_file()
    failed.sort(key=lambda check: not check.is_error)
    return Checks(len(entries), len(entries) - len(failed), failed, counts, splits, has_page)


def _passed(entry: Mapping[str, Any]) -> bool:
    return entry.get("status") == "passed"


def _failed_check(entry: Mapping[str, Any]) -> FailedCheck:
    texts = {key: str(entry.get(key) or "") for key in ("title", "found", "allowed", "advice")}
    is_error = entry.get("status") == "crashed" or entry.get("severity") == "error"
    return FailedCheck(str(entry.get("check", "?")), str(entry.get("split", "")), is_error, **texts)
