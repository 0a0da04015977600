"""Programs that are started, watched and ended: none outlives what started it, however that ended.

- A program of this project asks the kernel for a signal at the end of its parent (``end_with_parent``), also
  where it started others itself, such as torchrun's workers.
- A child that does not ask is started so that it gets the signal (``start``), and ended with a block
  (``ending``).
- Any other command runs below a supervisor, a process between the program and the command, which survives a
  killed program, ends all that the command has started, and then itself. It is this file as a script
  (``supervised``). Process groups are not enough for that: torchrun puts each worker into a session of its
  own. So the supervisor becomes the parent of every descendant whose own parent has ended ("subreaper"), and
  signals each of them.

The script must work in the environment of any command, so this module imports no other one of this project.
"""

import contextlib
import ctypes
import functools
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

PARENT = "TUNELINE_PARENT"
"""Environment variable with the process id of the process that a training must not outlive."""
GRACE = float(os.environ.get("TUNELINE_GRACE", "23"))
"""Seconds from SIGTERM until the supervisor kills what is left of a command.

Prefect kills a cancelled flow after 30.
"""
LEADER_GRACE = 18.0
"""For ``leader_last``: seconds until the command itself gets SIGTERM, while it has children.

DVC ends by itself after its stage, and then ``dvc.lock`` is complete.
"""
IDLE_LEADER_GRACE = 4.0
"""The same without children: what DVC does without a stage is short, or will not end."""
_LOOK_EVERY = 0.2
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def end_with_parent(parent: int | None = None, *, kernel: bool = True) -> None:
    """Send this process SIGTERM when its parent (which may have ended already) ends, however that ends.

    Where it can, the kernel sends it: at the end of the thread that started this process, even if others of
    its process go on.
    """
    parent = os.getppid() if parent is None else parent
    if not (kernel and _signal_at_end_of(parent, signal.SIGTERM)):
        threading.Thread(target=_wait_for_end_of, args=(parent,), name="end with parent", daemon=True).start()


def _signal_at_end_of(parent: int, number: signal.Signals) -> bool:
    """Ask the kernel for a signal when the parent ends; return False if it is not Linux."""
    if not _prctl(_PR_SET_PDEATHSIG, number):
        return False
    if os.getppid() != parent:  # it ended before the kernel was asked
        os.kill(os.getpid(), number)
    return True


def _wait_for_end_of(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os.kill(os.getpid(), signal.SIGTERM)


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent has ended. On Linux."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> bool:
    try:
        return int(ctypes.CDLL(None).prctl(option, value, 0, 0, 0)) == 0
    except (OSError, AttributeError):
        return False


def start(
    command: Sequence[str], orphaned: signal.Signals = signal.SIGTERM, **more: Any
) -> subprocess.Popen[bytes]:
    """Start a program that gets a signal when this process ends, however that ends (on Linux).

    This process has one thread.
    """
    asked = functools.partial(_signal_at_end_of, os.getpid(), orphaned)
    return subprocess.Popen(command, preexec_fn=asked, **more)  # noqa: PLW1509 - there is one thread


@contextlib.contextmanager
def ending(process: subprocess.Popen[bytes], seconds: float | None = 60) -> Iterator[subprocess.Popen[bytes]]:
    """End a process when the block does: SIGTERM, and SIGKILL after so many seconds."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def supervised(command: Sequence[str], output: int, *, leader_last: bool = False) -> list[str]:
    """Return the command line that runs a command below a supervisor, which ends with this process.

    The supervisor holds the files that it inherits, such as locks, until all that the command has started has
    ended; the command does not inherit them. It ends all of that on SIGTERM and SIGINT. Its exit code is the
    command's; 128 + N after signal N. The supervisor inherits ``output``, the reading end of the pipe
    that the command prints to. With ``leader_last``, the command gets SIGTERM later than its descendants.
    """
    order = "leader-last" if leader_last else "all"
    return [
        sys.executable,
        "-P",
        str(Path(__file__).resolve()),
        str(os.getpid()),
        str(output),
        order,
        *command,
    ]


def main() -> int:
    """Run the command of the command line, end all that it has started, and return its exit code.

    The code is 127 if the command cannot be started.
    """
    parent, output, order, *command = sys.argv[1:]
    # A handler may put something into a SimpleQueue while this thread does.
    end: queue.SimpleQueue[None] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.put(None))
    end_with_parent(int(parent))
    adopt_orphans()

    try:
        leader = start(command, signal.SIGKILL, stdin=subprocess.DEVNULL)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    spared = leader.pid if order == "leader-last" else None
    threading.Thread(target=_end_descendants, args=(end, spared), daemon=True).start()
    threading.Thread(target=_drain, args=(int(output), int(parent)), daemon=True).start()

    code = 0
    with contextlib.suppress(ChildProcessError):  # no descendant is left
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == leader.pid:
                code = os.waitstatus_to_exitcode(status)
                end.put(None)
    return 128 - code if code < 0 else code


def _end_descendants(end: "queue.SimpleQueue[None]", spared: int | None) -> None:
    """End all descendants when ``end`` says so: SIGTERM, once to each, later SIGKILL.

    Programs may take a second SIGTERM as "end at once".
    """
    end.get()
    import psutil

    signalled: set[int] = set()
    started = time.monotonic()
    spared_until = IDLE_LEADER_GRACE
    while True:
        passed = time.monotonic() - started
        processes = psutil.Process().children(recursive=True)
        if any(process.pid != spared for process in processes):
            spared_until = LEADER_GRACE
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                if passed > GRACE:
                    process.kill()
                elif process.pid not in signalled and (process.pid != spared or passed > spared_until):
                    signalled.add(process.pid)
                    process.terminate()
        time.sleep(_LOOK_EVERY)


def _drain(output: int, parent: int) -> None:
    """Read the command's output once the parent, which read it, has ended.

    A training that saves its checkpoint must not wait for a full pipe.
    """
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    while os.read(output, 65536):
        pass


if __name__ == "__main__":
    sys.exit(main())
