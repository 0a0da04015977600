"""Which rows are answered: by what errors cost, and by what is promised."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
        class_thresholds: The same for single classes, by id.
    """

    costs: CostRule | None = None
    threshold: float | None = None
    class_thresholds: Mapping[int, float] = field(default_factory=dict)

    @property
    def abstains(self) -> bool:
        """True if some rows may get no answer."""
        is_dear = self.costs is not None and np.isfinite(self.costs.abstain)
        return bool(is_dear) or self.threshold is not None or bool(self.class_thresholds)

    @property
    def values(self) -> list[object]:
        """What identifies the rule, for a record of how a result was made."""
        costs = None
        if self.costs is not None:
            costs = [self.costs.matrix.tolist(), self.costs.abstain]
        return [costs, self.threshold, sorted(self.class_thresholds.items())]

    def answers(self, task: Task, scores: NDArray[np.float64]) -> Answers:
        """Return the answers for rows with these scores."""
        return answers_of(task, scores, self.costs)

    def reasons(self, answers: Answers) -> list[str | None]:
        """Return why each row gets no answer; ``None`` for a row that gets one."""
        thresholds = np.full(len(answers.confidence), ANSWERED if self.threshold is None else self.threshold)
        for number, threshold in self.class_thresholds.items():
            thresholds[answers.labels == number] = threshold

        reasons: list[str | None] = [None] * len(thresholds)
        for row in np.flatnonzero(answers.confidence <= thresholds):
            reasons[row] = f"confidence {answers.confidence[row]:.4f} is not above {thresholds[row]:.4f}"
        for row in np.flatnonzero(answers.too_dear):
            reasons[row] = "an answer is expected to cost more than none"
        return reasons


PLAIN = AnswerRule()
"""Every row gets its most probable class, its labels, or its number."""
