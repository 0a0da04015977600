"""Errors for the person who runs the pipeline: what is wrong, where, and what to do.

They end a stage without a traceback. Errors of a disk are explained: it is full, or does not let this user
write.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

PERMANENT = os.EX_CONFIG
"""Exit status of a stage that ends the same way until its user changes a parameter or the data: 78.

The flows do not repeat it.
"""


class StageError(Exception):
    """A stage cannot continue, for a reason that its user can fix.

    Args:
        problem: What is wrong and where: file, row, column or parameter, as precisely as known.
        hint: What to do about it.
    """

    status = 1
    """Exit status of a command."""
    stage_status = 1
    """Exit status of a stage: ``PERMANENT`` if parameters or data are wrong, and nothing else is at fault."""

    def __init__(self, problem: str, hint: str | None = None) -> None:
        super().__init__(problem if hint is None else f"{problem}\n  {hint}")
        self.problem = problem
        self.hint = hint

    def __reduce__(self) -> tuple[type[Self], tuple[str, str | None]]:
        return type(self), (self.problem, self.hint)  # a worker process sends it by pickle


class ParamsError(StageError):
    """A parameter file is invalid, or a parameter names something that cannot be used."""

    stage_status = PERMANENT


class DataError(StageError):
    """Input data is invalid."""

    stage_status = PERMANENT


class UnreadableError(DataError):
    """The operating system does not read a file: permissions, a damaged disk, a network that is away.

    The data may be valid.
    """

    stage_status = 1


class InputError(DataError):
    """The file that a command was given is invalid: the command fails until the file or an option changes."""

    status = 65
    """``EX_DATAERR`` of sysexits.h."""


class GateError(StageError):
    """A check that guards the pipeline failed. Its report is written before this is raised."""

    stage_status = PERMANENT


class DiskError(StageError):
    """The machine's disk is full or cannot be written. Neither the data nor the parameters are at fault."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turn a ``DataError`` into an ``InputError``, whose exit status says that the input is invalid.

    For blocks that read nothing but the input: there the model is loaded, and the writer raises
    ``StageError``.
    """
    try:
        yield
    except UnreadableError:
        raise
    except DataError as error:
        raise InputError(error.problem, error.hint) from None


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MESSAGES = (
    os.strerror(errno.ENOSPC),
    os.strerror(errno.EDQUOT),
    "Not enough free space to write",
    "unable to write file",
)
"""Texts of programs that pass on an error without its number; the last ones of numpy and git."""
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
        if is_full_disk(error):
            raise full_disk_error(place or _named_file(error), error) from error
        # a missing file is a fault of the program, of which its traceback tells more
        if isinstance(error, OSError) and error.filename and not isinstance(error, FileNotFoundError):
            raise cannot_write(place or Path(os.fsdecode(error.filename)), error) from error
        raise


def is_full_disk(error: BaseException, folder: Path | None = None) -> bool:
    """Return True if a full disk or quota caused an error.

    An error that says nothing of a full disk counts as one if the file system of ``folder``, which was being
    written, is almost full.
    """
    if isinstance(error, StageError) and not isinstance(error, DiskError):
        return False
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _FULL:
            return True
        if any(message in str(cause) for message in _MESSAGES):
            return True
    if folder is None:
        return False
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize < _ALMOST_FULL


def full_disk_error(place: Path, cause: Exception) -> DiskError:
    """Return the error for the user about a full disk or quota."""
    reason = os.strerror(errno.ENOSPC)
    if reason not in str(cause):
        reason += f" ({type(cause).__name__}: {cause})"
    return DiskError(
        f"{place} cannot be written: {reason}.",
        "Make room on its file system (`df -h` shows the room of all, `df -i` their files), then run the same"
        " command again.",
    )


def cannot_write(place: Path, error: OSError) -> DiskError:
    """Return the error for the user about a file or folder that cannot be read or written."""
    if is_full_disk(error):
        return full_disk_error(place, error)
    return DiskError(
        f"{place} cannot be read or written: {error.strerror or error}.",
        f"`namei -l {place.absolute()}` shows what is there and who may write.",
    )


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
