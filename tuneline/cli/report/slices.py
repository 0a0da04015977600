"""Metrics by slice of the reported split, and results of the behaviour tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from tuneline.cli.report.reading import read_json
from tuneline.paths import REPORTS


@dataclass(frozen=True)
class Slice:
    """The metric on one slice of the split.

    Attributes:
        name: Name of the slice.
        rows: Number of rows.
        value: The metric.
        low: Lower end of its interval.
        high: Upper end of its interval.
    """

    name: str
    rows: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Slices:
    """All slices.

    Attributes:
        metric: Name of the metric.
        groups: The slices by the property that defines them, such as ``length``.
        worst: The worst slice with enough rows.
        floor: Lower end of the axis.
        ceiling: Upper end of the axis.
    """

    metric: str
    groups: dict[str, list[Slice]]
    worst: Slice | None
    floor: float
    ceiling: float

    def position(self, value: float) -> float:
        """Return the position of a value on the axis, in percent."""
        return 100 * min(max((value - self.floor) / (self.ceiling - self.floor), 0), 1)


def read_slices(root: Path) -> Slices | None:
    """Read ``reports/slices.json``; ``None`` if it is missing or empty."""
    report = read_json(root / REPORTS / "slices.json")
    entries: list[Mapping[str, Any]] = (report or {}).get("slices") or []
    if report is None or not entries:
        return None
    metric = str(report.get("metric", "accuracy"))
    groups = {by: [_slice(entry, metric) for entry in group] for by, group in groupby(entries, key=lambda entry: str(entry["by"]))}
    worst = report.get("worst")
    lowest = min(entry.low for group in groups.values() for entry in group)
    floor = max(-1.0, int(lowest * 10 - (lowest < 0)) / 10)
    return Slices(metric, groups, _slice(worst, metric) if worst else None, floor, 1.0)


def _slice(entry: Mapping[str, Any], metric: str) -> Slice:
    return Slice(str(entry["slice"]), int(entry["rows"]), float(entry[metric]), float(entry["low"]), float(entry["high"]))


@dataclass(frozen=True)
class Failure:
    """A failed case: for the original text (if there is one) and the changed text, ``before`` or ``after``, texts, prediction."""

    versions: Sequence[tuple[str, Sequence[str], str]]


@dataclass(frozen=True)
class BehaviourTest:
    """One behaviour test.

    Attributes:
        name: Its description.
        kind: ``invariance``, ``direction`` or ``minimum functionality``.
        cases: Number of cases.
        passed: Number of cases that passed.
        required: Minimum pass rate; ``None`` if the test cannot stop the pipeline.
        failures: Some of the failed cases.
    """

    name: str
    kind: str
    cases: int
    passed: int
    required: float | None
    failures: Sequence[Failure]

    @property
    def rate(self) -> float | None:
        """Fraction of cases that passed; ``None`` without cases."""
        return self.passed / self.cases if self.cases else None

    @property
    def fails(self) -> bool:
        """True if it stops the pipeline."""
        return self.required is not None and (self.rate is None or self.rate < self.required)


def read_behaviour(root: Path) -> list[BehaviourTest]:
    """Read ``reports/behaviour.json``; empty if there are no tests."""
    tests = (read_json(root / REPORTS / "behaviour.json") or {}).get("tests") or []
    return [
        BehaviourTest(
            str(test["name"]),
            str(test["kind"]).replace("_", " "),
            int(test["cases"]),
            int(test["passed"]),
            test.get("min_pass_rate"),
            [_failure(failure) for failure in test.get("failures", [])],
        )
        for test in tests
    ]


def _failure(failure: Mapping[str, Mapping[str, Any]]) -> Failure:
    versions = [(version, failure[version]) for version in ("before", "after") if version in failure]
    return Failure([(version, case["texts"], str(case["prediction"])) for version, case in versions])
