"""Files and folders that appear whole or not at all."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def aside(target: Path) -> Path:
    """Names the place beside ``target`` where its next version grows. Same file system, so that the rename is atomic."""
    return target.with_name(f".{target.name}.partial")


@contextmanager
def replace_file(target: Path) -> Iterator[Path]:
    """Yields a path to write to; it becomes ``target`` when the block ends well, and vanishes when it does not.

    Raises:
        OSError: The folder cannot be made or written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = aside(target)
    partial.unlink(missing_ok=True)
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replace_directory(target: Path) -> Iterator[Path]:
    """Yields an empty folder to fill; it takes the place of ``target`` when the block ends well, and vanishes when it does not.

    A folder that stood at ``target`` is removed only once the new one is complete. Files are as open to other users as the
    umask has it, whoever wrote them: safetensors and ``tempfile`` write for the owner alone.

    Raises:
        OSError: The folder cannot be made or written.
    """
    partial = aside(target)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        _open_to_others(partial)
        former = target.with_name(f".{target.name}.former")
        shutil.rmtree(former, ignore_errors=True)
        if target.exists():
            target.replace(former)
        partial.replace(target)
        shutil.rmtree(former, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _open_to_others(folder: Path) -> None:
    """Gives the files inside the mode of the folder, which the umask made, without leave to run them."""
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)
