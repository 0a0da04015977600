"""Progress of a run: its step, curves and best evaluation, saved in every checkpoint; and its display."""

import contextlib
import json
import math
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from accelerate import Accelerator
from tqdm import tqdm

from stages.train.data import BatchLoader, split_into_micro_batches
from stages.train.devices import LIVE
from tuneline.core.arrays import RowNumbers
from tuneline.runtime.terminal import visible

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
        layouts: Layouts of the processes and machines that trained, by the step from which they did. With
            more than one, the bytes of the model are not promised to repeat.
        micro_batch_size: Size of the micro-batches; smaller than the parameter if memory ran out.
        requested_micro_batch_size: The parameter.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    logged: list[TrainingStep] = field(default_factory=list)
    evaluated: list[Evaluation] = field(default_factory=list)
    best_step: int = 0
    evaluations_without_improvement: int = 0
    stopped_early: bool = False
    layouts: dict[str, str] = field(default_factory=dict)
    micro_batch_size: int = 0
    requested_micro_batch_size: int = 0

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

    def begin(self, layout: str) -> str | None:
        """Go on with a layout; return the last one if it was another one."""
        # one that began at this step has trained nothing
        self.layouts = {step: value for step, value in self.layouts.items() if int(step) < self.step}
        last = next(reversed(self.layouts.values()), layout)
        if last == layout and self.layouts:
            return None
        self.layouts[str(self.step)] = layout
        return None if last == layout else last

    @property
    def best(self) -> Evaluation | None:
        """Best evaluation so far."""
        for evaluation in self.evaluated:
            if evaluation.step == self.best_step:
                return evaluation
        return None

    def record_step(self, result: TrainingStep, log_now: bool) -> TrainingStep | None:
        """Record a step. With ``log_now``, add a row to the training curve and return it."""
        self.losses.append(result.loss)
        if not log_now:
            return None
        mean = math.fsum(self.losses) / len(self.losses)
        self.losses.clear()
        self.logged.append(replace(result, loss=mean))
        return self.logged[-1]

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
    """Logger of the main process: a progress bar on a terminal, otherwise a line every few seconds; curves.

    Curves go to DVCLive. A resumed run rewrites them from its checkpoint, so that each step is logged once.
    ``samples``, ``tokens`` and ``positions`` count what all processes have trained on since the start;
    ``positions`` counts padding, too.
    """

    def __init__(self, accelerator: Accelerator, loader: BatchLoader, metric: str) -> None:
        self.samples = self.tokens = self.positions = 0
        self._processes = accelerator.num_processes
        self._loader = loader
        self._metric = metric
        self._enabled = accelerator.is_main_process
        self._bar: Any = None
        self._live: Any = None
        self._started = self._last_line = time.monotonic()

    @contextlib.contextmanager
    def open(self, progress: TrainingProgress, total_steps: int) -> Iterator[None]:
        """Open the progress bar and the curves, and close them on exit, also after an error."""
        if self._enabled:
            self._open_curves(progress)
        # after the curves, which may be long
        self._started = self._last_line = time.monotonic()
        hidden = None if self._enabled else True  # None: shown on a terminal only
        self._bar = tqdm(total=total_steps, initial=progress.step, unit="step", disable=hidden, leave=False)
        try:
            yield
        finally:
            with suppress_logging_errors():
                self._bar.close()
            if self._live is not None:
                with suppress_logging_errors():
                    self._live.end()

    @property
    def seconds(self) -> float:
        """Seconds since the logger was opened."""
        return time.monotonic() - self._started

    @property
    def padding(self) -> float:
        """Share of positions that hold padding."""
        return 1 - self.tokens / max(self.positions, 1)

    def log_step(
        self, result: TrainingStep, batch: RowNumbers, micro_batch_size: int, logged: TrainingStep | None
    ) -> None:
        """Log an optimizer step; ``logged`` is its row of the training curve, if it has one."""
        windows = self._loader.windows(batch)
        for rows in split_into_micro_batches(batch, micro_batch_size, self._processes, windows):
            lengths = self._loader.split.input_lengths_of(rows)
            self.samples += len(rows)
            self.tokens += int(lengths.sum())
            self.positions += len(lengths) * self._loader.width(rows)

        with suppress_logging_errors():
            self._show(result)
        if logged is not None:
            self._track(_step_values(logged), logged.step)

    def log_evaluation(self, row: Evaluation, best: bool) -> None:
        """Log an evaluation."""
        message = f"step {row.step}: validation loss {row.loss:.4f}, {self._metric} {row.metric:.4f}"
        if best:
            message += " (best)"
        self.info(message)
        self._track(self._evaluation_values(row), row.step)

    def info(self, message: str) -> None:
        """Print a line on the main process, above the progress bar if there is one."""
        if self._enabled:
            with suppress_logging_errors():
                tqdm.write(visible(f"train: {message}"), file=sys.stdout)
                sys.stdout.flush()

    def _show(self, result: TrainingStep) -> None:
        """Show a step in the bar, and without a bar now and then in a line."""
        self._bar.update()
        status = (
            f"loss {result.loss:.4f}, lr {result.learning_rate:.3g},"
            f" {self.samples / self.seconds:.0f} samples/s, {self.tokens / self.seconds:.0f} tokens/s,"
            f" {self.padding:.1%} padding"
        )
        self._bar.set_postfix_str(status, refresh=False)

        line_is_due = time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES
        if self._bar.disable and line_is_due:
            self._last_line = time.monotonic()
            self.info(f"step {result.step} of {self._bar.total}: {status}")

    def _open_curves(self, progress: TrainingProgress) -> None:
        """Open the curves, and write them so far: all rows by one ``next_step``, which takes 9 ms."""
        shutil.rmtree(LIVE, ignore_errors=True)
        try:
            from dvclive.live import Live

            self._live = Live(str(LIVE), save_dvc_exp=False, dvcyaml=False)
            for step in progress.logged:
                self._log(_step_values(step), step.step)
            for row in progress.evaluated:
                self._log(self._evaluation_values(row), row.step)
            if progress.logged:
                self._live.next_step()
        except Exception as error:  # DVCLive 3.49, for example, in a git repository without a commit
            self.info(f"WARNING: there will be no live curves in {LIVE}: {error}")
            self._live = None

    def _track(self, values: dict[str, float], step: int) -> None:
        if self._live is not None:
            with suppress_logging_errors():
                self._log(values, step)
                self._live.next_step()

    def _log(self, values: dict[str, float], step: int) -> None:
        self._live.step = step
        for name, value in values.items():
            self._live.log_metric(name, value)

    def _evaluation_values(self, row: Evaluation) -> dict[str, float]:
        return {"validation_loss": row.loss, f"validation_{self._metric}": row.metric}


def _step_values(row: TrainingStep) -> dict[str, float]:
    return {"loss": row.loss, "learning_rate": row.learning_rate, "gradient_norm": row.gradient_norm}


def suppress_logging_errors() -> contextlib.suppress:
    """Ignore any error of logging: a closed pipe, a full disk, a bug of DVCLive."""
    return contextlib.suppress(Exception)
