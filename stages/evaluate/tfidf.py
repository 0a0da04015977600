"""Metrics of the TF-IDF baseline, and the model compared with it."""

from typing import Any

from numpy.typing import NDArray

from tuneline.files.schemas import LabelSchema
from tuneline.metrics import Averaging, metrics_for, primary_metric
from tuneline.scores import compute_metric, task_of
from tuneline.stats import paired_difference


def tfidf_metrics(
    labels: NDArray[Any], model: NDArray[Any], baseline: NDArray[Any], label_schema: LabelSchema, *, average: Averaging, seed: int
) -> dict[str, float]:
    """Return the metrics of the baseline, and the interval of the difference between the model and it.

    Args:
        labels: Labels of the reported split, shape ``(rows,)``.
        model: Predictions of the model, same shape.
        baseline: Predictions of the baseline, same shape.
        label_schema: Label schema.
        average: How F1 is averaged.
        seed: Seed of the bootstrap.
    """
    task = task_of(label_schema)
    metrics = {metric.tfidf: compute_metric(metric, labels, baseline, average) for metric in metrics_for(task) if metric.of_predictions}
    primary = primary_metric(task)
    difference = paired_difference(primary, labels, model, baseline, average=average, seed=seed)
    return metrics | dict(zip(primary.over_tfidf, (difference.low, difference.high), strict=True))
