"""Answers that cost least, given what each kind of error costs.

An answer is the class with the lowest expected cost (Elkan 2001, "The Foundations of Cost-Sensitive
Learning", section 1), and no answer is given where an abstention is expected to cost less (Chow 1970, "On
Optimum Recognition Error and Reject Tradeoff"). Both need probabilities that are true, as calibrated ones
are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.core.records import OMITTED, Number, Record

Floats = NDArray[np.float64]
ClassIds = NDArray[np.int64]


class CostRecord(Record):
    """Costs in ``export.json``: what decides about the answers of a model."""

    errors: Mapping[str, Mapping[str, Number]]
    """Cost of each answer, by the class that is right and the class that is answered; 0 if it is missing."""
    abstain: Number | None = OMITTED
    """Cost of no answer; ``None``: every row gets an answer."""


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
    def of(cls, record: CostRecord, names: Sequence[str]) -> Self:
        """Return the costs of a record, for classes with these names in the order of their ids."""
        number = {name: position for position, name in enumerate(names)}
        matrix = np.zeros((len(names), len(names)))
        for right, costs in record.errors.items():
            for answer, cost in costs.items():
                matrix[number[right], number[answer]] = cost
        return cls(matrix, float("inf") if record.abstain is None else record.abstain)

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
