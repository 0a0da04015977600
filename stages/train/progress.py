"""How far a run has come, and all that it must remember to go on: plain numbers, kept in every checkpoint as JSON."""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from tuneline.metrics import METRIC_TABLE


@dataclass(frozen=True)
class StepResult:
    """What one optimizer step gave.

    Attributes:
        loss: Mean over the group's examples.
        learning_rate: With which the step was taken.
        gradient_norm: Before clipping; 0 where fp16 overflowed and the step was skipped.
    """

    loss: float
    learning_rate: float
    gradient_norm: float


@dataclass(frozen=True)
class LoggedStep:
    """A row of the training curve: ``loss`` is the mean since the row before, the rest is of this step."""

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float


@dataclass(frozen=True)
class Evaluation:
    """A row of the validation curve."""

    step: int
    loss: float
    metric: float


@dataclass
class Progress:
    """The state of a run that is neither weights nor optimizer.

    Epoch and place in the epoch follow from ``step``, because the order of examples is a function of (seed, epoch).

    Attributes:
        step: Groups seen, which is optimizer steps done (one that fp16 skipped counts too).
        losses: Losses of the steps since the last row of the training curve.
        logged: The training curve.
        evaluated: The validation curve.
        best_step: Step of the best evaluation; 0 before the first.
        stale: Evaluations since the last gain, for early stopping.
        stopped_early: Whether early stopping ended the run.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    logged: list[LoggedStep] = field(default_factory=list)
    evaluated: list[Evaluation] = field(default_factory=list)
    best_step: int = 0
    stale: int = 0
    stopped_early: bool = False

    def write(self, path: Path) -> None:
        """Writes all of it. Numbers come back exactly: JSON keeps the shortest decimal that gives the same float."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads what ``write`` wrote."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values["logged"] = [LoggedStep(**row) for row in values["logged"]]
        values["evaluated"] = [Evaluation(**row) for row in values["evaluated"]]
        return cls(**values)

    def note_step(self, result: StepResult, log_now: bool) -> LoggedStep | None:
        """Counts a step. With ``log_now`` a row is added to the training curve, and returned."""
        self.losses.append(result.loss)
        if not log_now:
            return None
        mean = math.fsum(self.losses) / len(self.losses)
        self.losses.clear()
        self.logged.append(LoggedStep(self.step, mean, result.learning_rate, result.gradient_norm))
        return self.logged[-1]

    @property
    def best(self) -> Evaluation | None:
        """The best evaluation so far."""
        return next((row for row in self.evaluated if row.step == self.best_step), None)

    @property
    def evaluated_here(self) -> bool:
        """Whether the weights as they are were evaluated."""
        return bool(self.evaluated) and self.evaluated[-1].step == self.step

    def note_evaluation(self, loss: float, metric: float, name: str, min_gain: float = 0.0) -> bool:
        """Notes an evaluation of the weights as they are, and whether it is the best so far.

        Any gain makes it the best. What early stopping waits for is a gain of more than ``min_gain``.

        Args:
            loss: On the validation split.
            metric: On the validation split.
            name: The metric's name, which says whether more or less of it is better.
            min_gain: See ``train.early_stopping``.
        """
        sign = 1 if METRIC_TABLE[name].greater_is_better else -1
        gain = math.inf if self.best is None else sign * (metric - self.best.metric)
        self.evaluated.append(Evaluation(self.step, loss, metric))
        self.stale = 0 if gain > min_gain else self.stale + 1
        if gain > 0:
            self.best_step = self.step
        return gain > 0
