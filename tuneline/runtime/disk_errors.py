"""Errors of a disk, explained to the user: a file system is full, or does not let this user write."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.filesize import decimal

from tuneline.runtime.errors import DiskError, StageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Libraries and programs that pass on the text of an error without its number.
_MESSAGES = {
    os.strerror(errno.ENOSPC): errno.ENOSPC,
    os.strerror(errno.EDQUOT): errno.EDQUOT,
    "Not enough free space to write": errno.ENOSPC,  # numpy
    "unable to write file": errno.ENOSPC,  # git, which does not say why
}
_ALMOST_FULL = 64 * 1024
"""Bytes. An error of a writer whose file system has less left is taken for a full disk."""


@contextmanager
def explain_disk_errors(place: Path | None = None) -> Iterator[None]:
    """Replace an error of a disk by one for the user; all other errors pass.

    Args:
        place: File or folder that is written, for the message. Default: the file that the error names, or the
            working directory.

    Raises:
        DiskError: A file system is full, is away, or does not let this user read or write.
    """
    try:
        yield
    except StageError:
        raise
    except Exception as error:
        number = full_disk(error)
        if number:
            raise full_disk_error(number, place or _named_file(error), error) from error
        # a missing file is a fault of the program, of which its traceback tells more
        if isinstance(error, OSError) and error.filename and not isinstance(error, FileNotFoundError):
            raise cannot_write(place or Path(os.fsdecode(error.filename)), error) from error
        raise


def full_disk(error: BaseException, folder: Path | None = None) -> int | None:
    """Return the number of the system's error if a full disk or quota caused an error; else ``None``.

    An error that says nothing of a full disk counts as one if the file system of ``folder``, which was being
    written, is almost full.
    """
    if isinstance(error, StageError) and not isinstance(error, DiskError):
        return None
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _FULL:
            return cause.errno
        for message, number in _MESSAGES.items():
            if message in str(cause):
                return number
    if folder is not None and _free(folder) < _ALMOST_FULL:
        return errno.ENOSPC
    return None


def full_disk_error(number: int, place: Path, cause: Exception) -> DiskError:
    """Return the error for the user about a full disk or quota (``number``).

    The message shows the cause if the cause says nothing of a full disk.
    """
    reason = os.strerror(number)
    if not any(reason in str(error) for error in _causes(cause)):
        reason += f" ({type(cause).__name__}: {cause})"
    existing = _existing(place).resolve()
    mounted = next(path for path in (existing, *existing.parents) if path.is_mount())
    return DiskError(
        f"{place} cannot be written: {reason}. On its file system, mounted at {mounted},"
        f" {decimal(_free(mounted))} are free, and it needs more.",
        f"Make room there (`du -xhd 3 {mounted} | sort -h | tail` lists its largest folders, `df -i` counts"
        " files), then run the same command again.",
    )


def cannot_write(place: Path, error: OSError) -> DiskError:
    """Return the error for the user about a file or folder that cannot be read or written."""
    number = full_disk(error)
    if number:
        return full_disk_error(number, place, error)
    return DiskError(
        f"{place} cannot be read or written: {error.strerror or error}.",
        f"`ls -ld {_existing(place)}` shows what is there and who may write.",
    )


def _existing(place: Path) -> Path:
    """Return a file or folder, or the nearest folder above it that exists."""
    place = place.absolute()
    # os.access, because Path.exists raises an error in a folder that this user may not read
    return next(path for path in (place, *place.parents) if os.access(path, os.F_OK))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _named_file(error: BaseException) -> Path:
    """Return the file that an error or its causes name; the working directory if they name none."""
    for cause in _causes(error):
        if isinstance(cause, OSError):
            name = cause.filename2 or cause.filename  # filename2 is the target of a copy
            if isinstance(name, (str, os.PathLike)):
                return Path(name)
    return Path.cwd()


def _free(place: Path) -> int:
    """Return the bytes that this user may still write; a file system reserves a part for root."""
    status = os.statvfs(place)
    blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail
    return blocks * status.f_frsize
