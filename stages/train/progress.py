"""Progress of a run: its step, curves and best evaluation, saved in every checkpoint; and its display."""

import contextlib
import json
import math
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray
from tqdm import tqdm

from stages.train.data import BatchLoader, Rows, split_into_micro_batches
from stages.train.devices import LIVE
from tuneline.core.training_devices import TrainingSegment
from tuneline.runtime.terminal import visible

_JSON_KEYS = {"evaluations_without_improvement": "stale"}
"""Attributes whose key in ``progress.json`` differs, because the format of checkpoints stays stable."""


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
        segments: Parts of the run, each with one layout (processes, micro-batches, threads) and kind of
            machine: with another one, sums are rounded differently.
        requested_micro_batch_size: The parameter. The last segment has less if memory ran out.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    logged: list[TrainingStep] = field(default_factory=list)
    evaluated: list[Evaluation] = field(default_factory=list)
    best_step: int = 0
    evaluations_without_improvement: int = 0
    stopped_early: bool = False
    segments: list[TrainingSegment] = field(default_factory=list)
    requested_micro_batch_size: int = 0

    def write(self, path: Path) -> None:
        """Write the progress.

        Floats are read back exactly: JSON holds the shortest decimal of the same float.
        """
        values = {_JSON_KEYS.get(name, name): value for name, value in asdict(self).items()}
        path.write_text(json.dumps(values, default=TrainingSegment.model_dump), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file written by ``write``."""
        # the reverse of ``write``: names of attributes, then their classes
        values = json.loads(path.read_text(encoding="utf-8"))
        values |= {name: values.pop(key) for name, key in _JSON_KEYS.items()}
        values["logged"] = [TrainingStep(**row) for row in values["logged"]]
        values["evaluated"] = [Evaluation(**row) for row in values["evaluated"]]
        values["segments"] = [TrainingSegment(**segment) for segment in values["segments"]]
        return cls(**values)

    def begin_segment(self, segment: TrainingSegment) -> TrainingSegment | None:
        """Go on with a layout. Return the last segment if it had another one."""
        # a segment that began at the same step has trained nothing
        self.segments = [earlier for earlier in self.segments if earlier.step < segment.step]
        if not self.segments:
            self.segments.append(segment)
            return None
        last = self.segments[-1]
        if last.has_layout_of(segment):
            return None
        self.segments.append(segment)
        return last

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


SECONDS_BETWEEN_LINES = 10.0
TrackedRow = tuple[int, dict[str, float]]
"""Step, and values by name."""


@dataclass
class Throughput:
    """Data trained on since the process started, summed over all processes.

    Not part of a run's saved state.
    """

    samples: int = 0
    tokens: int = 0
    positions: int = 0

    def add(self, samples: int, lengths: NDArray[np.int64], width: int) -> None:
        """Count a micro-batch of examples.

        ``lengths`` are the tokens of its rows, or of their windows, and ``width`` those to which they are
        padded.
        """
        self.samples += samples
        self.tokens += int(lengths.sum())
        self.positions += len(lengths) * width

    @property
    def padding(self) -> float:
        """Share of positions that hold padding."""
        if not self.positions:
            return 0.0
        return 1 - self.tokens / self.positions


class TrainingLogger:
    """Logger of the main process: a progress bar on a terminal, otherwise a line every few seconds; curves.

    Curves go to the trackers named in ``run.trackers``. A resumed run rewrites them from its checkpoint, so
    that each step is logged once.
    """

    def __init__(self, accelerator: Accelerator, loader: BatchLoader, metric: str) -> None:
        self.throughput = Throughput()
        self._accelerator = accelerator
        self._loader = loader
        self._metric = metric
        self._enabled = accelerator.is_main_process
        self._bar: Any = None
        self._total = 0
        self._resumed_step = 0
        self._steps_done = 0
        self._started = self._last_line = time.monotonic()

    @contextlib.contextmanager
    def open(self, progress: TrainingProgress, total_steps: int) -> Iterator[None]:
        """Open the progress bar and the trackers, and close them on exit, also after an error."""
        self._total = total_steps
        self._resumed_step = progress.step
        self._steps_done = 0
        self._open_trackers(progress)
        # after the trackers, which may replay a long curve
        self._started = self._last_line = time.monotonic()
        with suppress_logging_errors():
            self._bar = tqdm(
                total=total_steps,
                initial=progress.step,
                unit="step",
                disable=None if self._enabled else True,  # None: on a terminal only
                leave=False,
            )
        try:
            yield
        finally:
            with suppress_logging_errors():
                self._bar.close()
            # not end_training: it also ends the process group
            for tracker in getattr(self._accelerator, "trackers", []):
                with suppress_logging_errors():
                    tracker.finish()

    @property
    def seconds(self) -> float:
        """Seconds since the logger was opened."""
        return time.monotonic() - self._started

    def log_step(
        self, result: TrainingStep, batch: Rows, rows_at_once: int, logged: TrainingStep | None
    ) -> None:
        """Log an optimizer step; ``logged`` is its row of the training curve, if it has one."""
        processes = self._accelerator.num_processes
        windows = self._loader.windows(batch)
        for rows in split_into_micro_batches(batch, rows_at_once, processes, windows):
            lengths = self._loader.split.input_lengths_of(rows)
            self.throughput.add(len(rows), lengths, self._loader.width(rows))
        self._steps_done += 1

        with suppress_logging_errors():
            self._bar.update()
            self._show(result)
        if logged is not None:
            self._track(self._step_row(logged))

    def log_evaluation(self, row: Evaluation, best: bool) -> None:
        """Log an evaluation."""
        message = f"step {row.step}: validation loss {row.loss:.4f}, {self._metric} {row.metric:.4f}"
        if best:
            message += " (best)"
        self.info(message)
        self._track(self._evaluation_row(row))

    def info(self, message: str) -> None:
        """Print a line on the main process, above the progress bar if there is one."""
        if self._enabled:
            with suppress_logging_errors():
                tqdm.write(visible(f"train: {message}"), file=sys.stdout)
                sys.stdout.flush()

    def _show(self, result: TrainingStep) -> None:
        """Show a step in the bar, and without a bar now and then in a line."""
        samples_per_second = self.throughput.samples / self.seconds
        tokens_per_second = self.throughput.tokens / self.seconds
        status = (
            f"loss {result.loss:.4f}, lr {result.learning_rate:.3g}, {samples_per_second:.0f} samples/s,"
            f" {tokens_per_second:.0f} tokens/s, {self.throughput.padding:.1%} padding"
        )
        self._bar.set_postfix_str(status, refresh=False)

        line_is_due = time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES
        if self._bar.disable and self._enabled and line_is_due:
            self._last_line = time.monotonic()
            step = self._resumed_step + self._steps_done
            seconds_per_step = self.seconds / max(self._steps_done, 1)
            seconds_left = seconds_per_step * (self._total - step)
            self.info(f"step {step} of {self._total}: {status}, {seconds_left:.0f} s left")

    def _open_trackers(self, progress: TrainingProgress) -> None:
        """Open the trackers, and send them the curves so far."""
        if not self._accelerator.log_with:
            return
        if self._enabled:
            shutil.rmtree(LIVE, ignore_errors=True)
            LIVE.mkdir(parents=True, exist_ok=True)

        options = {"dvclive": {"dir": str(LIVE), "save_dvc_exp": False, "dvcyaml": False}}
        try:
            self._accelerator.init_trackers("train", init_kwargs=options)
        except Exception as error:  # DVCLive 3.49, for example, in a git repository without a commit
            self.info(f"WARNING: there will be no live curves in {LIVE}: {error}")
            self._accelerator.trackers.clear()

        if self._enabled:
            rows = [self._step_row(row) for row in progress.logged]
            rows += [self._evaluation_row(row) for row in progress.evaluated]
            with suppress_logging_errors():
                self._replay(rows)

    def _replay(self, rows: Sequence[TrackedRow]) -> None:
        """Send the curves of a checkpoint, possibly thousands of rows, to the trackers.

        DVCLive 3.49 needs 9 ms per ``next_step``, because that writes a summary too. So all rows share one
        call.
        """
        for tracker in self._accelerator.trackers:
            if tracker.name != "dvclive":
                for step, values in rows:
                    tracker.log(values, step=step)
                continue
            live = tracker.tracker
            for step, values in rows:
                live.step = step
                for name, value in values.items():
                    live.log_metric(name, value)
            if rows:
                live.next_step()

    def _track(self, row: TrackedRow) -> None:
        step, values = row
        with suppress_logging_errors():
            self._accelerator.log(values, step=step)

    def _step_row(self, row: TrainingStep) -> TrackedRow:
        values = {
            "loss": row.loss,
            "learning_rate": row.learning_rate,
            "gradient_norm": row.gradient_norm,
        }
        return row.step, values

    def _evaluation_row(self, row: Evaluation) -> TrackedRow:
        values = {"validation_loss": row.loss, f"validation_{self._metric}": row.metric}
        return row.step, values


def suppress_logging_errors() -> contextlib.suppress:
    """Ignore any error of logging: a closed pipe, a full disk, a bug of a tracker."""
    return contextlib.suppress(Exception)
