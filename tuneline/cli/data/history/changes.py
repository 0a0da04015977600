"""What changed from one version of the data to the next, by their profiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tuneline.cli.data.history.versions import Version
from tuneline.drift import Counts, Distance, Distribution, population_stability
from tuneline.paths import SPLITS
from tuneline.records.checks import CheckEntry
from tuneline.records.profile import Profile
from tuneline.records.words import WordCounts

EXPECTED = 10
"""A word that is missing counts as new or gone if the other version would have it this often by its frequency: by chance, that happens
to one word in 22,000."""
LARGE, SIGNIFICANT = 0.25, 0.01
"""Population stability index of a large change by convention, and the p-value that a change needs to be marked."""


@dataclass(frozen=True)
class Change:
    """A version of the data, and what differs from the one before it. What is unknown is ``None`` or empty.

    Attributes:
        version: The version.
        rows: Rows by split.
        rows_before: Rows by split of the version before.
        classes: Fraction of the rows of train by class; empty for a regression.
        new_classes: Classes with rows in train that had none before.
        gone_classes: Classes with rows in train before that have none now.
        labels: Drift of the labels of train.
        lengths: Drift of the lengths of train.
        new_words: Words of train that did not occur before, the most frequent first.
        gone_words: Words of train before that do not occur now, likewise.
        new_common: Fraction of the most common words of train that were not among them before.
    """

    version: Version
    rows: Mapping[str, int]
    rows_before: Mapping[str, int]
    classes: Mapping[str, float] = field(default_factory=dict)
    new_classes: Sequence[str] = ()
    gone_classes: Sequence[str] = ()
    labels: Distance | None = None
    lengths: Distance | None = None
    new_words: Sequence[str] = ()
    gone_words: Sequence[str] = ()
    new_common: float | None = None

    @property
    def characters(self) -> Distribution | None:
        """Lengths of the rows of train in characters."""
        profile = self.version.profile
        lengths = profile.splits["train"].characters if profile and "train" in profile.splits else None
        return lengths if lengths and lengths.edges else None

    @property
    def failed(self) -> list[CheckEntry] | None:
        """Failed checks, those that stop the pipeline first."""
        checks = self.version.checks
        return sorted((one for one in checks.checks if one.status != "passed"), key=lambda one: not one.stops) if checks else None

    @property
    def failures(self) -> float | None:
        """Number of failed checks, from the metrics if their results are not in the cache."""
        return len(self.failed) if self.failed is not None else self.version.metrics.get("warnings")


def is_large(distance: Distance | None) -> bool:
    """Return True if a drift is large and significant."""
    return distance is not None and distance.value >= LARGE and distance.p_value <= SIGNIFICANT


def changes_between(version: Version, before: Version | None) -> Change:
    """Compare a version with the one before it."""
    rows, rows_before = rows_of(version), rows_of(before) if before else {}
    current, former = version.profile, before.profile if before else None
    counts, counts_before = class_rows(current), class_rows(former)
    words, words_before = version.words, before.words if before else None
    total = sum(counts.values())
    is_known = current is not None and former is not None
    return Change(
        version,
        rows,
        rows_before,
        classes={name: count / max(total, 1) for name, count in counts.items()},
        new_classes=[name for name in counts if counts[name] and not counts_before.get(name)] if is_known else [],
        gone_classes=[name for name in counts_before if counts_before[name] and not counts.get(name)] if is_known else [],
        labels=_label_drift(current, former),
        lengths=_length_drift(current, former),
        new_words=missing_words(words, words_before),
        gone_words=missing_words(words_before, words),
        new_common=_new_common(current, former),
    )


def rows_of(version: Version) -> dict[str, int]:
    """Return the rows by split: of the profile, or of the metrics if it is not in the cache."""
    if version.profile:
        return {split: one.rows for split, one in version.profile.splits.items()}
    return {split: int(version.metrics[f"{split}_rows"]) for split in SPLITS if f"{split}_rows" in version.metrics}


def class_rows(profile: Profile | None) -> dict[str, int]:
    """Return the rows of train by class; empty for a regression, or without labels."""
    labels = profile.splits["train"].labels if profile and "train" in profile.splits else None
    return dict(zip(profile.labels, labels.counts, strict=False)) if profile and profile.labels and labels else {}


def _label_drift(current: Profile | None, former: Profile | None) -> Distance | None:
    counts, reference = class_rows(current), class_rows(former)
    if counts and reference:
        names = list(dict.fromkeys([*reference, *counts]))
        return population_stability(*(np.array([rows.get(name, 0) for name in names]) for rows in (counts, reference)))
    if current is None or former is None or current.labels is not None or former.labels is not None:
        return None
    return _number_drift(*(one.splits["train"].labels if "train" in one.splits else None for one in (current, former)))


def _length_drift(current: Profile | None, former: Profile | None) -> Distance | None:
    if current is None or former is None:
        return None
    return _number_drift(*(one.splits["train"].characters if "train" in one.splits else None for one in (current, former)))


def _number_drift(current: Distribution | None, former: Distribution | None) -> Distance | None:
    if current is None or former is None or not current.edges or not former.edges:
        return None
    return population_stability(rebinned(current, former.edges), np.array(former.counts))


def rebinned(distribution: Distribution, edges: Sequence[float]) -> Counts:
    """Return the rows in other bins; rows within a bin are taken as evenly spread."""
    below = np.cumsum(distribution.counts)[:-1]
    total = sum(distribution.counts)
    cumulative = np.rint(np.interp(edges, distribution.edges, below, left=0, right=total)).astype(np.int64)
    counts: Counts = np.diff(cumulative, prepend=0, append=total)
    return counts


def missing_words(words: WordCounts | None, other: WordCounts | None) -> list[str]:
    """Return the words that another version lacks although it would have ``EXPECTED`` of them by their frequency, the most frequent first.

    A list that was cut off lacks rare words that the data has. So the rarest listed word is what counts as absent.
    """
    if words is None or other is None or not words.total:
        return []
    is_cut = len(other.counts) < other.different
    least = EXPECTED * (min(other.counts.values(), default=1) if is_cut else 1)
    return [word for word, count in words.counts.items() if word not in other.counts and count * other.total / words.total >= least]


def _new_common(current: Profile | None, former: Profile | None) -> float | None:
    if current is None or former is None or "train" not in current.splits or "train" not in former.splits:
        return None
    hashes, known = current.splits["train"].words.hashes, set(former.splits["train"].words.hashes)
    return sum(one not in known for one in hashes) / len(hashes) if hashes and known else None
