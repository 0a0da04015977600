"""Drift of new rows from the training data, whose profile the model's commit has.

The profile is ``reports/checks/profile.json``.

Three properties are compared with the train split: the lengths of the texts, the predicted labels, and the
share of words that were common in training. Of new texts only counts are kept, so that many small files add
up. The distances are measured as in the data checks (``tuneline/checks/analysis/distributions.py``).
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.checks.analysis.distributions import (
    Counts,
    Distance,
    bin_counts,
    bin_values,
    histograms,
    most_drifted,
    population_stabilities,
    population_stability,
)
from tuneline.checks.results import Profile
from tuneline.core.settings import DriftLimits
from tuneline.core.stage.records import Record
from tuneline.core.stage.texts import EncodedWords, VocabularyCounts, normalized, words
from tuneline.model.tasks.columns import encoded_predictions
from tuneline.operations.criteria import Criterion

DRIFT_ROWS = 200
"""Fewer rows tell nothing about drift."""
SIGNIFICANCE = 0.001
"""Differences with a p-value of at least this are ignored."""


class RowCounts(Record):
    """Counts of scored rows in the bins of a profile, by predicted labels and by lengths of texts.

    ``words`` counts the words of the rows, ``words_known`` the ones that are common in training.
    """

    labels: Sequence[int]
    characters: Sequence[int]
    words: int
    words_known: int

    @classmethod
    def empty(cls, profile: Profile) -> Self:
        """Return the counts of no rows."""
        train = profile.train
        label_bins = len(train.labels.counts) if train.labels else 0
        character_bins = len(train.characters.counts)
        return cls(labels=[0] * label_bins, characters=[0] * character_bins, words=0, words_known=0)

    @classmethod
    def of(cls, profile: Profile, texts: Sequence[pa.StringArray], predicted: pa.Array) -> Self:
        """Count rows."""
        lengths = np.sum([pc.utf8_length(column).to_numpy(zero_copy_only=False) for column in texts], axis=0)

        # words, unless the profile has none to compare them with
        total = 0
        known = 0
        if profile.train.words.hashes:
            encoded = EncodedWords.of(words([normalized(column) for column in texts]))
            counts = VocabularyCounts.of([encoded])
            total = counts.total
            known = counts.occurrences(profile.train.words.word_keys)

        return cls(
            labels=_count_labels(profile, predicted).tolist(),
            characters=bin_counts(lengths, np.array(profile.train.characters.edges)).tolist(),
            words=total,
            words_known=known,
        )

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.characters)

    def __add__(self, other: "RowCounts") -> "RowCounts":
        """Return the counts of both sets of rows together."""
        return RowCounts(
            labels=np.add(self.labels, other.labels).tolist(),
            characters=np.add(self.characters, other.characters).tolist(),
            words=self.words + other.words,
            words_known=self.words_known + other.words_known,
        )

    def fits(self, profile: Profile) -> bool:
        """Return True if the counts are in the bins of a profile; an earlier model may have other bins."""
        empty = RowCounts.empty(profile)
        return len(self.labels) == len(empty.labels) and len(self.characters) == len(empty.characters)


def _count_labels(profile: Profile, predicted: pa.Array) -> Counts:
    labels = profile.train.labels
    if labels is None:
        return np.zeros(0, dtype=np.int64)
    task = profile.task
    values = encoded_predictions(task, pa.chunked_array([predicted]))
    return bin_counts(bin_values(task, values[task.valid(values)]), np.array(labels.edges))


def drift_criteria(profile: Profile, counts: RowCounts, limits: DriftLimits) -> list[Criterion]:
    """Compare scored rows with the train split: a property whose criterion is not met has drifted.

    A distance may be beyond its limit by chance: its p-value is the probability of one as large without
    drift.
    """
    train = profile.train

    # distances with a test
    train_lengths = np.array(train.characters.counts)
    distances = [("length of texts, PSI", population_stability(np.array(counts.characters), train_lengths))]
    label_distance = _label_distance(profile, counts)
    if label_distance is not None:
        distances.append(label_distance)
    criteria = []
    limit = f"<= {limits.max_psi:g}, or p >= {SIGNIFICANCE:g}"
    for name, (value, p_value) in distances:
        met = value <= limits.max_psi or p_value >= SIGNIFICANCE
        criteria.append(Criterion(name, f"{value:.4g}, p = {p_value:.2g}", limit, met))

    # share of common words: words of one text are not independent, so there is no test
    if train.words.known and counts.words:
        share = counts.words_known / counts.words / train.words.known
        name = "share of common words, of that in training"
        limit = f">= {limits.min_known_words:g}"
        criteria.append(Criterion(name, f"{share:.4g}", limit, met=share >= limits.min_known_words))
    return criteria


def _label_distance(profile: Profile, counts: RowCounts) -> tuple[str, Distance] | None:
    """Return the distance of the predicted labels, with its name; ``None`` without labels.

    Where a row can have several labels, each is compared by itself, and the one that has drifted most counts.
    """
    train = profile.train
    if train.labels is None:
        return None
    task = profile.task
    predicted = histograms(task, np.array(counts.labels), counts.rows)
    trained = histograms(task, np.array(train.labels.counts), train.rows)
    if not predicted[0].sum():
        return None

    distances = population_stabilities(predicted, trained)
    position = most_drifted(distances, SIGNIFICANCE)
    name = "predicted labels, PSI"
    if len(distances) > 1:
        name = f"predicted label {task.class_names[position]!r}, PSI"
    return name, distances[position]
