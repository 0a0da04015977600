"""Progress of a run: step, curves and best evaluation. Saved as JSON in every checkpoint."""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from tuneline.records.provenance import TrainingSegment

_JSON_KEYS = {"evaluations_without_improvement": "stale"}
"""Attributes whose key in ``progress.json`` differs, because the format of checkpoints stays stable."""


@dataclass(frozen=True)
class StepResult:
    """Result of one optimizer step.

    Attributes:
        loss: Mean loss over the examples of the batch.
        learning_rate: Learning rate of the step.
        gradient_norm: Norm before clipping; 0 if fp16 gradients overflowed and the optimizer skipped the step.
    """

    loss: float
    learning_rate: float
    gradient_norm: float


@dataclass(frozen=True)
class LoggedStep:
    """Row of the training curve: ``loss`` is the mean since the previous row, the other values are those of this step."""

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float


@dataclass(frozen=True)
class Evaluation:
    """Row of the validation curve."""

    step: int
    loss: float
    metric: float


@dataclass
class Progress:
    """State of a run besides weights, optimizer and schedule.

    Epoch and position in the epoch follow from ``step``, because the order of examples is a function of (seed, epoch).

    Attributes:
        step: Batches trained, which is optimizer steps done (a step that fp16 skipped counts too).
        losses: Losses of the steps since the last row of the training curve.
        logged: Training curve.
        baseline: Evaluation before the first step; ``None`` until then. It is in the curve, and no candidate for the best.
        evaluated: Evaluations of trained weights.
        best_step: Step of the best evaluation; 0 before the first.
        evaluations_without_improvement: Evaluations since the last gain, for early stopping.
        stopped_early: True if early stopping ended the run.
        segments: Parts of the run, each with one layout: processes, micro-batches, threads. Others round differently.
        requested_micro_batch_size: The parameter. The last segment has less if memory ran out.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    logged: list[LoggedStep] = field(default_factory=list)
    baseline: Evaluation | None = None
    evaluated: list[Evaluation] = field(default_factory=list)
    best_step: int = 0
    evaluations_without_improvement: int = 0
    stopped_early: bool = False
    segments: list[TrainingSegment] = field(default_factory=list)
    requested_micro_batch_size: int = 0

    def write(self, path: Path) -> None:
        """Write the progress. Floats are read back exactly: JSON holds the shortest decimal of the same float."""
        values = {_JSON_KEYS.get(name, name): value for name, value in asdict(self).items()}
        path.write_text(json.dumps(values, default=TrainingSegment.model_dump), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file written by ``write``."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values |= {name: values.pop(key) for name, key in _JSON_KEYS.items()}
        values["logged"] = [LoggedStep(**row) for row in values["logged"]]
        values["baseline"] = Evaluation(**values["baseline"]) if values["baseline"] else None
        values["evaluated"] = [Evaluation(**row) for row in values["evaluated"]]
        values["segments"] = [TrainingSegment(**segment) for segment in values["segments"]]
        return cls(**values)

    def begin_segment(self, segment: TrainingSegment) -> TrainingSegment | None:
        """Go on with a layout. Return the last segment if it had another one."""
        self.segments = [earlier for earlier in self.segments if earlier.step < segment.step]  # others have trained nothing
        last = self.segments[-1] if self.segments else None
        if last is not None and last.has_layout_of(segment):
            return None
        self.segments.append(segment)
        return last

    @property
    def validation_curve(self) -> list[Evaluation]:
        """All evaluations."""
        return [*([self.baseline] if self.baseline else []), *self.evaluated]

    @property
    def best(self) -> Evaluation | None:
        """Best evaluation so far."""
        return next((row for row in self.evaluated if row.step == self.best_step), None)

    @property
    def is_evaluated(self) -> bool:
        """True if the weights of the current step were evaluated."""
        return bool(self.evaluated) and self.evaluated[-1].step == self.step

    def record_step(self, result: StepResult, log_now: bool) -> LoggedStep | None:
        """Record a step. With ``log_now``, add a row to the training curve and return it."""
        self.losses.append(result.loss)
        if not log_now:
            return None
        mean = math.fsum(self.losses) / len(self.losses)
        self.losses.clear()
        self.logged.append(LoggedStep(self.step, mean, result.learning_rate, result.gradient_norm))
        return self.logged[-1]

    def record_evaluation(self, row: Evaluation, greater_is_better: bool, min_gain: float = 0.0) -> bool:
        """Record an evaluation of the current weights; return True if it is the best so far.

        Any gain makes an evaluation the best. Early stopping counts only a gain of more than ``min_gain``.

        Args:
            row: The evaluation.
            greater_is_better: False if a lower metric is better.
            min_gain: ``train.early_stopping.min_gain``.
        """
        sign = 1 if greater_is_better else -1
        gain = math.inf if self.best is None else sign * (row.metric - self.best.metric)
        self.evaluated.append(row)
        self.evaluations_without_improvement = 0 if gain > min_gain else self.evaluations_without_improvement + 1
        if gain > 0:
            self.best_step = self.step
        return gain > 0
