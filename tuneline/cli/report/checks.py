"""The data checks, summed up: how many, and which did not pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.cli.report.reading import read_json
from tuneline.paths import CHECKS


@dataclass(frozen=True)
class Check:
    """One check of one split that did not pass.

    Attributes:
        name: As under ``validate:``.
        split: Where it was found.
        stops: Whether it ends the line.
        title, found, allowed, advice: In words.
    """

    name: str
    split: str
    stops: bool
    title: str
    found: str
    allowed: str
    advice: str


@dataclass(frozen=True)
class Checks:
    """All checks.

    Attributes:
        total, passed: How many there are, and how many passed.
        failed: Those that did not, errors first.
        parts: Per kind of check and split, how many passed of how many.
        splits: Those that were checked.
        has_page: Whether the checks' own page is there.
    """

    total: int
    passed: int
    failed: list[Check]
    parts: dict[str, dict[str, tuple[int, int]]]
    splits: list[str]
    has_page: bool

    @property
    def errors(self) -> int:
        """Failed checks that end the line."""
        return sum(check.stops for check in self.failed)


def found_checks(root: Path) -> Checks | None:
    """Sums up ``reports/checks/checks.json``; ``None`` where it is not there."""
    report = read_json(root / CHECKS / "checks.json")
    if report is None or not isinstance(report.get("checks"), list):
        return None
    entries: list[Mapping[str, Any]] = report["checks"]
    failed = [_check(entry) for entry in entries if not _passed(entry)]
    parts: dict[str, dict[str, tuple[int, int]]] = {}
    for entry in entries:
        part = parts.setdefault(str(entry.get("of", "data")), {})
        passed, total = part.get(str(entry.get("split", "")), (0, 0))
        part[str(entry.get("split", ""))] = (passed + _passed(entry), total + 1)
    splits = list(dict.fromkeys(split for part in parts.values() for split in part))
    has_page = (root / CHECKS / "index.html").is_file()
    failed.sort(key=lambda check: not check.stops)
    return Checks(len(entries), len(entries) - len(failed), failed, parts, splits, has_page)


def _passed(entry: Mapping[str, Any]) -> bool:
    return entry.get("status") == "passed"


def _check(entry: Mapping[str, Any]) -> Check:
    words = {key: str(entry.get(key) or "") for key in ("title", "found", "allowed", "advice")}
    stops = entry.get("status") == "crashed" or entry.get("severity") == "error"
    return Check(str(entry.get("check", "?")), str(entry.get("split", "")), stops, **words)
