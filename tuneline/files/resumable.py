"""Folders that a killed process leaves for the next one: beside the target, hidden, outside the outs of DVC.

``.NAME.resumable`` beside the target ``NAME`` has a folder named after the key of its content, and is locked (flock) by the process that
writes to it. The key is a hash of everything that the content depends on: with another key nothing of the old folder is of use, and it
is removed. So a target has at most one leftover, which lasts until its next writer ends, or until the flow ``clean`` finds it a week old.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tuneline.errors import StageError
from tuneline.files import publish_directory, remove_leftovers
from tuneline.files.disk_errors import cannot_write, explain_disk_errors
from tuneline.files.locks import lock_folder

SUFFIX = ".resumable"


@contextmanager
def resumable_directory(target: Path, key: str) -> Iterator[Path]:
    """Yield a folder that replaces ``target`` when the block ends without an error, and stays for the next process otherwise.

    The folder has what a process with the same key has left, else it is empty. Each file in it must be written with ``replace_file``:
    then what is there is whole. What is no part of the target must be removed before the block ends.

    Args:
        target: The folder to replace.
        key: Hash of everything that the content depends on (``content_key``).

    Raises:
        StageError: Another process is writing the target.
        DiskError: The folder cannot be created or written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target)
        outer, lock = _locked(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    try:
        for path in outer.iterdir():
            if path.name != key:
                shutil.rmtree(path)
        folder = outer / key
        folder.mkdir(exist_ok=True)
        _remove_parts(folder)
        with explain_disk_errors(target):
            yield folder
        _remove_parts(folder)  # of a worker that was killed meanwhile
        publish_directory(folder, target)
        shutil.rmtree(outer)
    finally:
        os.close(lock)


def content_key(*values: Any, files: Iterable[Path] = ()) -> str:
    """Return a hash of values and of the names and bytes of files.

    Args:
        values: What the content depends on: parameters, versions of libraries, a hash of the code; values of JSON.
        files: The input files.
    """
    lines = [json.dumps(values, sort_keys=True)]
    for path in files:
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.as_posix()}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _locked(target: Path) -> tuple[Path, int]:
    """Return the folder beside the target, and the descriptor that locks it until it is closed."""
    outer = target.with_name(f".{target.name}{SUFFIX}")
    busy = StageError(f"{target} is being written by another process.", "Wait until it has ended, or stop it.")
    while True:
        outer.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):  # its writer has just ended, and removed it
            lock = lock_folder(outer, busy)
            if outer.exists() and os.path.samestat(os.fstat(lock), outer.stat()):
                return outer, lock
            os.close(lock)


def _remove_parts(folder: Path) -> None:
    """Remove the files and folders that killed processes were writing."""
    for path in list(folder.rglob(".*.partial")):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
