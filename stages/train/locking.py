"""One training at a time in a project: whoever was killed may have left a child behind that is still saving."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from typing import IO

from accelerate import Accelerator

from tuneline.errors import StageError
from tuneline.paths import CHECKPOINTS

LOCK = CHECKPOINTS / ".lock"
PATIENCE = 30.0


@contextlib.contextmanager
def locked(accelerator: Accelerator) -> Iterator[None]:
    """Holds the lock of this project's training. It falls with the process that holds it.

    Raises:
        StageError: Another process trains here, and did not leave within 30 seconds.
    """
    if not accelerator.is_main_process:
        yield
        return
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("a+", encoding="utf-8") as file:
        _acquire(file)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _acquire(file: IO[str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StageError(
                    f"Process {LOCK.read_text(encoding='utf-8') or '(unknown)'} trains in this folder already.",
                    "Wait for it, or end it: sent SIGTERM, it saves its state and leaves.",
                ) from None
            time.sleep(0.2)
        else:
            return
