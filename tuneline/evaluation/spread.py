"""How the predictions of a split spread over the classes, by kind of task."""

from functools import singledispatch

import numpy as np

from tuneline.evaluation.keys import (
    LABELS_PER_ROW,
    MOST_PREDICTED,
    NEVER_PREDICTED,
    PREDICTED_CLASSES,
    PREDICTED_LABELS_PER_ROW,
)
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.task import Labels


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
