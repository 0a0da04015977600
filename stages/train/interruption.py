"""Stop on a signal: between two micro-batches, in all processes alike, with a checkpoint and a note on how to resume."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

import torch
from accelerate import Accelerator
from torch import distributed

from tuneline.files import write_json
from tuneline.paths import REPORTS

NOTE = REPORTS / "interrupted" / "train.json"
"""Exists from an interruption until the resumed run ends. accelerate and DVC do not pass exit codes on; this file remains."""


class TrainingInterrupted(Exception):  # noqa: N818 - a requested stop, not an error
    """Training stops because a signal requested it.

    Attributes:
        signal: Name of the signal.
        step: Optimizer steps done and saved.
        steps: Optimizer steps of the whole run.
        checkpoint: Folder of the saved state.
    """

    def __init__(self, signal_name: str, step: int = 0, steps: int = 0, checkpoint: Path | None = None) -> None:
        super().__init__(
            f"interrupted by {signal_name} after step {step} of {steps}; the checkpoint is {checkpoint}. Run `dvc repro` to resume from it."
        )
        self.signal, self.step, self.steps, self.checkpoint = signal_name, step, steps, checkpoint


class Interruption:
    """Context that records SIGTERM and SIGINT instead of ending the process; the loop stops where its state is consistent.

    A launcher may forward a signal that has reached this process already; the second changes nothing. Python sets handlers in the main
    thread only: in other threads (notebooks, for example) signals keep their default effect.

    Attributes:
        signal: Name of the signal received, or ``None``.
    """

    def __init__(self) -> None:
        self.signal: str | None = None
        self._previous: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Self:
        """Set the handlers."""
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._record) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Restore the previous handlers."""
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def _record(self, number: int, _frame: FrameType | None) -> None:
        self.signal = self.signal or signal.Signals(number).name


class Coordinator:
    """Decisions that all processes take together: stop now, save now. One process that says yes decides for all.

    The flags travel over the CPU (gloo) even where gradients use NCCL, so asking never waits for the device.

    Args:
        accelerator: Accelerator of the run.
        interruption: Record of received signals.
        checkpoint_minutes: Time between checkpoints in minutes, or ``None``.
    """

    def __init__(self, accelerator: Accelerator, interruption: Interruption, checkpoint_minutes: float | None) -> None:
        self._single_process = accelerator.num_processes == 1
        needs_gloo = not self._single_process and accelerator.device.type != "cpu"
        self._process_group = distributed.new_group(backend="gloo") if needs_gloo else None
        self._interruption = interruption
        self._seconds = None if checkpoint_minutes is None else checkpoint_minutes * 60
        self._last_checkpoint = time.monotonic()

    def check_interruption(self) -> None:
        """Stop if a signal arrived. Every process must call this equally often, where its state is consistent.

        Raises:
            TrainingInterrupted: A signal arrived in any of the processes.
        """
        if self._any_process(self._interruption.signal is not None):
            raise TrainingInterrupted(self._interruption.signal or "a signal to another process")

    def checkpoint_time_elapsed(self) -> bool:
        """Return True if the time between checkpoints has elapsed in any process."""
        return self._seconds is not None and self._any_process(time.monotonic() - self._last_checkpoint >= self._seconds)

    def restart_checkpoint_timer(self) -> None:
        """Start measuring the time to the next checkpoint."""
        self._last_checkpoint = time.monotonic()

    def _any_process(self, here: bool) -> bool:
        if self._single_process:
            return here
        flag = torch.tensor([int(here)])
        distributed.all_reduce(flag, distributed.ReduceOp.MAX, group=self._process_group)
        return bool(flag)


def write_note(interrupted: TrainingInterrupted) -> None:
    """Write ``NOTE``: the signal, the step, the checkpoint, and the command that resumes the run."""
    note = {
        "interrupted": True,
        "resumable": True,
        "signal": interrupted.signal,
        "step": interrupted.step,
        "steps": interrupted.steps,
        "checkpoint": str(interrupted.checkpoint),
        "resume": "dvc repro",
    }
    write_json(NOTE, note)


def clear_note() -> None:
    """Remove ``NOTE``, if it exists."""
    NOTE.unlink(missing_ok=True)


def exit_without_cleanup(code: int) -> NoReturn:
    """Exit without destroying Python objects, which can deadlock after a gloo operation (torch 2.13).

    The gloo thread may need the interpreter lock to release its tensor, while the model's destructor holds the lock and
    waits for that thread.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
