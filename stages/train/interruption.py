"""Why a training ends early: a signal, or lost processes on other machines.

After a signal, all processes save a checkpoint.
"""

import contextlib
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

import torch
from accelerate import Accelerator
from torch import distributed
from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]

from stages.train.devices import several_machines
from stages.train.launch import INTERRUPTED, resume_hint
from tuneline.core.errors import StageError
from tuneline.core.paths import REPORTS
from tuneline.core.terminal import say

NOTE = REPORTS / "interrupted" / "train.json"
"""File that exists from an interruption until the resumed run ends.

accelerate and DVC do not pass exit codes on; this file remains.
"""
PAUSED_PREDICTIONS = NOTE.with_name("validation.parquet")
"""Predictions of the best weights so far for the validation split, after a pause."""
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


HEARTBEAT_SECONDS = 2.0
"""Time between two heartbeats of a process."""
TIMEOUT = 40.0
"""Seconds without a heartbeat after which a process is lost.

The heartbeat of a busy process may be late: threads share the interpreter.
"""
TIMEOUT_AFTER_ERROR = 8.0
"""The same after an operation with the other processes has failed, as it does where one was killed."""
CONNECTION = 300.0
"""Seconds in which the processes of all machines must have found each other.

Their launchers have, so only imports take time.
"""
_CAUSES = "the training there ended or was killed, or the machine or a network failed"


@contextlib.contextmanager
def end_unless_connected() -> Iterator[None]:
    """End this process with exit code 75 if it is not connected to the others after ``CONNECTION`` seconds.

    The block connects it. A launcher that starts while the main machine still ends the run before connects to
    that run, and starts a process that waits for others which do not know of it.
    """
    problem = "The processes of the machines did not find each other"
    hint = (
        "When no process of the run before is left, start the training on all machines again: it resumes from"
        " its last checkpoint."
    )

    def end() -> None:
        say(f"train: {problem} within {CONNECTION:.0f} s.\n  {hint}", error=True)
        exit_without_cleanup(INTERRUPTED)

    timer = threading.Timer(CONNECTION, end)
    timer.daemon = True
    if several_machines():
        timer.start()
    try:
        yield
    except DistError as error:
        raise StageError(f"{problem}: {str(error).splitlines()[0]}", hint) from None
    finally:
        timer.cancel()


@contextlib.contextmanager
def end_without_other_machines() -> Iterator[None]:
    """End this process with exit code 75 when a process on another machine is lost in the block.

    Else it could wait for that process for ever.
    """
    if not several_machines():
        yield
        return
    heartbeat = Heartbeat()
    for target in (heartbeat.exchange, heartbeat.watch):
        threading.Thread(target=target, name="heartbeat", daemon=True).start()
    try:
        yield
    except RuntimeError:  # probably of torch.distributed, because another process was killed
        heartbeat.end_if_lost(TIMEOUT_AFTER_ERROR)
        raise
    finally:
        heartbeat.stopped.set()


class Heartbeat:
    """Detects lost processes: each one counts up in torch's key-value store, which the main machine serves.

    One thread writes and reads the counters, another ends this process when one of them stands still: an
    operation of the store can block for ever, whatever its timeout, when the main machine is gone.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._started = time.time()
        self._rank = int(os.environ["RANK"])
        self._others = [rank for rank in range(int(os.environ["WORLD_SIZE"])) if rank != self._rank]

        # the store of the main machine
        address = os.environ["MASTER_ADDR"]
        port = int(os.environ["MASTER_PORT"])
        self._main = f"{address}:{port}"
        self._store = TCPStore(
            address, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=TIMEOUT)
        )

        # this process, then the others, which ``get`` waits for
        self._store.set(_key("machine", self._rank), socket.gethostname())
        self._store.set(_key("beat", self._rank), "0")
        self._machines = {rank: self._store.get(_key("machine", rank)).decode() for rank in self._others}
        self._counters = dict.fromkeys(self._others, b"")
        self._store_answered = time.monotonic()
        self._last_beat = dict.fromkeys(self._others, self._store_answered)

    def end_if_lost(self, timeout: float) -> None:
        """Wait until every process has beaten again; end this one if one has not for ``timeout`` seconds."""
        # not from now: the last beat of a killed process may be read only now
        later = time.monotonic() + 2 * HEARTBEAT_SECONDS
        while not all(beat > later for beat in self._last_beat.values()):
            self._end_if(self._lost(timeout))
            time.sleep(HEARTBEAT_SECONDS / 4)

    def exchange(self) -> None:
        """Write the counter of this process and read the counters of the others, until ``stopped``."""
        counter = 0
        while not self.stopped.wait(HEARTBEAT_SECONDS):
            counter += 1
            try:
                self._store.set(_key("beat", self._rank), str(counter))
                counters = self._store.multi_get([_key("beat", rank) for rank in self._others])
            except RuntimeError:  # the connection is closed: the main process has ended
                self._store_answered = -math.inf
                return
            self._store_answered = time.monotonic()
            for rank, value in zip(self._others, counters, strict=True):
                if value != self._counters[rank]:
                    self._counters[rank] = value
                    self._last_beat[rank] = self._store_answered

    def watch(self) -> None:
        """End this process when another one is lost, until ``stopped``."""
        while not self.stopped.wait(HEARTBEAT_SECONDS):
            self._end_if(self._lost(TIMEOUT))

    def _lost(self, timeout: float) -> str | None:
        """Describe which processes have not beaten for so many seconds; ``None`` if all have."""
        now = time.monotonic()
        if now - self._store_answered > timeout:
            return f"the main machine, {self._main}, cannot be reached: {_CAUSES}"
        lost: dict[str, list[str]] = {}  # ranks by machine
        for rank, beat in self._last_beat.items():
            if now - beat > timeout:
                lost.setdefault(self._machines[rank], []).append(str(rank))
        if not lost:
            return None
        machines = [f"{machine} (rank {', '.join(ranks)})" for machine, ranks in lost.items()]
        return f"no sign of life from machine {', '.join(machines)}: {_CAUSES}"

    def _end_if(self, reason: str | None) -> None:
        """Print the reason, once on each machine, and end this process."""
        if reason is None:
            return
        if not self.stopped.is_set() and os.environ.get("LOCAL_RANK", "0") == "0":
            hint = (
                "Its own output may say why. Start the training on all machines again:"
                f" {resume_hint(self._started)}"
            )
            say(f"train: {reason}.\n  {hint}", error=True)
        self.stopped.set()
        exit_without_cleanup(INTERRUPTED)


def _key(name: str, rank: int) -> str:
    return f"tuneline/{name}/{rank}"
