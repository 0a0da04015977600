"""Metrics of the predictions of the trained model and of the simple models, on one split."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

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
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import Metric
from tuneline.model.tasks.task import Labels

CHECKS_OF_LEAKS = ("leakage", "near_duplicates")


def reported_scores(predictions: Predictions) -> dict[str, float]:
    """Return every metric that predictions suffice to compute, by name: the metrics of training first."""
    scores = predictions.scores()
    for metric in reported_metrics(predictions.task):
        if metric.of_predictions and metric.name not in scores:
            scores[metric.name] = predictions.score(metric)
    return scores


def split_metrics(predictions: Predictions, custom: Sequence[CustomMetric] = ()) -> dict[str, float]:
    """Return the metrics of one split: of the task, its loss and rows, its probabilities, and of the user.

    Args:
        predictions: Labels and logits of the rows.
        custom: Metrics of the user.
    """
    metrics = reported_scores(predictions)
    metrics["loss"] = predictions.loss()
    metrics["rows"] = len(predictions)
    metrics |= probability_scores(predictions)
    for metric in custom:
        metrics[metric.name] = metric.compute(predictions.logits, predictions.labels)
    return metrics


def leak_metrics(
    predictions: Predictions,
    leaked: NDArray[np.bool_],
    baselines: Mapping[str, Labels],
    deciding: Metric,
    seed: int,
) -> dict[str, float]:
    """Return the number of leaked rows, and the deciding metric without them, with its interval.

    Without leaked rows, or without others, there is only the number. The comparisons with the simple models,
    whose predictions are the ``baselines``, are repeated without the leaked rows, too.
    """
    metrics: dict[str, float] = {LEAKED_ROWS: int(leaked.sum())}
    if not leaked.any() or leaked.all():
        return metrics

    # the model
    clean = predictions.take(~leaked)
    estimate = clean.interval(deciding, seed)
    value_key, low_key, high_key = clean_keys(deciding)
    metrics |= {value_key: estimate.value, low_key: estimate.low, high_key: estimate.high}
    if clean.clusters is not None:
        metrics[INDEPENDENT_WITHOUT_LEAKS] = clean.independent_rows

    # the simple models
    for model, values in baselines.items():
        compared_keys = (baseline_key(deciding, model), *over_keys(deciding, model))
        for key, value in baseline_metrics(clean, model, values[~leaked], deciding, seed).items():
            if key in compared_keys:
                metrics[f"{key}{WITHOUT_LEAKS}"] = value
    return metrics


def baseline_metrics(
    predictions: Predictions, model: str, values: Labels, deciding: Metric, seed: int
) -> dict[str, float]:
    """Return the metrics of a simple model that are defined for it, with the interval of the difference.

    The difference is of the metric that decides, ``trained model - simple model``; ``values`` are the
    predictions of the simple model.

    The majority has ``majority_accuracy`` and ``majority_f1``; a regression has ``mean_mse``, because the
    correlations of a constant are undefined.
    """
    scores = reported_scores(replace(predictions, values=values))
    metrics = {}
    for metric in reported_metrics(predictions.task):
        key = baseline_key(metric, model)
        if key and metric.name in scores:
            metrics[key] = scores[metric.name]
    # The difference is paired: both models are scored on the same resampled rows.
    if baseline_key(deciding, model) not in metrics:
        return metrics

    difference = predictions.difference(deciding, values, seed=seed)
    low_key, high_key = over_keys(deciding, model)
    metrics[low_key] = difference.low
    metrics[high_key] = difference.high
    return metrics


def spread_metrics(predictions: Predictions, deciding: Metric, seed: int) -> dict[str, float]:
    """Return the interval of the deciding metric, and the spread that tells a collapsed model."""
    task = predictions.task
    estimate = predictions.interval(deciding, seed)
    low_key, high_key = interval_keys(deciding)
    metrics = {low_key: estimate.low, high_key: estimate.high}
    if predictions.clusters is not None:
        metrics[INDEPENDENT_ROWS] = predictions.independent_rows
    if not task.has_classes:  # its correlation tells a model that predicts a constant
        return metrics

    # classes, or labels, that are predicted, and those with rows that never are
    classes = range(task.outputs)
    predicted = np.array([task.members(predictions.values, index).any() for index in classes])
    labelled = np.array([task.members(predictions.labels, index).any() for index in classes])
    _, rows = np.unique(predictions.values, axis=0, return_counts=True)
    metrics[PREDICTED_CLASSES] = int(predicted.sum())
    metrics[NEVER_PREDICTED] = int((labelled & ~predicted).sum())
    metrics[MOST_PREDICTED] = float(rows.max() / len(predictions))
    if not task.one_class:
        metrics[LABELS_PER_ROW] = float((predictions.labels == 1).sum(axis=1).mean())
        metrics[PREDICTED_LABELS_PER_ROW] = float(predictions.values.sum(axis=1).mean())
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
