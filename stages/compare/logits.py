"""The logits of an exported model beside those of the trained one, row by row."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.metrics.scores import compute_metric
from tuneline.metrics.stats import exact_interval
from tuneline.metrics.table import Metric
from tuneline.onnx.records import Saturation
from tuneline.tasks import Task

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class TrainedLogits:
    """What exported models are compared with: labels of the reported split, and the trained model's logits, shape ``(rows, outputs)``."""

    labels: NDArray[Any]
    task: Task
    logits: Logits

    @property
    def metric(self) -> Metric:
        """Metric whose drop is limited."""
        return self.task.primary_metric

    def score(self, logits: Logits) -> float:
        """Return that metric for some logits of shape ``(rows, outputs)``."""
        return compute_metric(self.metric, self.labels, self.task.predictions(logits))

    def quality(self, logits: Logits) -> dict[str, float]:
        """Return the metric, and what the task compares beside it."""
        return {self.metric.name: self.score(logits), **self.task.exported_quality(logits, self.labels)}


@dataclass(frozen=True)
class LogitComparison:
    """Comparison of one exported model with the trained model.

    Metrics are ``max_abs_diff`` and ``mean_abs_diff`` of logits; ``agreement``, the fraction of rows with the
    same prediction, with the ends of its exact interval; ``flips``, the number of other rows; the metric and
    its drop with the ends of its bootstrap interval; and for a classifier ``calibration_error``.
    ``difference`` is the largest difference of a logit in each row; rows ``flipped`` have another prediction,
    the largest difference first.
    """

    metrics: dict[str, float]
    logits: Logits
    difference: NDArray[np.float64]
    flipped: NDArray[np.int64]
    not_finite: NDArray[np.int64]
    saturation: Saturation | None = None


def compare_logits(
    reference: TrainedLogits, exported: Logits, close_rmse: float, seed: int
) -> LogitComparison:
    """Compare the logits of an exported model with those of the trained model, of the same shape.

    NaN and infinity count as 0, and their rows as ``not_finite``.
    """
    not_finite = np.flatnonzero(~np.isfinite(exported).all(axis=1))
    exported = np.nan_to_num(exported, nan=0.0, posinf=0.0, neginf=0.0)
    difference = np.abs(reference.logits.astype(np.float64) - exported)
    per_row = difference.max(axis=1)
    task = reference.task
    agrees = task.agreement(reference.logits, exported, reference.labels, close_rmse)
    interval = task.drop_interval(
        task.predictions(reference.logits), task.predictions(exported), reference.labels, seed
    )
    agrees[not_finite] = False
    flipped = np.flatnonzero(~agrees)
    agreeing = exact_interval(len(agrees) - len(flipped), len(agrees))
    drop = f"{reference.metric.name}_drop"
    metrics = {
        "max_abs_diff": float(per_row.max()),
        "mean_abs_diff": float(difference.mean()),
        "agreement": float(agrees.mean()),
        "agreement_low": agreeing.low,
        "agreement_high": agreeing.high,
        "flips": len(flipped),
        drop: reference.score(reference.logits) - reference.score(exported),
        f"{drop}_low": interval.low,
        f"{drop}_high": interval.high,
        **reference.quality(exported),
    }
    return LogitComparison(
        metrics, exported, per_row, flipped[np.argsort(-per_row[flipped], kind="stable")], not_finite
    )
