"""Curves and calibration of a classifier, for ``dvc plots`` and the metrics; the size of a curve is limited.

Probabilities have the shape ``(rows, classes)``. Labels are class ids of shape ``(rows,)``, or of rows with
several labels each, 0 or 1 of shape ``(rows, labels)``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks.task import Floats

POINTS = 200
"""Most points of a curve."""
CALIBRATION_BINS = 15
"""Bins of the calibration curve, as in Guo et al. 2017, "On Calibration of Modern Neural Networks"."""

PlotColumns = dict[str, NDArray[np.float64]]
Curve = tuple[Floats, Floats]
_GRID = np.linspace(0.0, 1.0, POINTS + 1)


def _scored_classes(
    probability: Floats, labels: NDArray[Any], positive: int = 1
) -> Iterator[tuple[NDArray[np.bool_], Floats]]:
    """Yield the classes whose curves are defined: which rows have the class, and its probability.

    At least one row has the class, but not all. With two exclusive classes it is the ``positive`` one.
    """
    classes: Sequence[int] = range(probability.shape[1])
    if len(classes) == 2 and labels.ndim == 1:
        classes = [positive]
    for index in classes:
        is_member = np.asarray(labels == index)
        if labels.ndim == 2:
            is_member = np.asarray(labels[:, index] == 1)
        if is_member.any() and not is_member.all():
            yield is_member, probability[:, index]


def roc_curve(probability: Floats, labels: NDArray[Any], positive: int = 1) -> PlotColumns:
    """Return the true positive rate over the false positive rate.

    The curve is of the ``positive`` class of two, or the mean of one class against the rest. The columns are
    empty when no class can be scored.
    """
    from sklearn.metrics import roc_curve as points  # takes a second to import

    def curves() -> Iterator[Curve]:
        for is_member, scores in _scored_classes(probability, labels, positive):
            false, true, _ = points(is_member, scores)
            yield false, true

    false, true = _mean_curve(curves())
    return {"false_positive_rate": false, "true_positive_rate": true}


def precision_recall_curve(probability: Floats, labels: NDArray[Any], positive: int = 1) -> PlotColumns:
    """Return precision over recall, which ascends from 0, averaged as in ``roc_curve``.

    A precision without positive predictions is 1.
    """
    from sklearn.metrics import precision_recall_curve as points

    def curves() -> Iterator[Curve]:
        for is_member, scores in _scored_classes(probability, labels, positive):
            precision, recall, _ = points(is_member, scores)
            yield recall[::-1], precision[::-1]

    recall, precision = _mean_curve(curves())
    return {"recall": recall, "precision": precision}


def _mean_curve(curves: Iterator[Curve]) -> Curve:
    """Thin one curve; average several on a common grid.

    ``x`` rises. One whole curve is in memory at a time.
    """
    number = 0
    total = np.zeros(len(_GRID))
    x = y = np.empty(0)
    for x, y in curves:
        number += 1
        total += np.interp(_GRID, x, y)
    if number <= 1:
        return _thin(x, y)
    return _GRID, total / number


def _thin(x: Floats, y: Floats) -> Curve:
    """Keep the ends, and points that are evenly spaced along the length of the curve."""
    if len(x) <= POINTS:
        return x, y
    # distance from the start of the curve at each point, by horizontal and vertical steps
    along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    kept = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], POINTS)).clip(max=len(x) - 1))
    kept = np.union1d(kept, [0, len(x) - 1])
    return x[kept], y[kept]


def roc_area(probability: Floats, labels: NDArray[Any]) -> float | None:
    """Return the area under the ROC curve, averaged as the curve is; ``None`` if no curve is defined."""
    from sklearn.metrics import roc_curve as points

    # The whole curves, not the thinned ones: their areas are exact, and of two classes the same.
    areas = []
    for is_member, scores in _scored_classes(probability, labels):
        false, true, _ = points(is_member, scores)
        areas.append(np.trapezoid(true, false))
    if not areas:
        return None
    return float(np.mean(areas))


def calibration(probability: Floats, labels: NDArray[Any]) -> PlotColumns:
    """Return accuracy by confidence of the prediction, in bins of equal width (Guo et al. 2017).

    The columns are ``confidence`` (mean), ``accuracy`` and ``rows`` of each bin that is not empty. Of several
    labels each decision counts: the confidence is the probability that a label is there.
    """
    if labels.ndim == 2:
        confidence = probability.ravel()
        right = labels.ravel() == 1
    else:
        confidence = probability.max(axis=1, initial=0.0)
        right = probability.argmax(axis=1) == labels
    bins = np.minimum((confidence * CALIBRATION_BINS).astype(np.int64), CALIBRATION_BINS - 1)
    rows = np.bincount(bins, minlength=CALIBRATION_BINS)
    filled = rows > 0
    return {
        "confidence": np.bincount(bins, confidence, CALIBRATION_BINS)[filled] / rows[filled],
        "accuracy": np.bincount(bins, right, CALIBRATION_BINS)[filled] / rows[filled],
        "rows": rows[filled].astype(np.float64),
    }


def calibration_error(bins: PlotColumns) -> float:
    """Return the expected calibration error: mean distance of accuracy from confidence, weighted by rows.

    Source: Guo et al. 2017, equation 3.
    """
    return float(np.average(np.abs(bins["accuracy"] - bins["confidence"]), weights=bins["rows"]))


def probability_scores(predictions: Predictions) -> dict[str, float]:
    """Return the metrics of probabilities, where they are defined; a number has no probability."""
    if not predictions.task.has_classes:
        return {}
    probability = predictions.task.scores(predictions.logits)
    scores = {}
    area = roc_area(probability, predictions.labels)
    if area is not None:
        scores["roc_auc"] = area
    scores["calibration_error"] = calibration_error(calibration(probability, predictions.labels))
    return scores
