"""Progress of a run: its step, curves and best evaluation, saved in every checkpoint; and its lines."""

import contextlib
import json
import math
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from accelerate import Accelerator

from tuneline.core.runtime.terminal import say
from tuneline.core.stage.arrays import RowNumbers
from tuneline.model.tokens.tokenized_splits import TokenizedSplit

SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True)
class TrainingStep:
    """Result of an optimizer step, or a row of the training curve.

    Attributes:
        step: Number of the step, from 1.
        loss: Mean over the examples of the batch; in the curve, the mean of the steps since the previous row.
        learning_rate: Learning rate of the step.
        gradient_norm: Norm of the gradients before clipping; 0 if fp16 gradients overflowed and the optimizer
            skipped the step.
    """

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
class TrainingProgress:
    """State of a run besides weights, optimizer and schedule.

    Epoch and position in the epoch follow from ``step``, because the order of examples is a function of
    (seed, epoch).

    Attributes:
        step: Batches trained, which is optimizer steps done (a step that fp16 skipped counts too).
        losses: Losses of the steps since the last row of the training curve.
        best_step: Step of the best evaluation; 0 before the first.
        evaluations_without_improvement: Evaluations since the last gain, for early stopping.
        layout: Layout of the processes and the machine that trained last.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    logged: list[TrainingStep] = field(default_factory=list)
    evaluated: list[Evaluation] = field(default_factory=list)
    best_step: int = 0
    evaluations_without_improvement: int = 0
    stopped_early: bool = False
    layout: str = ""

    def write(self, path: Path) -> None:
        """Write the progress.

        Floats are read back exactly: JSON holds the shortest decimal of the same float.
        """
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file written by ``write``."""
        values = json.loads(path.read_text(encoding="utf-8"))
        values["logged"] = [TrainingStep(**row) for row in values["logged"]]
        values["evaluated"] = [Evaluation(**row) for row in values["evaluated"]]
        return cls(**values)

    @property
    def best(self) -> Evaluation | None:
        """Best evaluation so far."""
        for evaluation in self.evaluated:
            if evaluation.step == self.best_step:
                return evaluation
        return None

    def record_step(self, result: TrainingStep, log_now: bool) -> None:
        """Record a step. With ``log_now``, add a row to the training curve."""
        self.losses.append(result.loss)
        if log_now:
            mean = math.fsum(self.losses) / len(self.losses)
            self.losses.clear()
            self.logged.append(replace(result, loss=mean))

    def record_evaluation(self, row: Evaluation, greater_is_better: bool, min_gain: float = 0.0) -> bool:
        """Record an evaluation of the current weights; return True if it is the best so far.

        Any gain makes an evaluation the best, and of equal metrics the lower loss: on few rows, a metric such
        as the accuracy repeats while the model becomes surer. Early stopping counts only a gain of more than
        ``min_gain``.
        """
        best = self.best
        if best is None:
            gain = math.inf
            improved = True
        else:
            gain = row.metric - best.metric
            if not greater_is_better:
                gain = -gain
            improved = gain > 0 or (gain == 0 and row.loss < best.loss)

        self.evaluated.append(row)
        if improved:
            self.best_step = self.step
        if gain > min_gain:
            self.evaluations_without_improvement = 0
        else:
            self.evaluations_without_improvement += 1
        return improved


class TrainingLogger:
    """Prints the progress in the main process: a line every few seconds, and one for each evaluation.

    ``samples`` and ``tokens`` count what all processes have trained on since ``start``.
    """

    def __init__(self, accelerator: Accelerator, split: TokenizedSplit, metric: str) -> None:
        self.samples = 0
        self.tokens = 0
        self._split = split
        self._metric = metric
        self._enabled = accelerator.is_main_process
        self.start()

    def start(self) -> None:
        """Count the seconds from here on."""
        self._started = time.monotonic()
        self._last_line = self._started

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def log_step(self, result: TrainingStep, total_steps: int, batch: RowNumbers) -> None:
        """Count an optimizer step, and show it if the last line is some seconds old."""
        self.samples += len(batch)
        self.tokens += int(self._split.lengths_of(batch).sum())
        if time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self.info(
                f"step {result.step} of {total_steps}: loss {result.loss:.4f}, lr {result.learning_rate:.3g},"
                f" {self.samples / self.seconds:.0f} samples/s, {self.tokens / self.seconds:.0f} tokens/s"
            )

    def log_evaluation(self, row: Evaluation, best: bool) -> None:
        """Log an evaluation."""
        message = f"step {row.step}: validation loss {row.loss:.4f}, {self._metric} {row.metric:.4f}"
        if best:
            message += " (best)"
        self.info(message)

    def info(self, message: str) -> None:
        """Print a line on the main process. A closed pipe or a full disk ends no training."""
        if self._enabled:
            with contextlib.suppress(OSError):
                say(f"train: {message}")
