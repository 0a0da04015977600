"""Locks of files and folders, which the system releases when the processes that hold them end (flock)."""

import fcntl
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOOK_EVERY = 0.1
"""Seconds between two looks at a lock that another process holds."""


class BusyError(Exception):
    """Another process holds the lock."""


def lock(descriptor: int, wait: float = math.inf) -> None:
    """Lock an open file or folder until all processes that inherit the descriptor have closed it.

    Raises:
        BusyError: Another process still holds it after ``wait`` seconds.
        OSError: The file system has no locks.
    """
    until = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise BusyError("Another process holds the lock.") from None
            time.sleep(_LOOK_EVERY)
        else:
            return


def unlock(descriptor: int) -> None:
    """Release the lock, also for the processes that inherited the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def locked(
    path: Path, wait: float = math.inf, *, create: bool = True, required: bool = True
) -> Iterator[int]:
    """Hold the lock of a file, or of a folder that exists. A link is not followed.

    Yield its descriptor. Where the file system has no locks, every process passes if the lock is not
    ``required``.

    Raises:
        BusyError: Another process still holds it after ``wait`` seconds.
        OSError: It cannot be opened, or the file system has no locks.
    """
    while True:
        if create and not path.is_dir():
            flags = os.O_RDWR | os.O_CREAT
        else:
            flags = os.O_RDONLY | os.O_NONBLOCK  # a pipe does not wait for a writer
        descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o666)
        try:
            try:
                lock(descriptor, wait)
            except BusyError:
                raise BusyError(f"{path} is held by another process.") from None
            except OSError:
                if required:
                    raise
            if _is_open_as(path, descriptor):  # else its former holder removed it: lock the new one
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _is_open_as(path: Path, descriptor: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False
