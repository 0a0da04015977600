"""Probabilities of a split, and the scores of them, by kind of task."""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tuneline.evaluation.curves import ClassProbabilities, Sigmoid, Softmax
from tuneline.evaluation.table import ProbabilityMetric, reported_metrics
from tuneline.metrics.table import METRIC_TABLE, Metric
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.probabilities import likelihoods
from tuneline.tasks.task import Labels, Logits


@singledispatch
def probabilities_of(_task: Task, logits: Logits) -> ClassProbabilities:
    """Return the probabilities of the classes of a split, where there are classes."""
    return Softmax.of(logits)


@probabilities_of.register(Classification)
def _(task: Classification, logits: Logits) -> ClassProbabilities:
    """Return the probability of each class."""
    return Softmax.of(logits, task.temperature)


@probabilities_of.register(Multilabel)
def _(task: Multilabel, logits: Logits) -> ClassProbabilities:
    """Return the probability of each label."""
    return Sigmoid(logits, task.scales)


def probability_scores(task: Task, logits: Logits, labels: Labels) -> dict[str, float]:
    """Return the metrics of the table that have a formula for probabilities, where they are defined.

    Args:
        task: The kind of task; a number has no probability.
        logits: Outputs of a model, ``(rows, outputs)``.
        labels: The labels of the rows.
    """
    if not task.has_classes:
        return {}
    probability = probabilities_of(task, logits)
    scores = {}
    for metric in reported_metrics(task):
        if not isinstance(metric, ProbabilityMetric):
            continue
        score = metric.probability_score(probability, labels)
        if score is not None:
            scores[metric.name] = score
    return scores


@singledispatch
def confidences(task: Task, logits: Logits) -> NDArray[np.float64]:
    """Return the probability of the prediction of each row, shape ``(rows,)``; NaN for a number."""
    raise NotImplementedError(task.kind)


@confidences.register(Classification)
def _(task: Classification, logits: Logits) -> NDArray[np.float64]:
    """Return the probability of each predicted class."""
    return Softmax.of(logits, task.temperature).highest


@confidences.register(Multilabel)
def _(task: Multilabel, logits: Logits) -> NDArray[np.float64]:
    """Return the probability of the least certain decision of each row."""
    probability = task.scores(logits)
    return np.asarray(likelihoods(probability, task.decided_sets(probability)).min(axis=1))


@confidences.register(Regression)
def _(_task: Regression, logits: Logits) -> NDArray[np.float64]:
    """Return NaN: numbers have no probability."""
    return np.full(len(logits), np.nan)


@singledispatch
def slice_metric(task: Task) -> Metric:
    """Return the metric that a slice shows beside the primary one."""
    raise NotImplementedError(task.kind)


@slice_metric.register(Classification)
def _(_task: Classification) -> Metric:
    """Return F1."""
    return METRIC_TABLE["f1"]


@slice_metric.register(Multilabel)
def _(_task: Multilabel) -> Metric:
    """Return micro F1."""
    return METRIC_TABLE["micro_f1"]


@slice_metric.register(Regression)
def _(_task: Regression) -> Metric:
    """Return the mean squared error."""
    return METRIC_TABLE["mse"]
