"""Files that several processes share: written atomically, and locked.

A file or folder is written beside its target and renamed: no reader sees a part of it.

It has reached the disk before it is renamed, and the rename has when the block ends: a power cut leaves the
old one or the new one. A folder takes two renames: a process that is killed between them leaves none, and the
next writer puts the old one back.

Each writer has a file or folder of its own, ``.NAME.TOKEN.partial``, and holds a lock on it (flock), which
the system releases when the process ends, in whichever container it runs. What has no lock was left by a
killed process: the next writer of the target removes it.
"""

import errno
import fcntl
import glob
import json
import math
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tuneline.core.runtime.errors import DiskError, cannot_write, full_disk_error, is_full_disk

LONGEST_NAME = 255
"""Bytes of a file name that Linux allows."""


@contextmanager
def replace_file(target: Path) -> Iterator[Path]:
    """Yield an empty file to write to, which replaces ``target`` when the block ends without an error.

    After an error the new file is deleted.

    Raises:
        DiskError: The disk is full, the folder cannot be created or written, or ``target`` is a folder.
    """
    if target.is_dir():
        raise DiskError(f"{target} is a folder.", "Name a file in it.")
    with _partial(target, lambda path: path.touch(exist_ok=False)) as partial:
        yield partial
        _sync(partial)
        partial.replace(target)
        _sync(target.parent)


@contextmanager
def replace_directory(target: Path) -> Iterator[Path]:
    """Yield an empty folder, which replaces ``target`` when the block ends without an error.

    After an error the new folder is deleted. The previous folder is removed only after the new one is
    complete. Files get the permissions of the umask, because safetensors and ``tempfile`` create files that
    only their owner can read.

    Raises:
        DiskError: The disk is full, or the folder cannot be created or written.
    """
    with _partial(target, Path.mkdir) as partial:
        yield partial
        publish_directory(partial, target)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON with a final newline.

    NaN and infinity, which JSON does not have, are a ``ValueError``.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    with replace_file(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


@contextmanager
def working_directory(place: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``place``, which is removed when the block ends.

    If the process is killed, the next process with this place removes it.
    """
    with _partial(place, Path.mkdir) as partial:
        yield partial


@contextmanager
def temporary_directory() -> Iterator[Path]:
    """Yield a folder in the system's folder of temporary files, which is removed when the block ends."""
    folder = Path(tempfile.mkdtemp())
    with _removed(folder, folder):
        yield folder


def publish_directory(folder: Path, target: Path) -> None:
    """Let a complete folder replace another one of the same file system, once it has reached the disk."""
    _apply_umask(folder)
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink():
            _sync(path)
    _rename_directory(folder, target)
    _sync(target.parent)


def remove_leftovers(target: Path) -> None:
    """Remove what killed processes have left beside ``target``; put a former folder back that is missing."""
    token = "[0-9a-f]" * 8
    for path in target.parent.glob(f"{glob.escape(_hidden(target))}.{token}.*"):
        if path.suffix not in {".partial", ".former"}:
            continue
        # An error: the writer is alive and holds the lock, or it belongs to another user.
        with suppress(OSError, BusyError), locked(path, wait=0, create=False):
            if path.suffix == ".former" and not target.exists():
                path.rename(target)
            else:
                _remove(path)


@contextmanager
def _partial(target: Path, create: Callable[[Path], None]) -> Iterator[Path]:
    """Yield a new, locked file or folder beside ``target``: renames are atomic within a file system."""
    partial = target.with_name(f"{_hidden(target)}.{secrets.token_hex(4)}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target)
    except OSError as error:
        raise cannot_write(target, error) from error

    # _removed begins before the file is created: a signal may end the process right after its creation.
    with ExitStack() as stack, _removed(partial, target):
        try:
            stack.callback(os.close, _create_locked(partial, create))
        except OSError as error:
            raise cannot_write(target, error) from error
        yield partial


@contextmanager
def _removed(path: Path, place: Path) -> Iterator[None]:
    """Remove a file or folder when the block ends; if a full disk ended it, say so about ``place``."""
    try:
        yield
    except Exception as error:
        # a DiskError of a block inside this one is explained already
        if not isinstance(error, DiskError) and is_full_disk(error, path.parent):
            raise full_disk_error(place, error) from error
        raise
    finally:
        with suppress(PermissionError):  # then it could not be created either
            _remove(path)


def _create_locked(partial: Path, create: Callable[[Path], None]) -> int:
    """Create a file or folder, and return the descriptor that locks it."""
    while True:
        create(partial)
        with suppress(FileNotFoundError):
            descriptor = os.open(partial, os.O_RDONLY)
            # Without locks on this file system, nobody can take it for a leftover either.
            with suppress(OSError):
                lock(descriptor)
            if partial.exists():
                return descriptor
            # Another writer took it for a leftover, before it was locked: create it again.
            os.close(descriptor)


def _hidden(target: Path) -> str:
    """Return the start of the names beside ``target``; it is cut where the whole name would be too long."""
    longest = LONGEST_NAME - len("..00000000.partial")
    return "." + os.fsencode(target.name)[:longest].decode(errors="ignore")


def _rename_directory(partial: Path, target: Path) -> None:
    """Rename a folder over another one, which takes two renames."""
    former = partial.with_suffix(".former")
    with suppress(FileNotFoundError):
        target.replace(former)
    try:
        partial.replace(target)
    except OSError as error:
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            with suppress(FileNotFoundError):
                former.replace(target)
            raise
        # Another writer came between the renames: the last one stays.
        _remove(former)
        _rename_directory(partial, target)
    _remove(former)


def _sync(path: Path) -> None:
    """Return when a file, or the names in a folder, have reached the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that does not synchronize folders
            raise
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a file or folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _apply_umask(folder: Path) -> None:
    """Give all files in ``folder`` the mode of the folder, without the execute bits."""
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)


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
