"""Errors of a disk, explained to the user: a file system is full or away, or does not let this user write."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.filesize import decimal

from tuneline.runtime.errors import DiskError, StageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_AWAY = (errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV, errno.EHOSTDOWN)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)
# Libraries and programs that pass on the text of an error without its number.
_MESSAGES = {
    os.strerror(errno.ENOSPC): errno.ENOSPC,
    os.strerror(errno.EDQUOT): errno.EDQUOT,
    os.strerror(errno.EFBIG): errno.EFBIG,
    "Not enough free space to write": errno.ENOSPC,  # numpy
    "unable to write file": errno.ENOSPC,  # git, which does not say why
    "No usable temporary directory found": errno.ENOSPC,  # tempfile has tried to write to each
}
_ALMOST_FULL = 64 * 1024
"""Bytes. An error of a writer whose file system has less left is taken for a full disk."""


@contextmanager
def explain_disk_errors(place: Path | None = None) -> Iterator[None]:
    """Replace an error of a disk by one for the user; all other errors pass.

    Args:
        place: File or folder that is written, for the message. Default: the file that the error names.

    Raises:
        DiskError: A file system is full or away, does not let this user read or write, or has no names or
            files of that length.
    """
    try:
        yield
    except StageError:
        raise
    except Exception as error:
        disk_error = _disk_error(error, place)
        if disk_error is None:
            raise
        raise disk_error from error


def _disk_error(error: Exception, place: Path | None) -> DiskError | None:
    """Return the error for the user; ``None`` if no disk is the cause."""
    number = full_disk(error)
    if number:
        if place is None:
            place = _place(error)
        return full_disk_error(number, place, error)

    if not isinstance(error, OSError):
        return None
    if error.errno in _FORBIDDEN and error.filename:
        if error.errno == errno.ENAMETOOLONG:
            hint = "A name has at most 255 bytes."
        else:
            hint = _look_at(Path(error.filename))
        return DiskError(f"{error.filename}: {error.strerror}.", hint)
    if error.errno in _AWAY:
        file = error.filename or place or "A file"
        return DiskError(
            f"{file} cannot be read or written: {error.strerror}.",
            "A disk is damaged, or a network folder or terminal is gone (`findmnt`). Then run the same"
            " command again.",
        )
    return None


def full_disk(error: BaseException, folder: Path | None = None) -> int | None:
    """Return the number of the system's error if a full disk or quota caused an error; else ``None``.

    The number is ``errno.ENOSPC``, ``errno.EDQUOT`` or ``errno.EFBIG``. An error that says nothing of a full
    disk counts as one if the file system of ``folder``, which was being written, is almost full.
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
    existing = _existing(place).resolve()
    mounted = next(path for path in (existing, *existing.parents) if path.is_mount())
    room = _describe_room(mounted, number)

    reason = os.strerror(number)
    if not any(reason in str(error) for error in _causes(cause)):
        reason += f" ({type(cause).__name__}: {cause})"
    problem = f"{place} cannot be written: {reason}."
    if number == errno.EFBIG:
        remedy = "Raise the limit of this process, which `ulimit -f` shows"
    else:
        problem += f" On its file system, mounted at {mounted}, {room}."
        remedy = f"Make room there (`du -xhd 3 {mounted} | sort -h | tail` lists its largest folders)"

    error = DiskError(problem, f"{remedy}, then run the same command again.")
    error.device = existing.stat().st_dev
    return error


def cannot_write(place: Path, error: OSError) -> DiskError:
    """Return the error for the user about a file or folder that cannot be made."""
    if error.errno in _FULL:
        return full_disk_error(error.errno, place, error)
    return DiskError(f"{place} cannot be written: {error.strerror or error}.", _look_at(place))


def _describe_room(mounted: Path, number: int) -> str:
    status = os.statvfs(mounted)
    if number == errno.EDQUOT:
        return "your quota is used up (`quota -s` shows it)"
    if status.f_files and not status.f_favail:
        return "no inode is free (`df -i` counts them: there are too many files)"
    size = status.f_blocks * status.f_frsize
    return f"{decimal(_free(mounted))} of {decimal(size)} are free, and it needs more"


def _look_at(place: Path) -> str:
    existing = _existing(place)
    return (
        f"`ls -ld {existing}` shows what is there and who may write, `findmnt -T {existing}` whether its file"
        " system is read-only."
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
        if cause.__cause__ is not None:
            cause = cause.__cause__
        elif cause.__suppress_context__:
            cause = None
        else:
            cause = cause.__context__


def _place(error: BaseException) -> Path:
    """Return the file that an error names.

    If it names none, return the folder with the least free space among the folders in which any program
    writes.
    """
    for cause in _causes(error):
        if isinstance(cause, OSError):
            name = cause.filename2 or cause.filename  # filename2 is the target of a copy
            if isinstance(name, (str, os.PathLike)):
                return Path(name)

    cache = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    temporary = Path(tempfile.tempdir or os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - gettempdir() would try to write there
    places = [Path.cwd(), temporary, cache, Path("/dev/stdout").resolve()]
    return min((place for place in places if os.access(place, os.F_OK)), key=_free)


def _free(place: Path) -> int:
    """Return the bytes that this user may still write; a file system reserves a part for root."""
    status = os.statvfs(place)
    is_root = os.geteuid() == 0
    blocks = status.f_bfree if is_root else status.f_bavail
    return blocks * status.f_frsize
