"""Summaries of the data checks and of the metrics by slice."""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Self

from tuneline.paths import CHECKS, REPORTS
from tuneline.records.checks import CheckEntry, Checks
from tuneline.records.evaluation import SliceMetrics, Slices


@dataclass(frozen=True)
class ChecksSummary:
    """Results of all data checks.

    Attributes:
        entries: Results of all checks.
        has_page: True if ``reports/checks/index.html`` exists.
    """

    entries: list[CheckEntry]
    has_page: bool

    @classmethod
    def read(cls, root: Path) -> Self | None:
        """Summarize ``reports/checks/checks.json``; ``None`` if it is missing or invalid."""
        record = Checks.read_if_valid(root / CHECKS / "checks.json")
        return cls(list(record.checks), (root / CHECKS / "index.html").is_file()) if record else None

    @property
    def total(self) -> int:
        """Number of results."""
        return len(self.entries)

    @property
    def failed(self) -> list[CheckEntry]:
        """Failed checks, those that stop the pipeline first."""
        return sorted((entry for entry in self.entries if entry.status != "passed"), key=lambda entry: not entry.stops)

    @property
    def counts(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Number of passed and of all checks, by checked table and split."""
        counts: dict[str, dict[str, tuple[int, int]]] = {}
        for entry in self.entries:
            by_split = counts.setdefault(entry.table, {})
            passed, total = by_split.get(entry.split, (0, 0))
            by_split[entry.split] = (passed + (entry.status == "passed"), total + 1)
        return counts

    @property
    def splits(self) -> list[str]:
        """The checked splits."""
        return list(dict.fromkeys(split for by_split in self.counts.values() for split in by_split))


@dataclass(frozen=True)
class SlicesSummary:
    """Metric of all slices, and the axis on which it is drawn.

    Attributes:
        record: Metrics by slice, of at least one slice.
        floor: Lower end of the axis; the upper end is 1.
    """

    record: Slices
    floor: float

    @classmethod
    def read(cls, root: Path) -> Self | None:
        """Read ``reports/slices.json``; ``None`` if it is missing, invalid or empty."""
        record = Slices.read_if_valid(root / REPORTS / "slices.json")
        if record is None or not record.slices:
            return None
        lowest = min(one.low for one in record.slices)
        return cls(record, max(-1.0, int(lowest * 10 - (lowest < 0)) / 10))

    @property
    def groups(self) -> dict[str, list[SliceMetrics]]:
        """The slices by the property that defines them, such as ``length``."""
        return {by: list(group) for by, group in groupby(self.record.slices, key=lambda one: one.by)}

    def position(self, value: float) -> float:
        """Return the position of a value on the axis, in percent."""
        return 100 * min(max((value - self.floor) / (1.0 - self.floor), 0), 1)
