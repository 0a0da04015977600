"""Curves and calibration of a classifier, as columns for ``dvc plots``; their size does not grow with the split.

scikit-learn takes a second to import, and the stage ``compare`` needs only the calibration: the functions import it.
"""

import numpy as np
from numpy.typing import NDArray

POINTS = 200
"""Most points of a curve."""
BINS = 15
"""Bins of the calibration curve, as in Guo et al. 2017, "On Calibration of Modern Neural Networks"."""

Columns = dict[str, NDArray[np.float64]]
Classes = NDArray[np.int64] | NDArray[np.float32]
"""Class ids of shape ``(rows,)``. They are int64; the type has float32 because labels of a split have either."""
Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
_GRID = np.linspace(0.0, 1.0, POINTS + 1)


def probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the softmax of logits, computed in float64; both of shape ``(rows, classes)``."""
    wide = logits.astype(np.float64)
    exponentials = np.exp(wide - wide.max(axis=1, keepdims=True))  # finite for logits of any size
    result: NDArray[np.float64] = exponentials / exponentials.sum(axis=1, keepdims=True)
    return result


def scored_classes(labels: Classes, classes: int) -> list[int]:
    """Return the classes whose curves are defined: those of some rows, but not all. With two classes: the positive one."""
    candidates = [1] if classes == 2 else range(classes)
    return [one for one in candidates if 0 < np.count_nonzero(labels == one) < len(labels)]


def roc_curve(probability: NDArray[np.float64], labels: Classes) -> Columns:
    """Return the true positive rate over the false positive rate: of class 1 of two, or the mean of one class against the rest.

    Args:
        probability: Shape ``(rows, classes)``.
        labels: Shape ``(rows,)``.

    Returns:
        ``false_positive_rate`` and ``true_positive_rate``; empty when no class can be scored.
    """
    from sklearn import metrics

    curves = []
    for one in scored_classes(labels, probability.shape[1]):
        false, true, _ = metrics.roc_curve(labels == one, probability[:, one])
        curves.append((false, true))
    false, true = _mean_curve(curves)
    return {"false_positive_rate": false, "true_positive_rate": true}


def precision_recall_curve(probability: NDArray[np.float64], labels: Classes) -> Columns:
    """Return precision over recall, averaged as in ``roc_curve``."""
    from sklearn import metrics

    curves = []
    for one in scored_classes(labels, probability.shape[1]):
        precision, recall, _ = metrics.precision_recall_curve(labels == one, probability[:, one])
        curves.append((recall[::-1], precision[::-1]))
    recall, precision = _mean_curve(curves)
    return {"recall": recall, "precision": precision}


def _mean_curve(curves: list[Curve]) -> Curve:
    """Thin one curve; average several on a common grid. ``x`` rises."""
    if len(curves) == 1:
        return _thin(*curves[0])
    if not curves:
        return np.empty(0), np.empty(0)
    return _GRID, np.mean([np.interp(_GRID, x, y) for x, y in curves], axis=0)


def _thin(x: NDArray[np.float64], y: NDArray[np.float64]) -> Curve:
    """Keep the ends, and points that are evenly spaced along the length of the curve."""
    if len(x) <= POINTS:
        return x, y
    along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    kept = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], POINTS)).clip(max=len(x) - 1))
    kept = np.unique([0, *kept, len(x) - 1])
    return x[kept], y[kept]


def ranking_metrics(probability: NDArray[np.float64], labels: Classes) -> dict[str, float]:
    """Return the area under the ROC curve and the average precision, averaged as the curves are; empty if no curve is defined."""
    from sklearn import metrics

    scored = scored_classes(labels, probability.shape[1])
    if not scored:
        return {}
    areas = [metrics.roc_auc_score(labels == one, probability[:, one]) for one in scored]
    precisions = [metrics.average_precision_score(labels == one, probability[:, one]) for one in scored]
    return {"roc_auc": float(np.mean(areas)), "average_precision": float(np.mean(precisions))}


def calibration(probability: NDArray[np.float64], labels: Classes) -> Columns:
    """Return accuracy by confidence of the prediction, in bins of equal width (Guo et al. 2017, equations 1 and 2).

    Returns:
        ``confidence`` (mean), ``accuracy`` and ``rows`` of each bin that is not empty.
    """
    confidence = probability.max(axis=1)
    right = probability.argmax(axis=1) == labels
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    rows = np.bincount(bins, minlength=BINS)
    filled = rows > 0
    return {
        "confidence": np.bincount(bins, confidence, BINS)[filled] / rows[filled],
        "accuracy": np.bincount(bins, right, BINS)[filled] / rows[filled],
        "rows": rows[filled].astype(np.float64),
    }


def calibration_error(bins: Columns) -> float:
    """Return the expected calibration error: mean distance of accuracy from confidence, weighted by rows (Guo et al. 2017, eq. 3)."""
    return float(np.average(np.abs(bins["accuracy"] - bins["confidence"]), weights=bins["rows"]))
