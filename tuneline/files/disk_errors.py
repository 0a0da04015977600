"""Errors of a disk for its user: what cannot be written, on which file system, how much is free there, and what to do.

Libraries report a full disk in many ways: as an ``OSError`` with or without number and file name, an exception with the system's text
(safetensors, tokenizers), or any error at all (torch: "iostream error", ONNX Runtime: "Protobuf serialization failed").
"""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.filesize import decimal

from tuneline.errors import DiskError, StageError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_TEXTS = {
    os.strerror(errno.ENOSPC): errno.ENOSPC,
    os.strerror(errno.EDQUOT): errno.EDQUOT,
    "Not enough free space to write": errno.ENOSPC,  # numpy
    "unable to write file": errno.ENOSPC,  # git, which does not say why
    "No usable temporary directory found": errno.ENOSPC,  # tempfile has tried to write to each
}
_LITTLE = 64 * 1024
"""Bytes. An error of a writer whose file system has less left is taken for a full disk."""


@contextmanager
def explain_disk_errors(place: Path | None = None) -> Iterator[None]:
    """Replace an error of a disk by one for the user; others pass.

    Args:
        place: What is written; without it, what the error names.

    Raises:
        DiskError: A file system is full, or does not let this user read or write.
    """
    try:
        yield
    except StageError:
        raise
    except Exception as error:
        if number := full_disk(error):
            raise full_disk_error(number, place or _place(error), error) from error
        if isinstance(error, OSError) and error.errno in _FORBIDDEN and error.filename:
            raise DiskError(f"{error.filename}: {error.strerror}.", _look_at(Path(error.filename))) from error
        raise


def full_disk(error: BaseException, folder: Path | None = None) -> int | None:
    """Return ``errno.ENOSPC`` or ``errno.EDQUOT`` if a full disk or quota caused an error, else ``None``.

    Args:
        error: The error, with those that caused it.
        folder: Where something was being written when the error occurred.
    """
    if isinstance(error, StageError) and not isinstance(error, DiskError):
        return None
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _FULL:
            return cause.errno
        if number := next((number for text, number in _TEXTS.items() if text in str(cause)), None):
            return number
    return errno.ENOSPC if folder is not None and _free(folder) < _LITTLE else None


def full_disk_error(number: int, place: Path, cause: Exception) -> DiskError:
    """Return the error of a full disk.

    Args:
        number: ``errno.ENOSPC`` or ``errno.EDQUOT``.
        place: What cannot be written; it need not exist.
        cause: The error of the library, which is shown if it says nothing of a full disk.
    """
    existing = _existing(place).resolve()
    mounted = next(path for path in (existing, *existing.parents) if path.is_mount())
    shown = "" if any(os.strerror(number) in str(error) for error in _causes(cause)) else f" ({type(cause).__name__}: {cause})"
    room = _describe_room(mounted, number)
    error = DiskError(
        f"{place} cannot be written: {os.strerror(number)}{shown}. On its file system, mounted at {mounted}, {room}.",
        f"Make room there (`du -xhd 3 {mounted} | sort -h | tail` lists its largest folders), then run the same command again.",
    )
    error.device = existing.stat().st_dev
    return error


def cannot_write(place: Path, error: OSError) -> DiskError:
    """Return the error of a file or folder that cannot be made."""
    if error.errno in _FULL:
        return full_disk_error(error.errno, place, error)
    return DiskError(f"{place} cannot be written: {error.strerror or error}.", _look_at(place))


def _describe_room(mounted: Path, number: int) -> str:
    status = os.statvfs(mounted)
    if number == errno.EDQUOT:
        return "your quota is used up (`quota -s` shows it)"
    if status.f_files and not status.f_favail:
        return "no inode is free (`df -i` counts them: there are too many files)"
    return f"{decimal(_free(mounted))} of {decimal(status.f_blocks * status.f_frsize)} are free, and it needs more"


def _look_at(place: Path) -> str:
    existing = _existing(place)
    return f"`ls -ld {existing}` shows what is there and who may write, `findmnt -T {existing}` whether its file system is read-only."


def _existing(place: Path) -> Path:
    """Return a file or folder, or the nearest folder above it that exists."""
    return next(path for path in (place.absolute(), *place.absolute().parents) if os.access(path, os.F_OK))  # False without permission


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that caused it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _place(error: BaseException) -> Path:
    """Return the file that an error names, else the folder with the least free space of those in which any program writes."""
    named = [cause.filename2 or cause.filename for cause in _causes(error) if isinstance(cause, OSError)]  # of a copy, the target
    if names := [name for name in named if isinstance(name, (str, os.PathLike))]:
        return Path(names[0])
    cache = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    temporary = Path(tempfile.tempdir or os.environ.get("TMPDIR", "/tmp"))  # noqa: S108 - gettempdir() would try to write there
    places = [Path.cwd(), temporary, cache, Path("/dev/stdout").resolve()]
    return min((place for place in places if os.access(place, os.F_OK)), key=_free)


def _free(place: Path) -> int:
    """Return the bytes that this user may still write; a file system reserves some for root."""
    status = os.statvfs(place)
    return (status.f_bavail if os.geteuid() else status.f_bfree) * status.f_frsize
