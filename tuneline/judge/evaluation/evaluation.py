"""The evaluation of predictions on labelled rows: of the reported split, or of another file.

The stage ``evaluate`` and the command ``tuneline evaluate`` differ in where rows and logits come from, and
in what they slice by beside length, words and classes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.core.runtime.terminal import phase
from tuneline.judge.evaluation.curves import calibration, precision_recall_curve, roc_curve
from tuneline.judge.evaluation.scoring import (
    SplitPredictions,
    baseline_metrics,
    leak_metrics,
    split_metrics,
    spread_metrics,
)
from tuneline.judge.evaluation.slices import RowSlice, Slices, score_slices, slices_report
from tuneline.judge.metrics.functions import CustomMetric
from tuneline.judge.metrics.judging import averaging
from tuneline.judge.metrics.predictions import PredictedLogits
from tuneline.judge.metrics.table import primary_metric
from tuneline.model.tasks.task import Labels

SCATTERED = 2_000
"""Most points of a scatter plot, evenly spaced rows."""


@dataclass(frozen=True)
class EvaluatedPredictions:
    """What the predictions of labelled rows are worth.

    Attributes:
        predictions: The predictions, with what intervals are computed by.
        slices: The metrics by slice.
        metrics: The metrics of all rows, for the model and for the simple models.
    """

    predictions: SplitPredictions
    slices: Slices
    metrics: dict[str, float]

    @property
    def worst_slice(self) -> dict[str, float]:
        """The metric of the worst slice by its name; empty if all slices are small."""
        if self.slices.worst is None:
            return {}
        return {f"worst_slice_{self.slices.metric}": self.slices.value(self.slices.worst)}


def evaluate_predictions(
    predictions: PredictedLogits,
    slices: Iterable[RowSlice],
    baselines: Mapping[str, Labels],
    *,
    seed: int,
    metric: str | None,
    custom: Sequence[CustomMetric] = (),
    leaked: NDArray[np.bool_] | None = None,
) -> EvaluatedPredictions:
    """Compute the metrics of predictions, by slice and of all rows.

    Args:
        predictions: Labels and logits of the rows.
        slices: Rows with a common property; each is scored before the next is made.
        baselines: Predictions of the simple models for the same rows, by name.
        seed: Seed of the bootstrap.
        metric: ``train.metric`` of the model.
        custom: Metrics of the user.
        leaked: Which rows repeat or resemble a row of another split, shape ``(rows,)``; ``None`` if that is
            not known.
    """
    task = predictions.task
    scored = SplitPredictions(
        predictions.labels,
        predictions.predicted,
        task,
        averaging(task),
        seed,
        metric,
        predictions.clusters,
    )

    phase("slices")
    report = slices_report(score_slices(slices, scored), primary_metric(task.kind).name)

    phase("metrics")
    metrics = split_metrics(predictions.labels, task, predictions.logits, scored.average, custom)
    metrics |= spread_metrics(scored)
    for name, values in baselines.items():
        metrics |= baseline_metrics(scored, name, values)
    if leaked is not None:
        metrics |= leak_metrics(scored, leaked, baselines)
    return EvaluatedPredictions(scored, report, metrics)


def plot_columns(predictions: PredictedLogits) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the columns of each plot by the name of the plot.

    The plots of another kind of task have no rows.
    """
    task = predictions.task
    labels = predictions.labels
    logits = predictions.logits

    # regression
    scattered_labels = labels[:0]
    scattered_predictions = logits[:0, 0]
    if not task.has_classes:
        interval = math.ceil(len(labels) / SCATTERED)
        scattered_labels = labels[::interval]
        scattered_predictions = logits[::interval, 0]
        logits = np.empty((0, 1), dtype=np.float32)
        labels = np.empty(0, dtype=np.int64)

    # classes: without rows for a regression
    probability = task.scores(logits)
    average = averaging(task)
    positive = 1 if average == "macro" else average
    return {
        "scatter": {"actual": scattered_labels, "predicted": scattered_predictions},
        "roc": roc_curve(probability, labels, positive),
        "precision_recall": precision_recall_curve(probability, labels, positive),
        "calibration": calibration(probability, labels),
    }
