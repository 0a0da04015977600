"""The logits of an exported and of the trained model, row by row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.core.tables import SplitReader
from tuneline.evaluation.probability_scores import confidences, probability_scores
from tuneline.metrics.scores import compute_metric
from tuneline.metrics.stats import effective_rows, exact_interval, paired_difference
from tuneline.metrics.table import Averaging, Metric, project_metric
from tuneline.onnx.agreement import agreement, agreement_metrics
from tuneline.onnx.comparison_records import Flip, FlippedPrediction
from tuneline.tasks import Task
from tuneline.tasks.task import Logits


@dataclass(frozen=True)
class TrainedLogits:
    """What exported models are compared with.

    Attributes:
        labels: Labels of the reported split, of shape ``(rows,)``.
        logits: The trained model's logits, of shape ``(rows, outputs)``.
        train_metric: ``train.metric``.
        average: How F1 is averaged.
        clusters: Cluster of each row, of shape ``(rows,)``; ``None``: each row is on its own.
    """

    labels: NDArray[Any]
    task: Task
    logits: Logits
    train_metric: str | None = None
    average: Averaging = "macro"
    clusters: NDArray[Any] | None = None

    @property
    def metric(self) -> Metric:
        """Metric whose drop is limited: the one that decides in the project."""
        return project_metric(self.task.metric_kind, self.train_metric)

    def score(self, logits: Logits) -> float:
        """Return the metric of logits of shape ``(rows, outputs)``."""
        return compute_metric(self.metric, self.labels, self.task.predictions(logits), self.average)

    def quality(self, task: Task, logits: Logits) -> dict[str, float]:
        """Return the metric of logits, and how true the probabilities are that a task has of them."""
        metrics = {self.metric.name: self.score(logits)}
        probabilities = probability_scores(task, logits, self.labels)
        if "calibration_error" in probabilities:
            metrics["calibration_error"] = probabilities["calibration_error"]
        return metrics


@dataclass(frozen=True)
class LogitComparison:
    """Comparison of one exported model with the trained model.

    Attributes:
        metrics: ``max_abs_diff`` and ``mean_abs_diff`` of logits; ``agreement``, the mean of
            ``Task.agreement``, with the ends of its interval; ``flips``, the number of rows with another
            prediction; and the drop of the metric with the ends of its interval.
        difference: Largest difference of a logit in each row, of shape ``(rows,)``.
        flipped: Rows with another prediction, the largest difference first.
        not_finite: Rows with NaN or infinity.
    """

    metrics: dict[str, float]
    logits: Logits
    difference: NDArray[np.float64]
    flipped: NDArray[np.int64]
    not_finite: NDArray[np.int64]


def compare_logits(
    reference: TrainedLogits, exported: Logits, close_rmse: float, seed: int
) -> LogitComparison:
    """Compare the logits of an exported model with the logits of the trained model, of the same shape.

    NaN and infinity count as 0, and their rows as ``not_finite``.
    """
    not_finite = np.flatnonzero(~np.isfinite(exported).all(axis=1))
    exported = np.nan_to_num(exported, nan=0.0, posinf=0.0, neginf=0.0)
    difference = np.abs(reference.logits.astype(np.float64) - exported)
    per_row = difference.max(axis=1)

    # agreement of predictions
    task = reference.task
    agreeing = agreement(task, reference.logits, exported, reference.labels, close_rmse)
    agreeing[not_finite] = 0.0
    flipped = np.flatnonzero(agreeing < 1.0)
    independent = effective_rows(agreeing, reference.clusters)
    agreement_interval = exact_interval(float(agreeing.mean()) * independent, independent)

    # drop of the metric
    drop = f"{reference.metric.name}_drop"
    metric_drop = paired_difference(
        reference.metric,
        reference.labels,
        task.predictions(reference.logits),
        task.predictions(exported),
        average=reference.average,
        seed=seed,
        clusters=reference.clusters,
    )

    metrics = {
        "max_abs_diff": float(per_row.max()),
        "mean_abs_diff": float(difference.mean()),
        "agreement": float(agreeing.mean()),
        "agreement_low": agreement_interval.low,
        "agreement_high": agreement_interval.high,
        "flips": len(flipped),
        drop: metric_drop.value,
        f"{drop}_low": metric_drop.low,
        f"{drop}_high": metric_drop.high,
        **agreement_metrics(task, reference.logits, exported),
    }
    # A stable sort: rows of equal difference stay in the order of the split.
    flipped = flipped[np.argsort(-per_row[flipped], kind="stable")]
    return LogitComparison(metrics, exported, per_row, flipped, not_finite)


LIMIT = 100
"""Flipped rows described per model: the ones whose logits differ most."""


def describe_flips(
    comparison: LogitComparison, reference: TrainedLogits, raw: SplitReader, text_columns: Sequence[str]
) -> list[Flip]:
    """Return the flipped rows with their texts: at most ``LIMIT``, the largest difference first."""
    rows = comparison.flipped[:LIMIT]
    labels = reference.labels[rows].tolist()

    # The raw split is read in the order of its rows; the texts then take the order of the flips.
    order = np.argsort(rows)
    texts = raw.take(rows[order], text_columns).take(np.argsort(order)).to_pylist()

    flips = []
    for row, text, label in zip(rows, texts, labels, strict=True):
        flip = Flip(
            row=int(row),
            text=text,
            label=reference.task.label_value(label),
            trained=_prediction(reference, reference.logits, row),
            exported=_prediction(reference, comparison.logits, row),
            difference=float(comparison.difference[row]),
        )
        flips.append(flip)
    return flips


def _prediction(reference: TrainedLogits, logits: Logits, row: int) -> FlippedPrediction:
    task = reference.task
    row_logits = logits[row : row + 1]
    (prediction,) = task.predictions(row_logits)
    value = task.label_value(prediction)
    (probability,) = confidences(task, row_logits).tolist()
    if not task.has_classes:
        return FlippedPrediction(prediction=value)
    return FlippedPrediction(prediction=value, probability=probability)
