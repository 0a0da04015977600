"""A profile of the data that is small enough for git: rows, labels, lengths, and hashes of the most common words."""

import numpy as np

from stages.validate.raw import RawSplit
from tuneline.drift import Distribution
from tuneline.files.schemas import LabelSchema
from tuneline.records.profile import Profile, SplitProfile, Words
from tuneline.records.words import WordCounts

LISTED = 10_000
"""Most common words of train whose counts are kept with their text."""
WORDS = 500
"""Most common words of a split that its profile has."""

FENCE = 3.0
"""Interquartile ranges beyond the quartiles from which a length is an outlier: Tukey's "far out", on logarithms of lengths."""
MIN_RANGE = np.log(1.5)
"""Lower bound of the interquartile range, so that a split of almost equal lengths does not have outliers everywhere."""


def profile_split(split: RawSplit, labels: LabelSchema) -> SplitProfile:
    """Profile one raw split."""
    words = split.vocabulary.most_common(WORDS)
    return SplitProfile(
        rows=split.rows,
        labels=label_distribution(split, labels) if split.is_labelled else None,
        characters=Distribution.of_numbers(split.columns.column("characters")),
        words=Words(hashes=[f"{value:016x}" for value in words.tolist()], known=split.vocabulary.coverage(words)),
    )


def count_words(train: RawSplit) -> WordCounts:
    """Count the words of train."""
    vocabulary = train.vocabulary
    return WordCounts(total=vocabulary.total, different=len(vocabulary.hashes), counts=vocabulary.counts_by_word(LISTED))


def labels_as(profile: Profile, labels: LabelSchema, split: str) -> Distribution | None:
    """Return the label distribution of a split by the class ids of another schema.

    Classes that the other schema lacks are counted in one more bin.

    Args:
        profile: The profile.
        labels: The label schema whose ids are used.
        split: Name of the split.

    Returns:
        The distribution; ``None`` if the split had no labels or one of the two schemas is for regression only.
    """
    before = profile.splits[split].labels
    if before is None or profile.labels is None or labels.names is None:
        return before if profile.labels == labels.names else None
    counts = dict(zip(profile.labels, before.counts, strict=False))
    current = [counts.pop(name, 0) for name in labels.names]
    removed = [sum(counts.values())] if counts else []
    return Distribution(tuple(float(edge) for edge in range(len(current) - 1 + len(removed))), (*current, *removed))


def label_distribution(split: RawSplit, labels: LabelSchema) -> Distribution:
    """Return the distribution of a split's labels: per class, or binned at percentiles for regression."""
    if labels.names is None:
        return Distribution.of_numbers(split.labels.astype(np.float64))
    return Distribution.of_classes(split.labels.astype(np.int64), len(labels.names))


def length_limits(characters: Distribution) -> tuple[float, float] | None:
    """Return the shortest and the longest length in characters that is not an outlier; ``None`` for a distribution of no rows."""
    if not characters.edges:
        return None
    lower, upper = (np.log1p(characters.quantile(level)) for level in (0.25, 0.75))
    reach = FENCE * max(upper - lower, MIN_RANGE)
    return float(max(np.expm1(lower - reach), 0.0)), float(np.expm1(upper + reach))
