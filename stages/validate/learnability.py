"""How well a cheap model predicts the labels of rows that it has not seen: naive Bayes on words and word pairs.

It needs one count per word and label, so that a model of each fold costs milliseconds, where a logistic regression takes seconds. As a
linear model it is a strong baseline (Wang and Manning, "Baselines and bigrams: simple, good sentiment and topic classification", ACL
2012). A word that two texts of a row have in common is another feature than a word of one of them.

Two measurements, each with its 95 % interval:

- the area under the ROC curve, of each class against the others, weighted by their rows: 0.5 if labels and texts have nothing in common;
- the disagreement: of the fifth of the rows of which the model is surest, the fraction with another label. The model chooses these rows
  by their texts alone. So if a fraction of all labels is wrong at random, at least this fraction is wrong among them, and the
  disagreement is an upper bound of the random label noise.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.validate.word_features import Ids, WordFeatures
from tuneline.stats import Interval, wilson_interval

Floats = NDArray[np.float64]

FOLDS = 5
SUREST = 0.2
"""Fraction of the rows whose labels are compared with what the model is surest of."""
_Z = 1.96
"""Standard errors to each end of a 95 % interval."""


@dataclass(frozen=True)
class Learnability:
    """What a cheap model makes of the labels of a split.

    Attributes:
        auc: Area under the ROC curve.
        auc_interval: Its interval.
        disagreement: Fraction of the surest rows with another label.
        disagreement_interval: Its interval.
    """

    auc: float
    auc_interval: Interval
    disagreement: float
    disagreement_interval: Interval


def log_odds(features: WordFeatures, labels: Ids, fold: Ids, classes: int) -> Floats:
    """Return the log-odds of each class against the others for each row, from a model that was fitted without the row.

    Args:
        features: Words of the rows.
        labels: Class ids of shape ``(rows,)``.
        fold: Fold of each row of the train split, 0 to ``FOLDS - 1``; -1 for a row that no model is fitted on. Shape ``(rows,)``.
        classes: Number of classes, at least 2.

    Returns:
        Shape ``(rows, classes)``.
    """
    ids = features.ids + len(features) * features.repeated
    fold_of_entry, size = fold[features.rows], 2 * len(features)
    counts = np.zeros((FOLDS, size, classes))
    for number in range(FOLDS):
        inside = fold_of_entry == number
        counts[number] = _count(ids[inside], labels[features.rows[inside]], size, classes)
    scores = np.zeros((len(labels), classes))
    for number in range(-1, FOLDS):
        inside, known = fold_of_entry == number, fold[fold >= 0] != number
        weights = _log_frequencies(counts.sum(axis=0) - (counts[number] if number >= 0 else 0))
        priors = np.log(np.bincount(labels[fold >= 0][known], minlength=classes) + 1.0)
        for label in range(classes):
            sums = np.bincount(features.rows[inside], weights[ids[inside], label], minlength=len(labels))
            scores[:, label] += np.where(fold == number, sums + priors[label], 0.0)
    return _against_others(scores)


def learnability(odds: Floats, labels: Ids) -> Learnability:
    """Compare the predictions for the rows of one split with their labels.

    Args:
        odds: Log-odds of shape ``(rows, classes)``.
        labels: Class ids of shape ``(rows,)``, of two classes or more.
    """
    auc, error = area_under_curve(odds, labels)
    surest = np.argsort(-odds.max(axis=1), kind="stable")[: max(1, int(SUREST * len(labels)))]
    wrong = int(np.count_nonzero(odds[surest].argmax(axis=1) != labels[surest]))
    return Learnability(
        auc, Interval(max(auc - _Z * error, 0.0), min(auc + _Z * error, 1.0)), wrong / len(surest), wilson_interval(wrong, len(surest))
    )


def area_under_curve(scores: Floats, labels: Ids) -> tuple[float, float]:
    """Return the area under the ROC curve of each class against the others, weighted by the rows of the class, and its standard error.

    The error is that of DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988), of the weighted sum: each row adds its mean rank among
    the rows of the other side.
    """
    total, area, influence = len(labels), 0.0, np.zeros(len(labels))
    for label, own in enumerate(np.bincount(labels, minlength=scores.shape[1])):
        is_own, others = labels == label, total - own
        if own and others:
            ranks = _ranks(scores[:, label])
            placed = np.empty(total)
            placed[is_own] = (ranks[is_own] - _ranks(scores[is_own, label])) / others
            placed[~is_own] = 1 - (ranks[~is_own] - _ranks(scores[~is_own, label])) / own
            part = float(placed[is_own].mean())
            area += part * own / total
            influence += (placed - part) * np.where(is_own, 1.0, own / others)
    return area, float(influence.std() / np.sqrt(total))


def _ranks(values: Floats) -> Floats:
    """Return the rank of each value from 1; equal values have their mean rank. ``scipy.stats`` takes long to import."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return ranks


def _count(ids: Ids, labels: Ids, size: int, classes: int) -> Floats:
    """Return how often each id occurs with each label, of shape ``(size, classes)``."""
    counts: Floats = np.bincount(ids * classes + labels, minlength=size * classes).reshape(size, classes).astype(np.float64)
    return counts


def _log_frequencies(counts: Floats) -> Floats:
    """Return the log-probability of each feature in each class, with one added to each count; 0 for a feature without any."""
    frequencies: Floats = np.log((counts + 1) / (counts + 1).sum(axis=0))
    frequencies[counts.sum(axis=1) == 0] = 0
    return frequencies


def _against_others(scores: Floats) -> Floats:
    """Return log-odds of each class against all others, given joint log-probabilities; both of shape ``(rows, classes)``."""
    odds = np.empty_like(scores)
    for label in range(scores.shape[1]):
        others = np.delete(scores, label, axis=1)
        largest = others.max(axis=1)
        odds[:, label] = scores[:, label] - largest - np.log(np.exp(others - largest[:, None]).sum(axis=1))
    return odds
