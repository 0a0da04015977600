"""The data checks, summed up: how many, and which did not pass."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """One check of one table that did not pass."""

    name: str
    table: str
    severity: str
    found: str


@dataclass(frozen=True)
class Checks:
    """All checks.

    Attributes:
        total, passed: How many there are, and how many passed.
        failed: Those that did not, errors first.
        tables: Per table, how many passed of how many.
    """

    total: int
    passed: int
    failed: list[Check]
    tables: dict[str, tuple[int, int]]

    @property
    def errors(self) -> int:
        """Failed checks that end the line."""
        return sum(check.severity == "error" for check in self.failed)


def checks(report: Mapping[str, Any]) -> Checks:
    """Sums up ``reports/checks/checks.json``."""
    entries = [entry for entry in report.get("checks", []) if isinstance(entry, Mapping)]
    failed = [_failed(entry) for entry in entries if not _passed(entry)]
    tables: dict[str, tuple[int, int]] = {}
    for entry in entries:
        table = str(entry.get("table", ""))
        passed, total = tables.get(table, (0, 0))
        tables[table] = (passed + _passed(entry), total + 1)
    return Checks(len(entries), len(entries) - len(failed), sorted(failed, key=lambda check: check.severity != "error"), tables)


def _passed(entry: Mapping[str, Any]) -> bool:
    return bool(entry["status"] == "passed" if "status" in entry else entry.get("passed"))


def _failed(entry: Mapping[str, Any]) -> Check:
    severity = "error" if entry.get("crashed") or entry.get("status") == "crashed" else str(entry.get("severity", "error"))
    return Check(str(entry.get("check", "?")).replace("_", " "), str(entry.get("table", "")), severity, _found(entry))


def _found(entry: Mapping[str, Any]) -> str:
    if said := entry.get("crashed") or entry.get("found"):
        return f"{said} (allowed: {entry['allowed']})" if entry.get("allowed") else str(said)
    if entry.get("unexpected") is not None:
        rows = f" of {entry['rows']:,}" if isinstance(entry.get("rows"), int) else ""
        return f"{entry['unexpected']:,}{rows} rows"
    observed = entry.get("observed")
    return "" if observed is None else f"found {json.dumps(observed, default=str)}"
