"""A kind of task that the project does not have: classes with an order, of which the one nearest to the
expected rank is predicted.

``python -m tests.ordinal MODULE [MODULE ...] [-- ARGUMENT ...]`` registers it, and runs modules as ``python
-m`` does, one after the other.
"""

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tests.several_modules import run_modules
from tuneline.decisions.rule import Answers, CostRule, answers_of
from tuneline.tasks import Classification, register
from tuneline.tasks.schemas import label_feature
from tuneline.tasks.task import Labels, Logits


@dataclass(frozen=True)
class Ordinal(Classification):
    """Classes in their order, such as ratings."""

    kind: ClassVar[str] = "ordinal"

    def predictions(self, logits: Logits) -> Labels:
        """Return the rank nearest to the expected one."""
        return nearest_ranks(self.scores(logits))


@label_feature.register(Ordinal)
def _(task: Ordinal) -> dict[str, Any]:
    """A class label, of this kind of task."""
    return {**label_feature.dispatch(Classification)(task), "task": task.kind}


@answers_of.register(Ordinal)
def _(_task: Ordinal, scores: NDArray[np.float64], _costs: CostRule | None) -> Answers:
    """Return the ranks; they are as sure as their class."""
    ranks = nearest_ranks(scores)
    return Answers(ranks, scores[np.arange(len(ranks)), ranks], np.zeros(len(ranks), bool))


def nearest_ranks(scores: NDArray[np.float64]) -> Labels:
    """Return the rank nearest to the expected one, from probabilities of shape ``(rows, classes)``."""
    expected = scores @ np.arange(scores.shape[1])
    return np.rint(expected).astype(np.int64)


if __name__ == "__main__":
    register(Ordinal)
    run_modules(sys.argv[1:])
