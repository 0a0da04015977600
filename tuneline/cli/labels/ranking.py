"""The order of the queue: uncertain and new texts first, near-equal texts once.

A row is uncertain if its two most probable classes are close (margin sampling: Scheffer et al., "Active Hidden Markov Models for
Information Extraction", 2001), and new if many of its words are not common in training. The two orders are combined by reciprocal rank
fusion (Cormack et al., 2009), which needs no common scale: the first rows of either order come first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.cli.labels.candidates import Candidate
from tuneline.cli.labels.labelled import keys_of
from tuneline.paths import CHECKS, REFERENCE_PROFILE
from tuneline.records.profile import Profile, Words
from tuneline.text import BOUNDARY, Keys, normalized, text_keys, words

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
        similarity: Jaccard similarity of the sets of word pairs from which two texts are near-equal.
    """
    keys = keys_of([row.texts for row in rows])
    unlabelled = np.sort(np.unique(keys, return_index=True)[1])
    rows = [rows[index] for index in unlabelled[~np.isin(keys[unlabelled], labelled)]]
    if not rows:
        return []
    tokens = words([normalized(pa.array(column, pa.string())) for column in zip(*(row.texts for row in rows), strict=True)])
    margins = np.array([_margin(row) for row in rows])
    total, new = _count(tokens, known)
    shares = (new + PRIOR_WORDS * (1 - known.known)) / (total + PRIOR_WORDS) if known else np.zeros(len(rows))
    ranks = _ranks(margins), _ranks(-shares)
    order = np.argsort(-sum(1 / (FUSION + one) for one in ranks), kind="stable")
    chosen = _distinct(order, tokens, most, similarity)
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


def _count(rows: pa.ListArray, known: Words | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of words of each row, and of those that are not common in training; each of shape ``(rows,)``."""
    encoded = rows.flatten().dictionary_encode()
    is_word = np.array([word != BOUNDARY for word in encoded.dictionary.to_pylist()])
    is_new = is_word & ~np.isin(text_keys(encoded.dictionary), known.word_keys) if known else np.zeros(len(is_word), bool)
    indices, starts = encoded.indices.to_numpy(), rows.offsets.to_numpy()[:-1]
    return np.add.reduceat(is_word[indices], starts, dtype=np.int64), np.add.reduceat(is_new[indices], starts, dtype=np.int64)


def _distinct(order: NDArray[np.int64], rows: pa.ListArray, most: int, similarity: float) -> list[int]:
    """Return the first rows of an order that are not near-equal to one before, compared as in the data check ``near_duplicates``."""
    chosen: dict[int, set[tuple[str, str]]] = {}
    for index in order.tolist():
        if len(chosen) == most:
            break
        pairs = set(pairwise(rows[index].as_py()))
        if not any(len(pairs & other) >= similarity * len(pairs | other) for other in chosen.values()):
            chosen[index] = pairs
    return list(chosen)


def _reason(row: Candidate, new_words: float | None, uncertain: bool) -> str:
    if row.probabilities and (uncertain or new_words is None):
        best = sorted(row.probabilities.items(), key=lambda one: -one[1])[:2]
        return "uncertain: " + ", ".join(f"{name} {probability:.2f}" for name, probability in best)
    return "one of the latest" if new_words is None else f"new: {new_words:.0%} of its words are not common in training"
