"""Why a training ends early: a signal, after which all processes save a checkpoint."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

import torch
from accelerate import Accelerator
from torch import distributed

from tuneline.training.launch import STOPPING


class TrainingInterrupted(Exception):  # noqa: N818 - a requested stop, not an error
    """A signal, whose name is the message, stops the training."""


@dataclass
class Interruption:
    """The first signal that asked for the end, by its name; the loop stops where its state is consistent."""

    signal: str | None = None


@contextlib.contextmanager
def recorded_signals() -> Iterator[Interruption]:
    """Until the block ends, record SIGTERM and SIGINT instead of ending the process.

    A launcher may forward a signal that has reached this process already; the second changes nothing. Python
    sets handlers in the main thread only: in others (notebooks, for example) signals keep their effect.
    """
    interruption = Interruption()

    def record(number: int, _frame: FrameType | None) -> None:
        if interruption.signal is None:
            interruption.signal = signal.Signals(number).name

    previous = {}
    if threading.current_thread() is threading.main_thread():
        for number in STOPPING:
            previous[number] = signal.signal(number, record)
    try:
        yield interruption
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class Coordinator:
    """The decision to stop, which all processes take together.

    The flag is reduced on the CPU (gloo) even where gradients use NCCL, so that a check never waits for the
    device.
    """

    def __init__(self, accelerator: Accelerator, interruption: Interruption) -> None:
        self._single_process = accelerator.num_processes == 1
        self._process_group = None  # the default one, which uses gloo on the CPU
        if not self._single_process and accelerator.device.type != "cpu":
            self._process_group = distributed.new_group(backend="gloo")
        self._interruption = interruption

    def check_interruption(self) -> None:
        """Stop if a signal arrived in any process.

        Every process must call this equally often, where its state is consistent.
        """
        stop = self._interruption.signal is not None
        if not self._single_process:
            flag = torch.tensor([int(stop)])
            # every process gets the maximum of all flags
            distributed.all_reduce(flag, distributed.ReduceOp.MAX, group=self._process_group)
            stop = bool(flag)
        if stop:
            raise TrainingInterrupted(self._interruption.signal or "a signal to another process")


def exit_without_cleanup(code: int) -> NoReturn:
    """Exit without destroying Python objects, which can deadlock after a gloo operation (torch 2.13).

    The gloo thread may need the interpreter lock to release its tensor, while the model's destructor holds
    the lock and waits for that thread.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
