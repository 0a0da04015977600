"""The figures by which an exported model is held against the trained one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.params.export import Tolerance
from stages.scoring.formulas import predictions_of, regression_metrics
from stages.tables import Labels

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class Comparison:
    """One exported model against the trained one, on the same rows.

    Attributes:
        metrics: Figures of the whole split, by name: ``max_abs_diff``, ``mean_abs_diff``, ``agreement``, and
            ``accuracy_drop`` or ``pearson_drop``.
        flipped: Rows on which the two do not agree, the largest difference first.
        worst: The row with the largest difference of a logit.
    """

    metrics: dict[str, float]
    flipped: NDArray[np.int64]
    worst: int


def metric_name(labels: Labels) -> str:
    """The metric whose drop is gated."""
    return "pearson" if labels.is_regression else "accuracy"


def score(logits: Logits, labels: NDArray[Any], spec: Labels) -> float:
    """The gated metric of some logits."""
    predictions = predictions_of(logits, spec)
    return regression_metrics(labels, predictions)["pearson"] if spec.is_regression else float(np.mean(predictions == labels))


def compare_logits(trained: Logits, exported: Logits, labels: NDArray[Any], spec: Labels, close: float) -> Comparison:
    """Holds two sets of logits against each other.

    Args:
        trained: The trained model's, of shape ``[rows, outputs]``.
        exported: The exported model's, same shape.
        labels: Shape ``[rows]``.
        spec: What the outputs mean.
        close: Regression only: the share of the labels' standard deviation within which two predictions agree.
    """
    difference = np.abs(trained.astype(np.float64) - exported).max(axis=1)
    agrees = difference <= close * labels.std() if spec.is_regression else predictions_of(trained, spec) == predictions_of(exported, spec)
    flipped = np.flatnonzero(~agrees)
    metrics = {
        "max_abs_diff": float(difference.max()),
        "mean_abs_diff": float(np.abs(trained.astype(np.float64) - exported).mean()),
        "agreement": float(agrees.mean()),
        f"{metric_name(spec)}_drop": score(trained, labels, spec) - score(exported, labels, spec),
    }
    return Comparison(metrics, flipped[np.argsort(-difference[flipped], kind="stable")], int(difference.argmax()))


def faults(found: Comparison, tolerance: Tolerance, spec: Labels) -> list[str]:
    """What is outside the tolerance, one sentence each; empty when nothing is."""
    metrics, drop = found.metrics, f"{metric_name(spec)}_drop"
    said = []
    if tolerance.max_abs_diff is not None and not metrics["max_abs_diff"] <= tolerance.max_abs_diff:
        said.append(
            f"a logit differs by {metrics['max_abs_diff']:.3g} (row {found.worst}), more than max_abs_diff {tolerance.max_abs_diff:g}"
        )
    if metrics["agreement"] < tolerance.min_agreement:
        said.append(f"agreement is {metrics['agreement']:.6g}, below min_agreement {tolerance.min_agreement:g} ({_rows(found.flipped)})")
    if not metrics[drop] <= tolerance.max_metric_drop:
        said.append(f"{drop.replace('_', ' ')} is {metrics[drop]:.3g}, more than max_metric_drop {tolerance.max_metric_drop:g}")
    return said


def _rows(flipped: NDArray[np.int64]) -> str:
    shown = ", ".join(str(row) for row in np.sort(flipped[:10]))
    return f"rows {shown}" + (f" and {len(flipped) - 10} more" if len(flipped) > 10 else "")
