"""Progress bar, log lines and live curves of a run. A failure to log neither stops the run nor changes its result."""

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from accelerate import Accelerator
from numpy.typing import NDArray
from tqdm import tqdm

from stages.train.data import Rows, split_into_micro_batches
from stages.train.progress import Evaluation, LoggedStep, Progress, StepResult
from tuneline.batches import TokenizedRows
from tuneline.errors import ParamsError
from tuneline.paths import REPORTS
from tuneline.terminal import visible

LIVE = REPORTS / "live"
SECONDS_BETWEEN_LINES = 10.0
TrackedRow = tuple[int, dict[str, float]]
"""Step, and values by name."""


def check_trackers(names: Sequence[str]) -> None:
    """Refuse a tracker that is not installed: accelerate would skip it without a warning.

    Raises:
        ParamsError: A tracker is not installed; the hint has the command that installs it.
    """
    for name in names:
        if find_spec(name) is None:
            raise ParamsError(f"run.trackers: {name} is not installed.", f"pip install {name}, or remove it from run.trackers.")


@dataclass
class Throughput:
    """Data trained on since the process started, summed over all processes. Not part of a run's saved state.

    Attributes:
        samples: Number of examples.
        tokens: Number of tokens without padding.
        positions: Number of tokens with padding.
    """

    samples: int = 0
    tokens: int = 0
    positions: int = 0

    def add(self, micro_batches: Sequence[NDArray[np.int64]]) -> None:
        """Count micro-batches, given the lengths of their rows."""
        for lengths in micro_batches:
            self.samples += len(lengths)
            self.tokens += int(lengths.sum())
            self.positions += len(lengths) * int(lengths.max(initial=0))

    @property
    def padding(self) -> float:
        """Share of positions that hold padding."""
        return 1 - self.tokens / self.positions if self.positions else 0.0


class TrainingLogger:
    """Logger of the main process: a progress bar on a terminal, otherwise a line every few seconds; and live curves.

    Curves go to the trackers named in ``run.trackers``. A resumed run rewrites them from its checkpoint, so that each step
    is logged once.

    Args:
        accelerator: Accelerator of the run.
        rows: The train split, for the lengths of its rows.
        micro_batch_size: Examples in one forward pass.
        metric: Name of the validation metric.
    """

    def __init__(self, accelerator: Accelerator, rows: TokenizedRows, micro_batch_size: int, metric: str) -> None:
        self.throughput = Throughput()
        self._accelerator = accelerator
        self._rows = rows
        self.micro_batch_size = micro_batch_size
        self._metric = metric
        self._enabled = accelerator.is_main_process
        self._bar: Any = None
        self._total = self._resumed_step = self._steps_done = 0
        self._started = self._last_line = time.monotonic()

    @contextlib.contextmanager
    def open(self, progress: Progress, total_steps: int) -> Iterator[None]:
        """Open the progress bar and the trackers, and close them on exit, also after an error."""
        self._total, self._resumed_step, self._steps_done = total_steps, progress.step, 0
        self._open_trackers(progress)
        self._started = self._last_line = time.monotonic()
        with suppress_logging_errors():
            self._bar = tqdm(total=total_steps, initial=progress.step, unit="step", disable=None if self._enabled else True, leave=False)
        try:
            yield
        finally:
            with suppress_logging_errors():
                self._bar.close()
            for tracker in getattr(self._accelerator, "trackers", []):  # not end_training: it also ends the process group
                with suppress_logging_errors():
                    tracker.finish()

    @property
    def seconds(self) -> float:
        """Seconds since the logger was opened."""
        return time.monotonic() - self._started

    def log_step(self, result: StepResult, batch: Rows, logged: LoggedStep | None) -> None:
        """Log an optimizer step; ``logged`` is its row of the training curve, if it has one."""
        micro_batches = split_into_micro_batches(batch, self.micro_batch_size, self._accelerator.num_processes)
        self.throughput.add([self._rows.lengths_of(rows) for rows in micro_batches])
        self._steps_done += 1
        with suppress_logging_errors():
            self._bar.update()
            self._show(result)
        if logged is not None:
            self._track(self._step_row(logged))

    def log_evaluation(self, row: Evaluation, best: bool) -> None:
        """Log an evaluation."""
        self.info(f"step {row.step}: validation loss {row.loss:.4f}, {self._metric} {row.metric:.4f}{' (best)' * best}")
        self._track(self._evaluation_row(row))

    def info(self, message: str) -> None:
        """Print a line on the main process, above the progress bar if there is one."""
        if self._enabled:
            with suppress_logging_errors():
                tqdm.write(visible(f"train: {message}"), file=sys.stdout)
                sys.stdout.flush()

    def _show(self, result: StepResult) -> None:
        status = (
            f"loss {result.loss:.4f}, lr {result.learning_rate:.3g}, {self.throughput.samples / self.seconds:.0f} samples/s, "
            f"{self.throughput.tokens / self.seconds:.0f} tokens/s, {self.throughput.padding:.1%} padding"
        )
        self._bar.set_postfix_str(status, refresh=False)
        if self._bar.disable and self._enabled and time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            step = self._resumed_step + self._steps_done
            seconds_left = self.seconds / max(self._steps_done, 1) * (self._total - step)
            self.info(f"step {step} of {self._total}: {status}, {seconds_left:.0f} s left")

    def _open_trackers(self, progress: Progress) -> None:
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
            with suppress_logging_errors():
                self._replay([*map(self._step_row, progress.logged), *map(self._evaluation_row, progress.validation_curve)])

    def _replay(self, rows: Sequence[TrackedRow]) -> None:
        """Send the curves of a checkpoint, possibly thousands of rows, to the trackers.

        DVCLive 3.49 needs 9 ms per ``next_step``, because that writes a summary too. So all rows share one call.
        """
        for tracker in self._accelerator.trackers:
            if tracker.name != "dvclive":
                for step, values in rows:
                    tracker.log(values, step=step)
                continue
            live = tracker.tracker
            for live.step, values in rows:
                for name, value in values.items():
                    live.log_metric(name, value)
            if rows:
                live.next_step()

    def _track(self, row: TrackedRow) -> None:
        with suppress_logging_errors():
            self._accelerator.log(row[1], step=row[0])

    def _step_row(self, row: LoggedStep) -> TrackedRow:
        return row.step, {"loss": row.loss, "learning_rate": row.learning_rate, "gradient_norm": row.gradient_norm}

    def _evaluation_row(self, row: Evaluation) -> TrackedRow:
        return row.step, {"validation_loss": row.loss, f"validation_{self._metric}": row.metric}


@contextlib.contextmanager
def suppress_logging_errors() -> Iterator[None]:
    """Ignore any error of logging: a closed pipe, a full disk, a bug of a tracker."""
    with contextlib.suppress(Exception):
        yield
