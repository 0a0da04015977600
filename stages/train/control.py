"""Decisions that all processes must take alike: stop now, save now."""

import time

import torch
from accelerate import Accelerator
from torch import distributed

from stages.train.interruption import InterruptedRun, Interruption


class Control:
    """Asks every process and lets any of them decide, so that none waits for another that has left.

    The question travels over the CPU (gloo) also where the gradients do not: it never waits for the device.

    Args:
        accelerator: Of the run.
        interruption: Knows whether a signal came.
        minutes: Time between checkpoints, or ``None``.
    """

    def __init__(self, accelerator: Accelerator, interruption: Interruption, minutes: float | None) -> None:
        self._alone = accelerator.num_processes == 1
        self._group = None if self._alone or accelerator.device.type == "cpu" else distributed.new_group(backend="gloo")
        self._interruption = interruption
        self._seconds = None if minutes is None else minutes * 60
        self._saved = time.monotonic()

    def check_interruption(self) -> None:
        """Call it where leaving is safe, in every process equally often.

        Raises:
            InterruptedRun: A signal came to any of the processes.
        """
        if self._any(self._interruption.signal is not None):
            raise InterruptedRun(self._interruption.signal or "a signal to another process")

    def time_to_save(self) -> bool:
        """Whether the minutes between checkpoints are over in any process."""
        return self._seconds is not None and self._any(time.monotonic() - self._saved >= self._seconds)

    def note_saved(self) -> None:
        """Starts the time to the next checkpoint anew."""
        self._saved = time.monotonic()

    def _any(self, mine: bool) -> bool:
        if self._alone:
            return mine
        flag = torch.tensor([int(mine)])
        distributed.all_reduce(flag, distributed.ReduceOp.MAX, group=self._group)
        return bool(flag)
