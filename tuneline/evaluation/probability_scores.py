"""What the predictions of a split are, by kind of task: their probabilities, scores and spread."""

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tuneline.evaluation.curves import ClassProbabilities, Sigmoid, Softmax
from tuneline.evaluation.keys import (
    LABELS_PER_ROW,
    MOST_PREDICTED,
    NEVER_PREDICTED,
    PREDICTED_CLASSES,
    PREDICTED_LABELS_PER_ROW,
)
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


@singledispatch
def spread(task: Task, predictions: Labels, labels: Labels) -> dict[str, float]:
    """Return metrics of how the predictions spread, by their key: they tell a model that collapsed."""
    raise NotImplementedError(task.kind)


@spread.register(Classification)
def _(task: Classification, predictions: Labels, labels: Labels) -> dict[str, float]:
    """Return numbers of predicted and never predicted classes, and the share of the most predicted."""
    predicted = np.bincount(predictions, minlength=task.outputs)
    labelled = np.bincount(labels, minlength=task.outputs)
    return {
        PREDICTED_CLASSES: int(np.count_nonzero(predicted)),
        NEVER_PREDICTED: int(np.count_nonzero((predicted == 0) & (labelled > 0))),
        MOST_PREDICTED: predicted.max() / len(labels),
    }


@spread.register(Multilabel)
def _(_task: Multilabel, predictions: Labels, labels: Labels) -> dict[str, float]:
    """Return numbers of predicted and never predicted labels, and of labels per row.

    Of the most frequent set, it is the share of the rows that get it.
    """
    predicted = predictions.any(axis=0)
    labelled = (labels == 1).any(axis=0)
    _, rows = np.unique(predictions, axis=0, return_counts=True)
    return {
        PREDICTED_CLASSES: int(predicted.sum()),
        NEVER_PREDICTED: int((labelled & ~predicted).sum()),
        MOST_PREDICTED: float(rows.max() / len(labels)),
        LABELS_PER_ROW: float((labels == 1).sum(axis=1).mean()),
        PREDICTED_LABELS_PER_ROW: float(predictions.sum(axis=1).mean()),
    }


@spread.register(Regression)
def _(_task: Regression, _predictions: Labels, _labels: Labels) -> dict[str, float]:
    """Return nothing: its correlation tells a model that predicts a constant."""
    return {}
