"""Locks between processes of one machine, and waiting for DVC's with a bound."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path


class BusyError(Exception):
    """Another process holds what this one needs."""


@contextlib.contextmanager
def locked(file: Path, wait: float) -> Iterator[int]:
    """Holds a lock that falls with this process (and those that inherit it), however they end.

    Args:
        file: What is locked; made where it is missing.
        wait: Seconds to wait for whoever holds it.

    Yields:
        The file descriptor that holds it.

    Raises:
        BusyError: Someone still holds it after that.
    """
    until = time.monotonic() + wait
    while True:
        with file.open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise BusyError(f"{file} is held by another process.") from None
                time.sleep(0.2)
                continue
            if _is(file, handle.fileno()):  # else whoever held it removed it: lock the new one
                yield handle.fileno()
                return


def _is(file: Path, descriptor: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    return False
