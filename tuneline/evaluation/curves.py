"""Curves and calibration of a classifier for ``dvc plots``; their size is limited."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.tasks.probabilities import sigmoid

POINTS = 200
"""Most points of a curve."""
CALIBRATION_BINS = 15
"""Bins of the calibration curve, as in Guo et al. 2017, "On Calibration of Modern Neural Networks"."""

Columns = dict[str, NDArray[np.float64]]
Classes = NDArray[Any]
"""Class ids of shape ``(rows,)``, or of rows with several labels each, 0 or 1 of shape ``(rows, labels)``."""
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
ROWS_AT_A_TIME = 100_000
_GRID = np.linspace(0.0, 1.0, POINTS + 1)


class ClassProbabilities(Protocol):
    """The probabilities of a split, one class at a time."""

    @property
    def classes(self) -> int:
        """Number of classes."""

    def of_class(self, index: int) -> NDArray[np.float64]:
        """Return the probability of a class in each row, shape ``(rows,)``."""

    def judged(self, labels: Classes) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the confidence of each prediction, and whether it is right, both of one shape."""


@dataclass(frozen=True)
class Softmax:
    """The probabilities of a split, one class at a time: all together would be 8 bytes a class and row.

    There are the logits, ``(rows, classes)``, and of each row, ``(rows,)``, the largest one and the total of
    its exponentials, all divided by the temperature.
    """

    logits: NDArray[np.float32]
    largest: NDArray[np.float32]
    total: NDArray[np.float64]
    temperature: float = 1.0

    @classmethod
    def of(cls, logits: NDArray[np.float32], temperature: float = 1.0) -> Self:
        """Prepare the probabilities of logits that are divided by a temperature."""
        largest = np.empty(len(logits), logits.dtype)
        total = np.empty(len(logits))
        for start in range(0, len(logits), ROWS_AT_A_TIME):
            rows = slice(start, start + ROWS_AT_A_TIME)
            largest[rows] = logits[rows].max(axis=1)
            below = logits[rows].astype(np.float64) - largest[rows, None]
            total[rows] = np.exp(below / temperature).sum(axis=1)
        return cls(logits, largest, total, temperature)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return int(self.logits.shape[1])

    @property
    def highest(self) -> NDArray[np.float64]:
        """The probability of the most probable class, of shape ``(rows,)``."""
        return 1.0 / self.total

    def of_class(self, index: int) -> NDArray[np.float64]:
        """Return the probability of a class, of shape ``(rows,)``: the same numbers as ``probabilities``."""
        wide = self.logits[:, index].astype(np.float64)
        wide -= self.largest
        wide /= self.temperature
        result: NDArray[np.float64] = np.divide(np.exp(wide, out=wide), self.total, out=wide)
        return result

    def judged(self, labels: Classes) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the probability of the most probable class, and whether it is the label; ``(rows,)``."""
        return self.highest, self.logits.argmax(axis=1) == labels


@dataclass(frozen=True)
class Sigmoid:
    """The probabilities of a split in which every label of a row is decided by itself.

    The logits have the shape ``(rows, labels)``, and the temperatures ``(labels,)``.
    """

    logits: NDArray[np.float32]
    temperatures: NDArray[np.float64]

    @property
    def classes(self) -> int:
        """Number of labels."""
        return int(self.logits.shape[1])

    def of_class(self, index: int) -> NDArray[np.float64]:
        """Return the probability of a label, of shape ``(rows,)``."""
        return sigmoid(self.logits[:, index] / self.temperatures[index])

    def judged(self, labels: Classes) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the probability of each label, and whether the row has it; ``(rows * labels,)``.

        So the curve of calibration is of the probability that a label is there.
        """
        return sigmoid(self.logits / self.temperatures).ravel(), labels.ravel() == 1


def has_class(labels: Classes, index: int) -> NDArray[np.bool_]:
    """Return which rows have a class, shape ``(rows,)``."""
    if labels.ndim == 2:
        return np.asarray(labels[:, index] == 1)
    return np.asarray(labels == index)


def scored_classes(labels: Classes, classes: int) -> list[int]:
    """Return the classes whose curves are defined: classes of at least one row, but not of all.

    With two exclusive classes: the positive one.
    """
    candidates: Sequence[int] = range(classes)
    if classes == 2 and labels.ndim == 1:
        candidates = [1]  # the curve of class 0 would say the same
    return [index for index in candidates if 0 < np.count_nonzero(has_class(labels, index)) < len(labels)]


def roc_curve(probability: ClassProbabilities, labels: Classes) -> Columns:
    """Return the true positive rate over the false positive rate.

    The curve is of class 1 of two, or the mean of one class against the rest.

    Labels have the shape ``(rows,)``. The columns are empty when no class can be scored.
    """
    scored = scored_classes(labels, probability.classes)
    false, true = _mean_curve(
        (_roc(has_class(labels, index), probability.of_class(index)) for index in scored), len(scored)
    )
    return {"false_positive_rate": false, "true_positive_rate": true}


def precision_recall_curve(probability: ClassProbabilities, labels: Classes) -> Columns:
    """Return precision over recall, averaged as in ``roc_curve``."""
    scored = scored_classes(labels, probability.classes)
    recall, precision = _mean_curve(
        (_precision_recall(has_class(labels, index), probability.of_class(index)) for index in scored),
        len(scored),
    )
    return {"recall": recall, "precision": precision}


def _roc(positive: NDArray[np.bool_], scores: NDArray[np.float64]) -> Curve:
    """Return false and true positive rates, without points on a straight line between others."""
    from sklearn.metrics import roc_curve as points  # takes a second to import

    false, true, _ = points(positive, scores)
    return false, true


def _precision_recall(positive: NDArray[np.bool_], scores: NDArray[np.float64]) -> Curve:
    """Return recalls, ascending from 0, and precisions; a precision without positive predictions is 1."""
    from sklearn.metrics import precision_recall_curve as points

    precision, recall, _ = points(positive, scores)
    return recall[::-1], precision[::-1]


def _mean_curve(curves: Iterator[Curve], number: int) -> Curve:
    """Thin one curve; average several on a common grid.

    ``x`` rises. One whole curve is in memory at a time.
    """
    if number == 1:
        return _thin(*next(curves))
    if not number:  # no class has rows of both kinds
        return np.empty(0), np.empty(0)
    # All curves of several classes are read at the same points.
    return _GRID, np.mean([np.interp(_GRID, x, y) for x, y in curves], axis=0)


def _thin(x: NDArray[np.float64], y: NDArray[np.float64]) -> Curve:
    """Keep the ends, and points that are evenly spaced along the length of the curve."""
    if len(x) <= POINTS:
        return x, y
    # distance from the start of the curve at each point, by horizontal and vertical steps
    along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    kept = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], POINTS)).clip(max=len(x) - 1))
    kept = np.unique([0, *kept, len(x) - 1])
    return x[kept], y[kept]


def roc_area(probability: ClassProbabilities, labels: Classes) -> float | None:
    """Return the area under the ROC curve, averaged as the curve is; ``None`` if no curve is defined."""
    # The whole curves, not the thinned ones: their areas are exact.
    areas = []
    for label in scored_classes(labels, probability.classes):
        false, true = _roc(has_class(labels, label), probability.of_class(label))
        areas.append(np.trapezoid(true, false))
    return float(np.mean(areas)) if areas else None


def calibration_bins(confidence: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the number of the bin of each confidence, of the same shape; 1 is in the last bin."""
    return np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)


def calibration(probability: ClassProbabilities, labels: Classes) -> Columns:
    """Return accuracy by confidence of the prediction, in bins of equal width (Guo et al.

    2017, equations 1 and 2).

    The columns are ``confidence`` (mean), ``accuracy`` and ``rows`` of each bin that is not empty.
    """
    confidence, right = probability.judged(labels)
    bins = calibration_bins(confidence)
    rows = np.bincount(bins, minlength=CALIBRATION_BINS)
    filled = rows > 0
    return {
        "confidence": np.bincount(bins, confidence, CALIBRATION_BINS)[filled] / rows[filled],
        "accuracy": np.bincount(bins, right, CALIBRATION_BINS)[filled] / rows[filled],
        "rows": rows[filled].astype(np.float64),
    }


def calibration_error(bins: Columns) -> float:
    """Return the expected calibration error: mean distance of accuracy from confidence, weighted by rows.

    Source: Guo et al. 2017, equation 3.
    """
    return float(np.average(np.abs(bins["accuracy"] - bins["confidence"]), weights=bins["rows"]))
