"""The rule by which a model answers: what errors cost, and the confidence that is promised.

An answer is the class with the lowest expected cost (Elkan 2001, "The Foundations of Cost-Sensitive
Learning", section 1), and no answer is given where an abstention is expected to cost less (Chow 1970, "On
Optimum Recognition Error and Reject Tradeoff"), or where the model is not sure enough. All need probabilities
that are true, as calibrated ones are. A row for which a model gives no finite number has no answer.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.model.tasks import Task
from tuneline.model.tasks.task import ClassIds, Floats, Labels


@dataclass(frozen=True)
class CostRule:
    """What answers cost.

    Attributes:
        matrix: Cost by the id of the right class and of the answer, ``(classes, classes)``.
        abstain: Cost of no answer; infinite if every row gets one.
    """

    matrix: Floats
    abstain: float

    @classmethod
    def of(
        cls, errors: Mapping[str, Mapping[str, float]], abstain: float | None, names: Sequence[str]
    ) -> Self:
        """Return the rule for classes with names in the order of their ids.

        Args:
            errors: Cost of each error, by the class that is right and the class that is answered.
            abstain: Cost of no answer; ``None``: every row gets an answer.
            names: Names of the classes.
        """
        number = {name: position for position, name in enumerate(names)}
        matrix = np.zeros((len(names), len(names)))
        for right, costs in errors.items():
            for answer, cost in costs.items():
                matrix[number[right], number[answer]] = cost
        return cls(matrix, math.inf if abstain is None else abstain)

    def answers(self, probabilities: Floats) -> ClassIds:
        """Return the class with the lowest expected cost in each row, the lowest id in a tie.

        Args:
            probabilities: Shape ``(rows, classes)``.
        """
        return np.asarray((probabilities @ self.matrix).argmin(axis=1))

    def abstains(self, probabilities: Floats) -> NDArray[np.bool_]:
        """Return the rows in which no answer is expected to cost less than the best one."""
        return np.asarray((probabilities @ self.matrix).min(axis=1) > self.abstain)

    def costs(self, probabilities: Floats, labels: NDArray[Any]) -> Floats:
        """Return what the answers and abstentions of this rule have cost, ``(rows,)``."""
        answered = self.matrix[labels, self.answers(probabilities)]
        return np.where(self.abstains(probabilities), self.abstain, answered)

    def plain_costs(self, probabilities: Floats, labels: NDArray[Any]) -> Floats:
        """Return what the most probable class of each row has cost, ``(rows,)``."""
        return np.asarray(self.matrix[labels, probabilities.argmax(axis=1)])


ANSWERED = -1.0
"""Threshold that every confidence is above."""
NO_NUMBER = "the model gave no finite number"
"""Why a row has no answer whose outputs are NaN or infinite."""
Scores = NDArray[np.float64]
"""Probabilities or numbers, as ``Task.scores`` has them, ``(rows, outputs)``."""


@dataclass(frozen=True)
class Answers:
    """Answers for rows.

    Attributes:
        labels: Labels as the task has them, ``(rows, *Task.label_shape)``.
        confidence: Probability that each answer is right, as the model says, ``(rows,)``; NaN for numbers.
        too_dear: Rows in which no answer is expected to cost less than this one, ``(rows,)``.
        is_finite: Rows for which the model gave numbers; an answer to the others means nothing.
    """

    labels: Labels
    confidence: NDArray[np.float64]
    too_dear: NDArray[np.bool_]
    is_finite: NDArray[np.bool_]


def answers_of(task: Task, scores: Scores, costs: CostRule | None) -> Answers:
    """Return the answers for rows.

    Args:
        task: The task with its decisions.
        scores: What the task has of the outputs of a model.
        costs: What errors cost, of one class per row; ``None``: the task decides by its scores alone.
    """
    if costs is None:
        labels = task.decide(scores)
        too_dear = np.zeros(len(scores), bool)
    else:
        labels = costs.answers(scores)
        too_dear = costs.abstains(scores)
    is_finite = np.isfinite(scores).all(axis=1)
    return Answers(labels, task.confidence(scores, labels), too_dear, np.asarray(is_finite))


@dataclass(frozen=True)
class AnswerRule:
    """What decides about answers beside the probabilities.

    Attributes:
        costs: What errors cost; ``None``: the most probable class is the answer.
        threshold: Confidence above which a row is answered; ``None``: every row is.
    """

    costs: CostRule | None = None
    threshold: float | None = None

    @property
    def abstains(self) -> bool:
        """True if some rows may get no answer."""
        is_dear = self.costs is not None and np.isfinite(self.costs.abstain)
        return bool(is_dear) or self.threshold is not None

    def answers(self, task: Task, scores: NDArray[np.float64]) -> Answers:
        """Return the answers for rows with these scores."""
        return answers_of(task, scores, self.costs)

    def reasons(self, answers: Answers) -> list[str | None]:
        """Return why each row gets no answer; ``None`` for a row that gets one."""
        threshold = ANSWERED if self.threshold is None else self.threshold
        reasons: list[str | None] = [None] * len(answers.confidence)
        for row in np.flatnonzero(answers.confidence <= threshold):
            reasons[row] = f"confidence {answers.confidence[row]:.4f} is not above {threshold:.4f}"
        for row in np.flatnonzero(answers.too_dear):
            reasons[row] = "an answer is expected to cost more than none"
        for row in np.flatnonzero(~answers.is_finite):
            reasons[row] = NO_NUMBER
        return reasons


PLAIN = AnswerRule()
"""Every row gets its most probable class, its labels, or its number."""
