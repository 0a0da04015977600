"""Drift of new rows from the training data, which a profile describes: ``reports/checks/profile.json`` of the model's commit.

Three properties are compared with the train split: the lengths of the texts, the predicted labels, and the
share of words that were common in training. Of new texts only counts are kept, so that many small files add
up. The distances are those of the data checks (``tuneline/analysis/drift.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.analysis.drift import Counts, bin_counts, kolmogorov_smirnov, population_stability
from tuneline.analysis.text import VocabularyCounts, normalized, words
from tuneline.reports.checks import Profile
from tuneline.settings import DriftLimits


@dataclass(frozen=True)
class RowCounts:
    """Counts of scored rows in the bins of a profile, by predicted labels and text lengths; of words, and of those common in training."""

    labels: Counts
    characters: Counts
    words: int
    words_known: int

    @classmethod
    def empty(cls, profile: Profile) -> Self:
        """Return the counts of no rows."""
        train = profile.train
        labels = np.zeros(len(train.labels.counts) if train.labels else 0, dtype=np.int64)
        return cls(labels, np.zeros(len(train.characters.counts), dtype=np.int64), 0, 0)

    @classmethod
    def of(cls, profile: Profile, texts: Sequence[pa.StringArray], predicted: pa.Array) -> Self:
        """Count rows."""
        lengths = np.sum([pc.utf8_length(column).to_numpy(zero_copy_only=False) for column in texts], axis=0)
        characters, total, known = bin_counts(lengths, np.array(profile.train.characters.edges)), 0, 0
        if profile.train.words.hashes:
            counted = VocabularyCounts.of(words([normalized(column) for column in texts]))
            total, known = counted.total, counted.occurrences(profile.train.words.word_keys)
        return cls(_count_labels(profile, predicted), characters, total, known)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.characters.sum())

    def __add__(self, other: "RowCounts") -> "RowCounts":
        """Return the counts of both sets of rows together."""
        total, known = self.words + other.words, self.words_known + other.words_known
        return RowCounts(self.labels + other.labels, self.characters + other.characters, total, known)

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON, for the metadata of a scored file."""
        return {**asdict(self), "labels": self.labels.tolist(), "characters": self.characters.tolist()}

    @classmethod
    def from_json(cls, profile: Profile, values: Mapping[str, Any] | None) -> Self | None:
        """Read what ``to_json`` returned; ``None`` if there are no counts in the bins of the profile."""
        if values is None:
            return None
        try:
            labels, characters = (np.array(values[name], dtype=np.int64) for name in ("labels", "characters"))
            counts = cls(labels, characters, int(values["words"]), int(values["words_known"]))
        except (LookupError, TypeError, ValueError, OverflowError):
            return None
        empty = cls.empty(profile)
        return (
            counts
            if (labels.shape, characters.shape) == (empty.labels.shape, empty.characters.shape)
            else None
        )


def _count_labels(profile: Profile, predicted: pa.Array) -> Counts:
    labels = profile.train.labels
    if labels is None:
        return np.zeros(0, dtype=np.int64)
    task = profile.task
    values = task.encoded(pa.chunked_array([predicted]))
    return bin_counts(values[task.valid(values)], np.array(labels.edges))


class DriftMeasure(NamedTuple):
    """Distance of one property from the training data: drifted if it is beyond the limit and significant.

    The p-value is the probability of a distance as large without drift; ``None`` if there is no test.
    """

    name: str
    value: float
    p_value: float | None
    limit: float
    drifted: bool


def drift_measures(profile: Profile, counts: RowCounts, limits: DriftLimits) -> list[DriftMeasure]:
    """Compare scored rows with the train split."""
    train = profile.train
    lengths = (counts.characters, np.array(train.characters.counts))
    distances = [
        ("length of texts, PSI", population_stability(*lengths), limits.max_psi),
        ("length of texts, KS", kolmogorov_smirnov(*lengths), limits.max_ks),
    ]
    if train.labels is not None and counts.labels.sum():
        labels = population_stability(counts.labels, np.array(train.labels.counts))
        distances.append(("predicted labels, PSI", labels, limits.max_psi))
    measures = [
        DriftMeasure(name, value, p_value, limit, value > limit and p_value < limits.significance)
        for name, (value, p_value), limit in distances
    ]
    if train.words.known and counts.words:
        share, limit = counts.words_known / counts.words / train.words.known, limits.min_known_words
        measures.append(
            DriftMeasure("share of common words, of that in training", share, None, limit, share < limit)
        )
    return measures
