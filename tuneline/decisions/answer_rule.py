"""Which rows are answered: by what errors cost, and by what is promised."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuneline.decisions.answers import ANSWERED, Answers, answers_of
from tuneline.decisions.costs import CostRule
from tuneline.tasks import Task


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
        return reasons


PLAIN = AnswerRule()
"""Every row gets its most probable class, its labels, or its number."""
