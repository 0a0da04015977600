"""The order of the queue: uncertain and new texts first, near-equal texts once.

A row is uncertain if its two most probable classes are close (margin sampling: Scheffer et al., "Active Hidden Markov Models for
Information Extraction", 2001), and new if many of its words are not common in training. The two orders are combined by reciprocal rank
fusion (Cormack et al., 2009), which needs no common scale: the first rows of either order come first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.cli.labels.candidates import Candidate
from tuneline.cli.labels.labelled import keys_of
from tuneline.paths import CHECKS, REFERENCE_PROFILE
from tuneline.records.profile import Profile, Words
from tuneline.similarity import WordSets
from tuneline.text import EncodedWords, Keys, normalized, words

FUSION = 60
"""Constant of reciprocal rank fusion: the higher, the more a good rank in both orders counts against a top rank in one."""
PRIOR_WORDS = 10
"""Words of the training data's mixture that are added to each text, so that one new word alone is not as new as a whole text."""
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """A row of the queue.

    Attributes:
        row: The scored row.
        new_words: Share of its words that are not common in training; ``None`` if the words of the training data are unknown.
        reason: Why it is in the queue.
    """

    row: Candidate
    new_words: float | None
    reason: str


def training_words() -> Words | None:
    """Return the common words of the data of the model in production, else of the present data; ``None`` if there is no profile."""
    for path in (REFERENCE_PROFILE, CHECKS / "profile.json"):
        if (profile := Profile.read_if_exists(path)) and profile.train.words.hashes:
            return profile.train.words
    return None


def rank(rows: Sequence[Candidate], labelled: Keys, known: Words | None, most: int, similarity: float) -> list[Choice]:
    """Choose the rows to label, the most useful first.

    Args:
        rows: The scored rows, the latest first. Of equal texts, the first counts.
        labelled: Sorted hashes of the texts that have a label.
        known: The words that are common in training.
        most: Number of rows to choose, at most.
        similarity: Similarity from which two texts are near-equal, as in the data check ``near_duplicates``.
    """
    keys = keys_of([row.texts for row in rows])
    unlabelled = np.sort(np.unique(keys, return_index=True)[1])
    rows = [rows[index] for index in unlabelled[~np.isin(keys[unlabelled], labelled)]]
    if not rows:
        return []
    columns = zip(*(row.texts for row in rows), strict=True)
    encoded = EncodedWords.of(words([normalized(pa.array(column, pa.string())) for column in columns]))
    margins = np.array([_margin(row) for row in rows])
    total, new = encoded.lengths, _count_new(encoded, known)
    shares = (new + PRIOR_WORDS * (1 - known.known)) / (total + PRIOR_WORDS) if known else np.zeros(len(rows))
    ranks = _ranks(margins), _ranks(-shares)
    order = np.argsort(-sum(1 / (FUSION + one) for one in ranks), kind="stable")
    chosen = _distinct(order, WordSets.of([encoded]), most, similarity)
    fractions = (new / np.maximum(total, 1)).tolist() if known else [None] * len(rows)
    uncertain = (ranks[0] <= ranks[1]).tolist()
    return [Choice(rows[one], fractions[one], _reason(rows[one], fractions[one], uncertain[one])) for one in chosen]


def _margin(row: Candidate) -> float:
    """Return the difference of the two highest probabilities; 0 for a regression, which has none."""
    *_, second, first = sorted((0.0, *row.probabilities.values())) if row.probabilities else (0.0, 0.0)
    return first - second


def _ranks(values: Scores) -> Scores:
    """Return the rank of each value from 1, the mean rank for equal values."""
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") + 1) / 2


def _count_new(rows: EncodedWords, known: Words | None) -> NDArray[np.int64]:
    """Return the number of words of each row that are not common in training, shape ``(rows,)``."""
    is_new = ~np.isin(rows.keys, known.word_keys) if known else np.zeros(len(rows.keys), bool)
    before = np.r_[0, np.cumsum(is_new[rows.indices])]
    counts: NDArray[np.int64] = np.diff(before[np.r_[0, np.cumsum(rows.lengths)]])
    return counts


def _distinct(order: NDArray[np.int64], sets: WordSets, most: int, similarity: float) -> list[int]:
    """Return the first rows of an order that are not near-equal to one before."""
    chosen: list[int] = []
    is_left = np.ones(len(order), bool)
    for index in order.tolist():
        if len(chosen) == most:
            break
        if is_left[index]:
            chosen.append(index)
            if sets.totals[index]:
                is_left &= sets.similarity_to(index) < similarity
    return chosen


def _reason(row: Candidate, new_words: float | None, uncertain: bool) -> str:
    if row.probabilities and (uncertain or new_words is None):
        best = sorted(row.probabilities.items(), key=lambda one: -one[1])[:2]
        return "uncertain: " + ", ".join(f"{name} {probability:.2f}" for name, probability in best)
    return "one of the latest" if new_words is None else f"new: {new_words:.0%} of its words are not common in training"
