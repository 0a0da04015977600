"""Signs of life between machines: a training whose other machine is gone ends within a minute, and says which one.

The processes of one machine are watched by their launcher. Between machines there is only the network: a killed process closes its
connections, but a machine without power or network does not, and gloo and NCCL wait for it for ten minutes and more. So each process
writes a counter to the store in which the processes have found each other (torch's ``TCPStore``, on the main machine), and reads those of
the others.
"""

import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]

from stages.train.interruption import exit_without_cleanup
from stages.train.launch import INTERRUPTED, resume_hint
from stages.train.machines import several_machines
from tuneline.errors import StageError
from tuneline.terminal import say

INTERVAL = 2.0
"""Seconds between two signs of life."""
SILENCE = 40.0
"""Seconds without a sign of life after which a process is lost. A busy process may be late: threads share the interpreter."""
SILENCE_AFTER_ERROR = 8.0
"""The same when an operation with the other processes has failed, as it does where one was killed."""
CONNECTION = 300.0
"""Seconds in which the processes of all machines must have found each other. Their launchers have, so only imports take time."""

_CAUSES = "the training there ended or was killed, or the machine or a network failed"


@contextlib.contextmanager
def end_unless_connected() -> Iterator[None]:
    """End this process if the block, which connects it to the others, takes too long.

    The launcher of a machine that starts while the main machine still ends the run before finds the keys of that one, and starts a
    process that waits for others which do not know of it.

    Raises:
        StageError: The connection is lost.
        SystemExit: With exit code 75 after ``CONNECTION`` seconds.
    """
    problem = "The processes of the machines did not find each other"
    hint = "When no process of the run before is left, start the training on all machines again: it resumes from its last checkpoint."

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
    """End this process when one on another machine is lost, while the block runs; it may wait for that one in a native function.

    Raises:
        SystemExit: With exit code 75: nothing is wrong here, and the training can be resumed.
    """
    if not several_machines():
        yield
        return
    heartbeat = Heartbeat()
    heartbeat.start()
    try:
        yield
    except RuntimeError:  # of torch.distributed, probably
        heartbeat.end_if_lost(SILENCE_AFTER_ERROR)
        raise
    finally:
        heartbeat.stopped.set()


class Heartbeat:
    """Two threads: one gives and reads signs of life, the other one ends this process when those of another one stop.

    They are two because an operation of the store can wait without an end, whatever its time limit, when the main machine is gone.

    Attributes:
        stopped: Set to end the threads.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self._began = time.time()
        self._rank = int(os.environ["RANK"])
        self._others = [rank for rank in range(int(os.environ["WORLD_SIZE"])) if rank != self._rank]
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self._main = f"{address}:{port}"
        self._store = TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=timedelta(seconds=SILENCE))
        self._store.set(_key("machine", self._rank), socket.gethostname())
        self._store.set(_key("beat", self._rank), "0")
        self._machines = {rank: self._store.get(_key("machine", rank)).decode() for rank in self._others}  # waits for the others
        self._beats = dict.fromkeys(self._others, b"")
        self._answered = time.monotonic()
        self._heard = dict.fromkeys(self._others, self._answered)

    def start(self) -> None:
        """Start the threads."""
        for target in (self._exchange, self._watch):
            threading.Thread(target=target, name="heartbeat", daemon=True).start()

    def end_if_lost(self, silence: float) -> None:
        """Wait until every process has given a sign of life, or end this one because one has not for ``silence`` seconds."""
        later = time.monotonic() + 2 * INTERVAL  # a killed process may have given one that is read now
        while not all(heard > later for heard in self._heard.values()):
            self._end_if(self._lost(silence))
            time.sleep(INTERVAL / 4)

    def _exchange(self) -> None:
        beat = 0
        while not self.stopped.wait(INTERVAL):
            beat += 1
            try:
                self._store.set(_key("beat", self._rank), str(beat))
                beats = self._store.multi_get([_key("beat", rank) for rank in self._others])
            except RuntimeError:  # the connection is closed: the main process has ended
                self._answered = -math.inf
                return
            self._answered = time.monotonic()
            for rank, value in zip(self._others, beats, strict=True):
                if value != self._beats[rank]:
                    self._beats[rank], self._heard[rank] = value, self._answered

    def _watch(self) -> None:
        while not self.stopped.wait(INTERVAL):
            self._end_if(self._lost(SILENCE))

    def _lost(self, silence: float) -> str | None:
        """Return which process is lost, after so many seconds of silence."""
        now = time.monotonic()
        if now - self._answered > silence:
            return f"the main machine, {self._main}, cannot be reached: {_CAUSES}"
        ranks = [rank for rank, heard in self._heard.items() if now - heard > silence]
        machines = dict.fromkeys(self._machines[rank] for rank in ranks)
        lost = (f"{machine} (rank {', '.join(str(rank) for rank in ranks if self._machines[rank] == machine)})" for machine in machines)
        return f"no sign of life from machine {', '.join(lost)}: {_CAUSES}" if ranks else None

    def _end_if(self, reason: str | None) -> None:
        """Print the reason, once on each machine, and end this process."""
        if reason is None:
            return
        if not self.stopped.is_set() and os.environ.get("LOCAL_RANK", "0") == "0":
            hint = f"Its own output may say why. Start the training on all machines again: {resume_hint(self._began)}"
            say(f"train: {reason}.\n  {hint}", error=True)
        self.stopped.set()
        exit_without_cleanup(INTERRUPTED)


def _key(name: str, rank: int) -> str:
    return f"tuneline/{name}/{rank}"
