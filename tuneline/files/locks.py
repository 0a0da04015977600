"""The lock of a folder, which the system releases when the process that holds it ends, however that happens."""

import fcntl
import os
from pathlib import Path

from tuneline.errors import StageError


def lock_folder(folder: Path, busy: StageError) -> int:
    """Lock a folder, and return the descriptor that holds the lock until it is closed. A file system without locks lets all pass.

    Args:
        folder: The folder, which exists.
        busy: What to raise if another process holds the lock.

    Raises:
        OSError: The folder cannot be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise busy from None
    except OSError:  # no locks on this file system
        pass
    return descriptor
