"""What a person sees of a run: a progress bar or lines, and live curves. Nothing of it can stop the run or change its result."""

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

from stages.train.order import Rows, chunks
from stages.train.progress import Evaluation, LoggedStep, Progress, StepResult
from tuneline.errors import ParamsError
from tuneline.paths import REPORTS

LIVE = REPORTS / "live"
SECONDS_BETWEEN_LINES = 10.0
Tracked = tuple[int, dict[str, float]]
"""A step, and values by name."""


def check_trackers(names: Sequence[str]) -> None:
    """Refuses a tracker that is not installed: accelerate would go on without it, and say nothing.

    Raises:
        ParamsError: Says what to install.
    """
    for name in names:
        if find_spec(name) is None:
            raise ParamsError(f"train.trackers: {name} is not installed.", f"pip install {name}, or take it out of train.trackers.")


@dataclass
class Throughput:
    """What was fed to the model since the process began, all processes together. Not part of a run's state.

    Attributes:
        samples: Examples.
        tokens: Real ones.
        places: Tokens with padding.
    """

    samples: int = 0
    tokens: int = 0
    places: int = 0

    def add(self, lengths: list[NDArray[np.int64]]) -> None:
        """Counts micro batches, given the lengths of their rows."""
        for micro_batch in lengths:
            self.samples += len(micro_batch)
            self.tokens += int(micro_batch.sum())
            self.places += len(micro_batch) * int(micro_batch.max(initial=0))

    @property
    def padding(self) -> float:
        """Share of the places that hold padding."""
        return 1 - self.tokens / self.places if self.places else 0.0


class Watch:
    """Shows a run on the main process.

    On a terminal that is a bar; in a log a line every few seconds. Curves go to the trackers named in ``train.trackers``;
    they are written anew when a run goes on, from what the checkpoint remembers, so that no step stands there twice.

    Args:
        accelerator: Of the run.
        lengths: Tokens of each row of the train split.
        micro_batch_size: Examples in one forward pass.
        metric: Name of the validation metric.
    """

    def __init__(self, accelerator: Accelerator, lengths: NDArray[np.int64], micro_batch_size: int, metric: str) -> None:
        self.throughput = Throughput()
        self._accelerator = accelerator
        self._lengths = lengths
        self._micro_batch_size = micro_batch_size
        self._metric = metric
        self._shown = accelerator.is_main_process
        self._bar: Any = None
        self._total = self._before = self._done = 0
        self._started = self._line_at = time.monotonic()

    @contextlib.contextmanager
    def watching(self, progress: Progress, total_steps: int) -> Iterator[None]:
        """Opens the bar and the trackers, and closes them whatever happens."""
        self._total, self._before, self._done = total_steps, progress.step, 0
        self._open_trackers(progress)
        self._started = self._line_at = time.monotonic()
        with quietly():
            self._bar = tqdm(total=total_steps, initial=progress.step, unit="step", disable=None if self._shown else True, leave=False)
        try:
            yield
        finally:
            with quietly():
                self._bar.close()
            for tracker in getattr(self._accelerator, "trackers", []):  # not end_training: that ends the process group too
                with quietly():
                    tracker.finish()

    @property
    def seconds(self) -> float:
        """Since the watch was opened."""
        return time.monotonic() - self._started

    def step(self, result: StepResult, rows: Rows, logged: LoggedStep | None) -> None:
        """Shows a step."""
        parts = chunks(rows, self._micro_batch_size, self._accelerator.num_processes)
        self.throughput.add([self._lengths[part] for part in parts])
        self._done += 1
        with quietly():
            self._bar.update()
            self._show(result)
        if logged is not None:
            self._track(self._of_step(logged))

    def evaluation(self, row: Evaluation, best: bool) -> None:
        """Shows an evaluation."""
        self.say(f"step {row.step}: validation loss {row.loss:.4f}, {self._metric} {row.metric:.4f}{' (best)' * best}")
        self._track(self._of_evaluation(row))

    def say(self, text: str) -> None:
        """Prints a line on the main process, above the bar where there is one."""
        if self._shown:
            with quietly():
                tqdm.write(f"train: {text}", file=sys.stdout)
                sys.stdout.flush()

    def _show(self, result: StepResult) -> None:
        words = (
            f"loss {result.loss:.4f}, lr {result.learning_rate:.3g}, {self.throughput.samples / self.seconds:.0f} samples/s, "
            f"{self.throughput.tokens / self.seconds:.0f} tokens/s, {self.throughput.padding:.1%} padding"
        )
        self._bar.set_postfix_str(words, refresh=False)
        if self._bar.disable and self._shown and time.monotonic() - self._line_at > SECONDS_BETWEEN_LINES:
            self._line_at = time.monotonic()
            rate = self.seconds / max(self._done, 1)
            left = rate * (self._total - self._before - self._done)
            self.say(f"step {self._before + self._done} of {self._total}: {words}, {left:.0f} s left")

    def _open_trackers(self, progress: Progress) -> None:
        if not self._accelerator.log_with:
            return
        if self._shown:
            shutil.rmtree(LIVE, ignore_errors=True)
            LIVE.mkdir(parents=True, exist_ok=True)
        options = {"dvclive": {"dir": str(LIVE), "save_dvc_exp": False, "dvcyaml": False}}
        self._accelerator.init_trackers("train", init_kwargs=options)
        if self._shown:
            with quietly():
                self._replay([*map(self._of_step, progress.logged), *map(self._of_evaluation, progress.evaluated)])

    def _replay(self, rows: Sequence[Tracked]) -> None:
        """Gives the trackers what a checkpoint remembers, which may be thousands of rows.

        DVCLive takes 9 ms to end a step, because it writes a summary and more; here it ends one for all of them.
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

    def _track(self, row: Tracked) -> None:
        with quietly():
            self._accelerator.log(row[1], step=row[0])

    def _of_step(self, row: LoggedStep) -> Tracked:
        return row.step, {"loss": row.loss, "learning_rate": row.learning_rate, "gradient_norm": row.gradient_norm}

    def _of_evaluation(self, row: Evaluation) -> Tracked:
        return row.step, {"validation_loss": row.loss, f"validation_{self._metric}": row.metric}


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Lets nothing out that writing for people may raise: a closed pipe, a full disk, a tracker's own fault."""
    with contextlib.suppress(Exception):
        yield
