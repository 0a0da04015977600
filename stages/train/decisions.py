"""How validation chooses what turns outputs into predictions, by kind of task."""

from dataclasses import replace
from functools import singledispatch

import numpy as np

from tuneline.linear.thresholds import choose_thresholds, divisions
from tuneline.params.train import ThresholdParams
from tuneline.tasks import Multilabel, Task
from tuneline.tasks.task import Labels, Logits


@singledispatch
def decided(task: Task, logits: Logits, labels: Labels, rule: ThresholdParams) -> Task:  # noqa: ARG001
    """Return the task with the decisions that suit rows of validation best."""
    return task


@decided.register(Multilabel)
def _(task: Multilabel, logits: Logits, labels: Labels, rule: ThresholdParams) -> Task:
    """Return the task with the thresholds that suit the rows best."""
    thresholds = choose_thresholds(logits.astype(np.float64), labels == 1, rule)
    return replace(task, thresholds=tuple(thresholds.tolist()), at_least_one=rule.at_least_one)


@singledispatch
def cross_fitted(task: Task, logits: Logits, labels: Labels, rule: ThresholdParams) -> Labels:  # noqa: ARG001
    """Return predictions of rows of validation that are decided as other rows of it have chosen."""
    return task.predictions(logits)


@cross_fitted.register(Multilabel)
def _(task: Multilabel, logits: Logits, labels: Labels, rule: ThresholdParams) -> Labels:
    """Return predictions of rows, each with the thresholds of the rows in other folds."""
    predictions = np.empty_like(labels)
    for held_out, others in divisions(len(labels)):
        chosen = decided(task, logits[others], labels[others], rule)
        predictions[held_out] = chosen.predictions(logits[held_out])
    return predictions
