"""Resumable folders: what a killed process has written stays for the next process.

Such a folder is ``.NAME.resumable`` beside its target and outside the outs of DVC. In it is a folder named
after the key of its content, a hash of everything that the content depends on: with another key nothing of
the old folder is of use, and it is removed. So a target has at most one leftover, which lasts until its next
writer ends, or until the flow ``clean`` finds it a week old.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tuneline.runtime.atomic_files import publish_directory, remove_leftovers
from tuneline.runtime.disk_errors import cannot_write, explain_disk_errors
from tuneline.runtime.errors import StageError
from tuneline.runtime.locks import BusyError, locked

RESUMABLE = ".resumable"


@contextmanager
def resumable_directory(target: Path, key: str) -> Iterator[Path]:
    """Yield a folder that replaces ``target`` when the block ends; after an error, it stays.

    The folder has what a process with the same key has left, else it is empty. Each file in it must be
    written with ``replace_file``: then what is there is whole. What is not part of the target must be removed
    before the block ends.

    Raises:
        StageError: Another process is writing the target.
        DiskError: The folder cannot be created or written.
    """
    with ExitStack() as stack:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            remove_leftovers(target)
            outer = stack.enter_context(_locked_folder(target))
        except OSError as error:
            raise cannot_write(target, error) from error

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


@contextmanager
def _locked_folder(target: Path) -> Iterator[Path]:
    """Hold the lock of the folder beside the target."""
    outer = target.with_name(f".{target.name}{RESUMABLE}")
    with ExitStack() as stack:
        while True:
            outer.mkdir(exist_ok=True)
            try:
                stack.enter_context(locked(outer, wait=0, required=False))
                break
            except FileNotFoundError:  # its writer has just ended, and removed it
                continue
            except BusyError:
                raise StageError(
                    f"{target} is being written by another process.", "Wait until it has ended, or stop it."
                ) from None
        yield outer


def _remove_parts(folder: Path) -> None:
    """Remove the files and folders that killed processes were writing."""
    for path in list(folder.rglob(".*.partial")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
