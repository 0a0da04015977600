"""Leaving on a signal: between two micro batches, with a checkpoint, and with a word on how to go on."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from tuneline.files import write_json
from tuneline.paths import REPORTS

NOTE = REPORTS / "interrupted" / "train.json"
"""Exists after an interruption, until the run goes on. Exit codes do not survive accelerate and DVC; this file does."""
EXIT_CODE = 75
"""EX_TEMPFAIL of sysexits.h: try again later."""


class InterruptedRun(Exception):  # noqa: N818 - nothing went wrong
    """The run leaves because it was asked to.

    Attributes:
        signal: Name of the signal.
        step: Steps done and saved.
        steps: Of the whole run.
        checkpoint: Where the state is.
    """

    def __init__(self, signal_name: str, step: int = 0, steps: int = 0, checkpoint: Path | None = None) -> None:
        super().__init__(
            f"interrupted by {signal_name} after step {step} of {steps}; its state is in {checkpoint}. `dvc repro` goes on from there."
        )
        self.signal, self.step, self.steps, self.checkpoint = signal_name, step, steps, checkpoint


class Interruption:
    """Notes SIGTERM and SIGINT instead of dying of them. The loop asks, and leaves where its state is whole.

    Signals come twice to a process whose launcher passes them on; the second one changes nothing. Outside of the main
    thread no handler can be set, and the signals do what they always do.

    Attributes:
        signal: Name of the signal that came, or ``None``.
    """

    def __init__(self) -> None:
        self.signal: str | None = None
        self._former: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Self:
        """Sets the handlers."""
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._note) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Puts the former handlers back."""
        for number, former in self._former.items():
            signal.signal(number, former)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.signal = signal.Signals(number).name


def write_note(interrupted: InterruptedRun) -> None:
    """Says in a file that the run was interrupted, and how it goes on."""
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
    """Takes the note back: the run goes on, or is done."""
    NOTE.unlink(missing_ok=True)
