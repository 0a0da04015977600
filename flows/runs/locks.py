"""File locks between processes of one machine."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path


class BusyError(Exception):
    """Another process holds the lock."""


@contextlib.contextmanager
def locked(file: Path, wait: float) -> Iterator[int]:
    """Hold a lock that the operating system releases when this process and those that inherit it have ended, however they end.

    Args:
        file: The file to lock; created if missing.
        wait: Seconds to wait for another process that holds it.

    Yields:
        The file descriptor that holds the lock.

    Raises:
        BusyError: Another process still holds it after ``wait`` seconds.
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
            if _is_open_as(file, handle.fileno()):  # else its former holder removed it: lock the new file
                yield handle.fileno()
                return


def _is_open_as(file: Path, descriptor: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    return False
