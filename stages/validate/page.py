"""What ``reports/checks/index.html`` shows of the profile and of the passed checks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stages.validate.checks import Check
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
        drawn = Histograms.of(distributions, logarithmic=logarithmic)
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
    """A check that passed on at least one split.

    Attributes:
        check: The check.
        allowed: The limit, in words.
        found: The measurements, in words, by split; ``failed`` where it did not pass.
        notes: What it found beside them, with the split before each.
        is_noteworthy: True if it found rows or anything else within its limit.
    """

    check: Check
    allowed: str
    found: Mapping[str, str]
    notes: Sequence[str]
    is_noteworthy: bool

    @classmethod
    def of(cls, results: Sequence[CheckResult]) -> "PassedCheck":
        """Join the results of one check."""
        passed = [result for result in results if result.status == "passed"]
        found: dict[str, list[str]] = {}
        for result in results:
            found.setdefault(result.split, []).append(result.found if result.status == "passed" else "failed")
        return cls(
            check=results[0].check,
            allowed="; ".join(_unique(result.allowed for result in passed)),
            found={split: "; ".join(_unique(values)) for split, values in found.items()},
            notes=_unique(f"{result.split}: {note}" for result in passed for note in result.notes),
            is_noteworthy=any(result.outcome.failing or result.notes for result in passed),
        )


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def passed_checks(results: CheckResults) -> list[PassedCheck]:
    """Return the checks that passed on at least one split."""
    groups: dict[str, list[CheckResult]] = {}
    for result in results.results:
        groups.setdefault(result.outcome.check, []).append(result)
    return [PassedCheck.of(group) for group in groups.values() if any(result.status == "passed" for result in group)]
