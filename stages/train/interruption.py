"""Why a training ends early: a signal, after which all processes save a checkpoint; or a lost machine."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

import torch
from accelerate import Accelerator
from torch import distributed
from torch.distributed import DistError

from stages.train.devices import several_machines
from stages.train.launch import INTERRUPTED, resume_hint
from tuneline.paths import REPORTS
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import say

NOTE = REPORTS / "interrupted" / "train.json"
"""File that exists from an interruption until the resumed run ends.

accelerate and DVC do not pass exit codes on; this file remains.
"""
PAUSE_AT_STEP = "TUNELINE_PAUSE_AT_STEP"
"""Environment variable with a number of optimizer steps, after which the training ends as after SIGTERM.

It publishes nothing, also if that was its last step.
"""


class TrainingInterrupted(Exception):  # noqa: N818 - a requested stop, not an error
    """A signal, or ``PAUSE_AT_STEP``, stops the training.

    Attributes:
        signal: Name of the signal, or ``PAUSE_AT_STEP``.
        step: Optimizer steps done.
        steps: Optimizer steps of the whole run.
        checkpoint: Checkpoint of this step.
        best: Best evaluation so far: ``metric``, its ``value`` and its ``step``.
    """

    def __init__(
        self,
        signal_name: str,
        step: int = 0,
        steps: int = 0,
        checkpoint: Path | None = None,
        best: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            f"interrupted by {signal_name} after step {step} of {steps}; the checkpoint is {checkpoint}. Run"
            " `dvc repro` to resume from it."
        )
        self.signal = signal_name
        self.step = step
        self.steps = steps
        self.checkpoint = checkpoint
        self.best = best


class Interruption:
    """Context that records SIGTERM and SIGINT, as ``signal``, instead of ending the process.

    The loop reads it, and stops where its state is consistent. A launcher may forward a signal that has
    reached this process already; the second changes nothing. Python sets handlers in the main thread only: in
    other threads (notebooks, for example) signals keep their default effect.
    """

    def __init__(self) -> None:
        self.signal: str | None = None
        self._previous: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Self:
        """Set the handlers."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the previous handlers."""
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = signal.Signals(number).name


class Coordinator:
    """Decisions that all processes take together: stop now, save now. One process decides for all.

    The flags are reduced on the CPU (gloo) even where gradients use NCCL, so that a check never waits for the
    device.
    """

    def __init__(
        self, accelerator: Accelerator, interruption: Interruption, checkpoint_minutes: float | None
    ) -> None:
        self._single_process = accelerator.num_processes == 1
        self._process_group = None  # the default one, which uses gloo on the CPU
        if not self._single_process and accelerator.device.type != "cpu":
            self._process_group = distributed.new_group(backend="gloo")
        self._interruption = interruption
        self._pause_at = pause_step(os.environ.get(PAUSE_AT_STEP))
        self._checkpoint_minutes = checkpoint_minutes
        self._last_checkpoint = time.monotonic()

    def check_pause(self, step: int, *, finished: bool) -> None:
        """Stop after the step that ``PAUSE_AT_STEP`` names, or after the last one if that is earlier."""
        if self._pause_at is not None and (finished or step >= self._pause_at):
            raise TrainingInterrupted(PAUSE_AT_STEP)

    def check_interruption(self) -> None:
        """Stop if a signal arrived in any process.

        Every process must call this equally often, where its state is consistent.
        """
        if self._any_process(self._interruption.signal is not None):
            raise TrainingInterrupted(self._interruption.signal or "a signal to another process")

    def checkpoint_time_elapsed(self) -> bool:
        """Return True if the time between checkpoints has elapsed in any process."""
        if self._checkpoint_minutes is None:
            return False
        seconds = time.monotonic() - self._last_checkpoint
        return self._any_process(seconds >= self._checkpoint_minutes * 60)

    def restart_checkpoint_timer(self) -> None:
        """Start measuring the time to the next checkpoint."""
        self._last_checkpoint = time.monotonic()

    def _any_process(self, here: bool) -> bool:
        """Return True in every process if ``here`` is True in one of them."""
        if self._single_process:
            return here
        flag = torch.tensor([int(here)])
        # every process gets the maximum of all flags
        distributed.all_reduce(flag, distributed.ReduceOp.MAX, group=self._process_group)
        return bool(flag)


def pause_step(value: str | None) -> int | None:
    """Return the value of ``PAUSE_AT_STEP``; ``None`` if it is not set or empty."""
    if not value:
        return None
    if not value.isdecimal() or int(value) == 0:
        raise StageError(
            f"{PAUSE_AT_STEP} is {value!r}.", "Set it to a number of optimizer steps, 1 or more, or unset it."
        )
    return int(value)


def clear_note() -> None:
    """Remove ``NOTE``, if it exists."""
    NOTE.unlink(missing_ok=True)


def exit_without_cleanup(code: int) -> NoReturn:
    """Exit without destroying Python objects, which can deadlock after a gloo operation (torch 2.13).

    The gloo thread may need the interpreter lock to release its tensor, while the model's destructor holds
    the lock and waits for that thread.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextlib.contextmanager
def connection_explained() -> Iterator[None]:
    """Say what to do if the block does not connect this process to those of the other machines."""
    try:
        yield
    except DistError as error:
        raise StageError(
            f"The processes of the machines did not find each other: {str(error).splitlines()[0]}",
            "When no process of the run before is left, start the training on all machines again: it resumes"
            " from its last checkpoint.",
        ) from None


@contextlib.contextmanager
def end_without_other_machines() -> Iterator[None]:
    """End this process with exit code 75 when an operation with other machines fails in the block.

    Then a process there was killed, or the machine or a network failed. A closed connection is noticed at
    once; of a machine without power, gloo learns after 30 minutes, and NCCL after 10.
    """
    started = time.time()
    try:
        yield
    except RuntimeError as error:
        # gloo has no class of its own for its errors
        is_lost = isinstance(error, DistError) or "gloo" in str(error)
        if not several_machines() or not is_lost:
            raise
        if os.environ.get("LOCAL_RANK", "0") == "0":
            say(
                f"train: another machine is lost: {str(error).splitlines()[0]}\n  Its own output may say why."
                f" Start the training on all machines again: {resume_hint(started)}",
                error=True,
            )
        exit_without_cleanup(INTERRUPTED)
