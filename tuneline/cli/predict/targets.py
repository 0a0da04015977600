"""Where the predictions go: to a file, which appears complete or not at all, or to a pipe or device, which gets them as they come."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tuneline.errors import StageError
from tuneline.files import replace_file, temporary_directory
from tuneline.files.disk_errors import full_disk
from tuneline.readers.urls import DataFile, RemoteFile

LINKS = 40
"""Links to links that are followed, as by Linux."""


def check_target(path: Path) -> None:
    """Check what is at the path of an output, before anything is computed.

    Raises:
        StageError: It is neither a file nor a pipe or character device, and is not to be replaced by one.
    """
    if Path(os.path.realpath(path)).is_symlink():
        raise StageError(f"--output: {path} is a link that leads to itself.", "Name a file.")
    if path.is_dir():
        raise StageError(f"--output: {path} is a folder.", "Name a file in it.")
    if path.is_block_device() or path.is_socket():
        raise StageError(f"--output: {path} is a disk or a socket.", "Name a file, a pipe or a character device such as /dev/null.")


def descriptor(path: Path) -> int | None:
    """Return the open file that a path such as ``/dev/stdout`` or ``/dev/fd/3`` names; ``None`` for any other path.

    Such a path seems to be a link to a file, which may have been opened to append to it.
    """
    opened = os.path.realpath("/dev/fd")
    for _ in range(LINKS):
        if path.name.isdecimal() and os.path.realpath(path.parent) == opened:
            return int(path.name)
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return None


@contextmanager
def open_target(path: DataFile) -> Iterator[BinaryIO]:
    """Open the target of an output. A link is kept: the file is replaced to which it leads. What goes to a storage is sent when complete.

    Raises:
        DiskError: The disk is full, or the folder cannot be created or written.
        UnreadableError: The storage cannot be reached or written.
        OSError: A pipe or device cannot be opened.
    """
    if isinstance(path, RemoteFile):
        with temporary_directory() as folder:
            with (folder / "result").open("wb") as file:
                yield file
            path.replace(folder / "result")
    elif (number := descriptor(path)) is not None:
        with os.fdopen(os.dup(number), "wb") as opened:
            yield opened
    elif path.is_fifo() or path.is_char_device():
        with path.open("wb") as stream:
            yield stream
    else:
        target = Path(os.path.realpath(path))
        with replace_file(target) as partial:
            if target.exists():
                shutil.copymode(target, partial)
            with partial.open("wb") as file:
                yield file


@contextmanager
def explained() -> Iterator[None]:
    """Replace errors of the operating system by errors for users, but for a full disk, which ``replace_file`` explains.

    Raises:
        StageError: The output cannot be written.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if full_disk(error):
            raise
        raise StageError(f"The output cannot be written: {error.strerror or error}.", "Check your permission to write there.") from None
