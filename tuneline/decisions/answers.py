"""What a model answers, how sure it is, and where it gives no answer: by kind of task."""

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from tuneline.decisions.costs import CostRule
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.probabilities import likelihoods
from tuneline.tasks.task import Labels

ANSWERED = -1.0
"""Threshold that every confidence is above."""
Scores = NDArray[np.float64]
"""Probabilities or numbers, as ``Task.scores`` has them, ``(rows, outputs)``."""


@dataclass(frozen=True)
class Answers:
    """Answers for rows.

    Attributes:
        labels: Labels as the task has them, ``(rows, *Task.label_shape)``.
        confidence: Probability that each answer is right, as the model says, ``(rows,)``; NaN for numbers.
        too_dear: Rows in which no answer is expected to cost less than this one, ``(rows,)``.
    """

    labels: Labels
    confidence: NDArray[np.float64]
    too_dear: NDArray[np.bool_]


@singledispatch
def answers_of(task: Task, scores: Scores, costs: CostRule | None) -> Answers:
    """Return the answers for rows.

    Args:
        task: The task with its decisions.
        scores: What the task has of the outputs of a model.
        costs: What errors cost, of one class per row; ``None``: the most probable class is the answer.
    """
    raise NotImplementedError(task.kind)


@answers_of.register(Classification)
def _(_task: Classification, scores: Scores, costs: CostRule | None) -> Answers:
    """Return the class that costs least, of equal ones the lowest id."""
    if costs is None:
        labels = scores.argmax(axis=1)
        too_dear = np.zeros(len(scores), bool)
    else:
        labels = costs.answers(scores)
        too_dear = costs.abstains(scores)
    return Answers(labels, scores[np.arange(len(scores)), labels], too_dear)


@answers_of.register(Multilabel)
def _(task: Multilabel, scores: Scores, _costs: CostRule | None) -> Answers:
    """Return the sets of labels; a set is as sure as its least sure decision."""
    sets = task.decided_sets(scores)
    confidence = np.asarray(likelihoods(scores, sets).min(axis=1))
    return Answers(sets, confidence, np.zeros(len(scores), bool))


@answers_of.register(Regression)
def _(_task: Regression, scores: Scores, _costs: CostRule | None) -> Answers:
    """Return the numbers."""
    return Answers(scores[:, 0], np.full(len(scores), np.nan), np.zeros(len(scores), bool))
