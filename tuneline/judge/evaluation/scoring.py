"""Metrics of the predictions of the trained model and of the simple models, on one split."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.tables import ROW_GROUP
from tuneline.judge.evaluation.curves import probability_scores
from tuneline.judge.evaluation.keys import (
    INDEPENDENT_ROWS,
    INDEPENDENT_WITHOUT_LEAKS,
    LABELS_PER_ROW,
    LEAKED_ROWS,
    MOST_PREDICTED,
    NEVER_PREDICTED,
    PREDICTED_CLASSES,
    PREDICTED_LABELS_PER_ROW,
    WITHOUT_LEAKS,
    baseline_key,
    clean_keys,
    interval_keys,
    over_keys,
)
from tuneline.judge.evaluation.table import reported_metrics
from tuneline.judge.metrics.functions import CustomMetric
from tuneline.judge.metrics.judging import mean_loss, prediction_scores
from tuneline.judge.metrics.scores import compute_metric
from tuneline.judge.metrics.stats import Estimate, metric_interval, paired_difference
from tuneline.judge.metrics.table import Averaging, Metric, project_metric
from tuneline.model.tasks import Task

CHECKS_OF_LEAKS = ("leakage", "near_duplicates")


@dataclass(frozen=True)
class SplitPredictions:
    """Labels and predictions of the model for the reported split.

    Attributes:
        labels: Labels of shape ``(rows, *Task.label_shape)``.
        values: Predictions of the same shape.
        task: The task.
        average: How F1 is averaged.
        seed: Seed of the bootstrap.
        metric: ``train.metric``.
        clusters: Cluster of each row, shape ``(rows,)``; ``None``: each row is on its own.
    """

    labels: NDArray[Any]
    values: NDArray[Any]
    task: Task
    average: Averaging
    seed: int
    metric: str | None = None
    clusters: NDArray[Any] | None = None

    def take(self, rows: NDArray[Any]) -> Self:
        """Return chosen rows, numbers or a mask."""
        clusters = None
        if self.clusters is not None:
            clusters = self.clusters[rows]
        return replace(self, labels=self.labels[rows], values=self.values[rows], clusters=clusters)

    def interval(self, metric: Metric) -> Estimate:
        """Return a metric with its interval.

        Raises:
            ValueError: It has none; the first metric of each task, and each that decides, has one.
        """
        estimate = metric_interval(
            metric,
            self.labels,
            self.values,
            average=self.average,
            seed=self.seed,
            clusters=self.clusters,
        )
        if estimate is None:
            raise ValueError(f"{metric.name} has no interval in tuneline/judge/metrics/table.py")
        return estimate

    @property
    def deciding(self) -> Metric:
        """The metric that decides in this project."""
        return project_metric(self.task.kind, self.metric)


def reported_scores(
    task: Task, labels: NDArray[Any], predictions: NDArray[Any], average: Averaging
) -> dict[str, float]:
    """Return every metric that predictions suffice to compute, by name: the metrics of training first."""
    scores = prediction_scores(task, labels, predictions, average)
    for metric in reported_metrics(task):
        if metric.of_predictions and metric.name not in scores:
            scores[metric.name] = compute_metric(metric, labels, predictions, average)
    return scores


def split_metrics(
    labels: NDArray[Any],
    task: Task,
    logits: NDArray[np.float32],
    average: Averaging,
    custom: Sequence[CustomMetric] = (),
) -> dict[str, float]:
    """Return the metrics of one split: of the task, its loss and rows, its probabilities, and of the user.

    Args:
        labels: Class ids or numbers, shape ``(rows,)``.
        task: The task.
        logits: Logits, shape ``(rows, outputs)``.
        average: How F1 is averaged.
        custom: Metrics of the user.
    """
    metrics = reported_scores(task, labels, task.predictions(logits), average)
    metrics["loss"] = mean_loss(task, logits, labels)
    metrics["rows"] = len(labels)
    metrics |= probability_scores(task, logits, labels)
    for metric in custom:
        metrics[metric.name] = metric.compute(logits, labels)
    return metrics


def leak_metrics(
    split: SplitPredictions,
    leaked: NDArray[np.bool_],
    baselines: Mapping[str, NDArray[Any]] | None = None,
) -> dict[str, float]:
    """Return the number of leaked rows, and the deciding metric without them, with its interval.

    Without leaked rows, or without others, there is only the number. The comparisons with the simple models,
    whose predictions are the ``baselines``, are repeated without the leaked rows, too.
    """
    metrics: dict[str, float] = {LEAKED_ROWS: int(leaked.sum())}
    if not leaked.any() or leaked.all():
        return metrics
    clean_baselines = {name: predictions[~leaked] for name, predictions in (baselines or {}).items()}
    return metrics | _clean_metrics(split.take(~leaked), clean_baselines)


def _clean_metrics(clean: SplitPredictions, baselines: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return the deciding metric of the rows that are not leaked, of the model and of the simple models."""
    metric = clean.deciding
    estimate = clean.interval(metric)
    value_key, low_key, high_key = clean_keys(metric)
    metrics = {value_key: estimate.value, low_key: estimate.low, high_key: estimate.high}
    if clean.clusters is not None:
        metrics[INDEPENDENT_WITHOUT_LEAKS] = len(np.unique(clean.clusters))
    for model, predictions in baselines.items():
        compared_keys = (baseline_key(metric, model), *over_keys(metric, model))
        for key, value in baseline_metrics(clean, model, predictions).items():
            if key in compared_keys:
                metrics[f"{key}{WITHOUT_LEAKS}"] = value
    return metrics


def baseline_metrics(split: SplitPredictions, model: str, predictions: NDArray[Any]) -> dict[str, float]:
    """Return the metrics of a simple model that are defined for it, with the interval of the difference.

    The difference is of the metric that decides, ``trained model - simple model``.

    The majority has ``majority_accuracy`` and ``majority_f1``; a regression has ``mean_mse``, because the
    correlations of a constant are undefined.
    """
    scores = reported_scores(split.task, split.labels, predictions, split.average)
    metrics = {}
    for metric in reported_metrics(split.task):
        key = baseline_key(metric, model)
        if key and metric.name in scores:
            metrics[key] = scores[metric.name]
    # The difference is paired: both models are scored on the same resampled rows.
    if baseline_key(split.deciding, model) not in metrics:
        return metrics

    difference = paired_difference(
        split.deciding,
        split.labels,
        split.values,
        predictions,
        average=split.average,
        seed=split.seed,
        clusters=split.clusters,
    )
    low_key, high_key = over_keys(split.deciding, model)
    metrics[low_key] = difference.low
    metrics[high_key] = difference.high
    return metrics


def spread_metrics(split: SplitPredictions) -> dict[str, float]:
    """Return the interval of the deciding metric, and the spread that tells a collapsed model."""
    estimate = split.interval(split.deciding)
    low_key, high_key = interval_keys(split.deciding)
    metrics = {low_key: estimate.low, high_key: estimate.high}
    if split.clusters is not None:
        metrics[INDEPENDENT_ROWS] = len(np.unique(split.clusters))
    if not split.task.has_classes:  # its correlation tells a model that predicts a constant
        return metrics

    # classes, or labels, that are predicted, and those with rows that never are
    classes = range(split.task.outputs)
    predicted = np.array([split.task.members(split.values, index).any() for index in classes])
    labelled = np.array([split.task.members(split.labels, index).any() for index in classes])
    _, rows = np.unique(split.values, axis=0, return_counts=True)
    metrics[PREDICTED_CLASSES] = int(predicted.sum())
    metrics[NEVER_PREDICTED] = int((labelled & ~predicted).sum())
    metrics[MOST_PREDICTED] = float(rows.max() / len(split.labels))
    if not split.task.one_class:
        metrics[LABELS_PER_ROW] = float((split.labels == 1).sum(axis=1).mean())
        metrics[PREDICTED_LABELS_PER_ROW] = float(split.values.sum(axis=1).mean())
    return metrics


def leaked_rows(folder: Path, split: str, rows: int) -> NDArray[np.bool_]:
    """Return which rows of a split repeat or resemble a row of another split, shape ``(rows,)``.

    Args:
        folder: ``reports/checks/rows/``, written by the checks of this data.
        split: Name of the split.
        rows: Number of its rows.
    """
    leaked = np.zeros(rows, dtype=bool)
    for check in CHECKS_OF_LEAKS:
        path = folder / f"{check}.parquet"
        if not path.exists():
            continue
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(ROW_GROUP, columns=["split", "row", "other_split"]):
                of_split = pc.equal(batch["split"], split)
                like_another = pc.not_equal(batch["other_split"], split)
                numbers = batch["row"].filter(pc.and_(of_split, like_another)).to_numpy()
                if numbers.max(initial=-1) >= rows:
                    raise DataError(
                        f"{path} has rows of other data than the split {split!r}.",
                        "Run `dvc repro validate`.",
                    )
                leaked[numbers] = True
    return leaked
