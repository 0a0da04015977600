"""What ``reports/checks/index.html`` shows of the profile and of the passed checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stages.validate.checks import CHECKS, Check
from stages.validate.results import CheckResult, CheckResults
from stages.validate.violations import excerpt
from tuneline.drift import Distribution
from tuneline.page.plots import Histograms, number
from tuneline.records.profile import Profile

MAX_CLASSES = 20
"""Classes with a row of their own, the most frequent of train; the others share one."""


@dataclass(frozen=True)
class Spread:
    """Distribution of a number in each split.

    Attributes:
        drawn: The histograms.
        middle: Median, and the range of the middle nine tenths, in words, by split.
    """

    drawn: Histograms
    middle: Mapping[str, str]

    @classmethod
    def of(cls, distributions: Mapping[str, Distribution], *, logarithmic: bool) -> "Spread":
        """Describe the distributions, by split."""
        drawn = Histograms.of(dict(distributions), logarithmic=logarithmic)
        return cls(drawn, {split: _middle(distributions[split]) for split in drawn.shapes})


def _middle(distribution: Distribution) -> str:
    low, median, high = (number(distribution.quantile(level)) for level in (0.05, 0.5, 0.95))
    return f"median {median}, 90 % in {low} to {high}"


@dataclass(frozen=True)
class ClassShare:
    """Rows of a class, or of several rare ones, and their fraction of the labelled rows, by split."""

    name: str
    rows: Mapping[str, int]
    fractions: Mapping[str, float]


@dataclass(frozen=True)
class DataOverview:
    """Distributions of the data.

    Attributes:
        rows: Rows by split.
        lengths: Lengths of the rows in characters.
        targets: Targets of a regression; ``None`` for a classification.
        classes: Shares of the classes, the most frequent in train first; empty for a regression.
    """

    rows: Mapping[str, int]
    lengths: Spread
    targets: Spread | None
    classes: Sequence[ClassShare]

    @property
    def largest(self) -> float:
        """The largest fraction that a class makes up: the full width of a bar."""
        return max([fraction for one in self.classes for fraction in one.fractions.values()], default=0.0) or 1.0

    @classmethod
    def of(cls, profile: Profile) -> "DataOverview":
        """Return what the profile says about the data."""
        labels = {split: one.labels for split, one in profile.splits.items() if one.labels is not None}
        return cls(
            {split: one.rows for split, one in profile.splits.items()},
            Spread.of({split: one.characters for split, one in profile.splits.items()}, logarithmic=True),
            Spread.of(labels, logarithmic=False) if profile.labels is None and labels else None,
            class_shares(profile.labels, labels) if profile.labels else [],
        )


def class_shares(names: Sequence[str], labels: Mapping[str, Distribution]) -> list[ClassShare]:
    """Return the share of each class in each split.

    Args:
        names: Class names.
        labels: Rows per class id, by split; those of a split without labels are missing.
    """
    first = next(iter(labels.values()), Distribution((), ()))
    order = sorted(range(len(names)), key=lambda index: (-_count(first, index), index))
    shown, rest = order[:MAX_CLASSES], order[MAX_CLASSES:]
    if len(rest) == 1:
        shown, rest = order, []
    shares = [_share(excerpt(names[index]), [index], labels) for index in shown]
    return [*shares, _share(f"{len(rest):,} other classes", rest, labels)] if rest else shares


def _count(distribution: Distribution, index: int) -> int:
    return distribution.counts[index] if index < len(distribution.counts) else 0


def _share(name: str, indices: Sequence[int], labels: Mapping[str, Distribution]) -> ClassShare:
    rows = {split: sum(_count(one, index) for index in indices) for split, one in labels.items()}
    return ClassShare(name, rows, {split: rows[split] / max(sum(one.counts), 1) for split, one in labels.items()})


@dataclass(frozen=True)
class PassedCheck:
    """A check with its passed results.

    Attributes:
        check: The check.
        allowed: The limit, in words.
        found: The measurements, in words, by split.
        notes: What it found beside them, with the split before each.
    """

    check: Check
    allowed: str
    found: Mapping[str, str]
    notes: Sequence[str]

    @classmethod
    def of(cls, key: str, results: Sequence[CheckResult]) -> "PassedCheck":
        """Join the passed results of a check."""
        found: dict[str, list[str]] = {}
        notes: dict[str, None] = {}
        for result in results:
            found.setdefault(result.split, []).append(result.found)
            notes |= dict.fromkeys(f"{result.split}: {note}" for note in result.notes)
        allowed = "; ".join(dict.fromkeys(result.allowed for result in results))
        return cls(CHECKS[key], allowed, {split: "; ".join(dict.fromkeys(values)) for split, values in found.items()}, list(notes))


def passed_checks(results: CheckResults) -> tuple[list[PassedCheck], list[PassedCheck]]:
    """Return the passed checks: those that found rows or something else within their limits, and those that found nothing."""
    groups: dict[str, list[CheckResult]] = {}
    for result in results.results:
        if result.status == "passed":
            groups.setdefault(result.outcome.check, []).append(result)
    passed = {key: PassedCheck.of(key, group) for key, group in groups.items()}
    noteworthy = {key for key, group in groups.items() if any(result.outcome.failing or result.notes for result in group)}
    return [passed[key] for key in passed if key in noteworthy], [passed[key] for key in passed if key not in noteworthy]
