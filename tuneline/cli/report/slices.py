"""Where the model is worse than elsewhere, and whether it behaves: slices of the reported split, and behaviour tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from tuneline.cli.report.reading import read_json
from tuneline.paths import REPORTS


@dataclass(frozen=True)
class Slice:
    """Some rows of the split.

    Attributes:
        name: Which.
        rows: How many.
        value, low, high: The metric and its interval.
    """

    name: str
    rows: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Slices:
    """All of them.

    Attributes:
        metric: What is measured.
        groups: By what the rows have in common.
        worst: The worst among those with enough rows to tell.
        floor, ceiling: Of the axis on which they are drawn.
    """

    metric: str
    groups: dict[str, list[Slice]]
    worst: Slice | None
    floor: float
    ceiling: float

    def at(self, value: float) -> float:
        """Where a value stands on the axis, in percent."""
        return 100 * min(max((value - self.floor) / (self.ceiling - self.floor), 0), 1)


def found_slices(root: Path) -> Slices | None:
    """Reads ``reports/slices.json``; ``None`` where it is not there or empty."""
    report = read_json(root / REPORTS / "slices.json")
    entries: list[Mapping[str, Any]] = (report or {}).get("slices") or []
    if report is None or not entries:
        return None
    metric = str(report.get("metric", "accuracy"))
    groups = {by: [_slice(entry, metric) for entry in some] for by, some in groupby(entries, key=lambda entry: str(entry["by"]))}
    worst = report.get("worst")
    lowest = min(one.low for some in groups.values() for one in some)
    floor = max(-1.0, int(lowest * 10 - (lowest < 0)) / 10)
    return Slices(metric, groups, _slice(worst, metric) if worst else None, floor, 1.0)


def _slice(entry: Mapping[str, Any], metric: str) -> Slice:
    return Slice(str(entry["slice"]), int(entry["rows"]), float(entry[metric]), float(entry["low"]), float(entry["high"]))


@dataclass(frozen=True)
class Failure:
    """A case that did not pass: texts and answers, before the change (where there is one) and after."""

    shown: Sequence[tuple[str, Sequence[str], str]]


@dataclass(frozen=True)
class BehaviourTest:
    """One behaviour test.

    Attributes:
        name: In words.
        kind: ``invariance``, ``direction`` or ``minimum functionality``.
        cases, passed: How many.
        wanted: The least pass rate, where one stops the line.
        failures: Some of the cases that did not pass.
    """

    name: str
    kind: str
    cases: int
    passed: int
    wanted: float | None
    failures: Sequence[Failure]

    @property
    def rate(self) -> float | None:
        """Share of cases that passed."""
        return self.passed / self.cases if self.cases else None

    @property
    def fails(self) -> bool:
        """Whether it stops the line."""
        return self.wanted is not None and (self.rate is None or self.rate < self.wanted)


def found_behaviour(root: Path) -> list[BehaviourTest]:
    """Reads ``reports/behaviour.json``; empty where there are no tests."""
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
    shown = [(when, failure[when]) for when in ("before", "after") if when in failure]
    return Failure([(when, said["texts"], str(said["prediction"])) for when, said in shown])
