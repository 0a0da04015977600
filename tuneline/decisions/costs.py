"""Answers that cost least, given what each kind of error costs.

An answer is the class with the lowest expected cost (Elkan 2001, "The Foundations of Cost-Sensitive
Learning", section 1), and no answer is given where an abstention is expected to cost less (Chow 1970, "On
Optimum Recognition Error and Reject Tradeoff"). Both need probabilities that are true, as calibrated ones
are.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ClassIds = NDArray[np.int64]


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

    def row_costs(self, answers: ClassIds, abstained: NDArray[np.bool_], labels: NDArray[Any]) -> Floats:
        """Return what each row has cost, ``(rows,)``."""
        return np.where(abstained, self.abstain, self.matrix[labels, answers])

    def costs(self, probabilities: Floats, labels: NDArray[Any]) -> Floats:
        """Return what the answers and abstentions of this rule have cost, ``(rows,)``."""
        return self.row_costs(self.answers(probabilities), self.abstains(probabilities), labels)

    def plain_costs(self, probabilities: Floats, labels: NDArray[Any]) -> Floats:
        """Return what the most probable class of each row has cost, ``(rows,)``."""
        return np.asarray(self.matrix[labels, probabilities.argmax(axis=1)])
