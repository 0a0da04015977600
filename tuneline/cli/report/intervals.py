"""How sure a figure is: percentile intervals of the bootstrap (Efron & Tibshirani 1993, chapter 13)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1_000
LEVEL = 0.95

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Statistic = Callable[[Floats], float]
"""From a confusion matrix of shape ``[classes, classes]`` (rows: labels) to a number."""


@dataclass(frozen=True)
class Interval:
    """A figure and the ends of its interval."""

    value: float
    low: float
    high: float


def accuracy(confusion: Floats) -> float:
    """Share of the diagonal."""
    return float(np.trace(confusion) / confusion.sum())


def f1_per_class(confusion: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """F1 of each class, and which classes are seen at all, as label or as prediction."""
    total = confusion.sum(axis=0) + confusion.sum(axis=1)
    seen = total > 0
    return 2 * np.diag(confusion) / np.where(seen, total, 1), seen


def f1_macro(confusion: Floats) -> float:
    """Mean F1 of the classes that are seen."""
    scores, seen = f1_per_class(confusion)
    return float(scores[seen].mean())


def f1_binary(confusion: Floats) -> float:
    """F1 of class 1."""
    return float(f1_per_class(confusion)[0][1])


def matthews_correlation(confusion: Floats) -> float:
    """Matthews correlation for any number of classes (Gorodkin 2004); 0 where it is undefined."""
    labels, predicted, rows = confusion.sum(axis=1), confusion.sum(axis=0), confusion.sum()
    spread = (rows**2 - predicted @ predicted) * (rows**2 - labels @ labels)
    return float((np.trace(confusion) * rows - predicted @ labels) / np.sqrt(spread)) if spread > 0 else 0.0


def confusion_of(labels: Ints, predictions: Ints, classes: int, weights: Floats | None = None) -> Floats:
    """Confusion matrix of shape ``[classes, classes]``; rows are labels."""
    counted = np.bincount(labels * classes + predictions, weights, minlength=classes * classes)
    return counted.astype(np.float64).reshape(classes, classes)


def classified(statistic: Statistic, labels: Ints, predictions: Ints, classes: int, *, seed: int) -> Interval:
    """Interval of a figure of one model.

    Rows with the same label and prediction are alike, so how many of each kind are drawn is all that is drawn.
    """
    value = statistic(confusion_of(labels, predictions, classes))
    kinds, draws = _draws(np.stack([labels, predictions], axis=1), seed)
    drawn = [statistic(confusion_of(kinds[:, 0], kinds[:, 1], classes, draw)) for draw in draws]
    return Interval(value, *_ends(drawn))


def classified_change(statistic: Statistic, labels: Ints, now: Ints, then: Ints, classes: int, *, seed: int) -> Interval:
    """Interval of the change of a figure between two models, both scored on the same drawn rows."""
    value = statistic(confusion_of(labels, now, classes)) - statistic(confusion_of(labels, then, classes))
    kinds, draws = _draws(np.stack([labels, now, then], axis=1), seed)
    drawn = [
        statistic(confusion_of(kinds[:, 0], kinds[:, 1], classes, draw)) - statistic(confusion_of(kinds[:, 0], kinds[:, 2], classes, draw))
        for draw in draws
    ]
    return Interval(value, *_ends(drawn))


def _draws(rows: Ints, seed: int) -> tuple[Ints, Floats]:
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(len(rows), counts / len(rows), size=RESAMPLES)
    return kinds, drawn.astype(np.float64)


def pearson(first: Floats, second: Floats) -> float:
    """Pearson's r; 0 where one of the two is constant."""
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / scale if scale > 0 else 0.0


def correlated(labels: Floats, *predictions: Floats, seed: int) -> Interval:
    """Interval of Pearson's r of one model, or of its change from a second one: rows are drawn with replacement.

    Give ranks for Spearman's rho: they are not ranked again in each draw, which changes nothing but ties.
    """

    def statistic(rows: Any) -> float:
        scores = [pearson(labels[rows], one[rows]) for one in predictions]
        return scores[0] - (scores[1] if len(scores) > 1 else 0.0)

    generator = np.random.default_rng(seed)
    drawn = [statistic(generator.integers(0, len(labels), len(labels))) for _ in range(RESAMPLES)]
    return Interval(statistic(slice(None)), *_ends(drawn))


def _ends(drawn: list[float]) -> tuple[float, float]:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
