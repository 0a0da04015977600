"""Atomic writes: a file or folder is written beside its target and renamed, so that no reader ever sees a part of it."""

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DIGITS = 6
"""Digits after the decimal point in files of metrics."""


@contextmanager
def replace_file(target: Path) -> Iterator[Path]:
    """Yield a path to write to, which replaces ``target`` when the block ends without an error and is deleted otherwise.

    Raises:
        OSError: The folder cannot be created or written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial_path(target)
    partial.unlink(missing_ok=True)
    try:
        yield partial
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replace_directory(target: Path) -> Iterator[Path]:
    """Yield an empty folder, which replaces ``target`` when the block ends without an error and is deleted otherwise.

    The previous folder is removed only after the new one is complete. Files get the permissions of the umask, because safetensors and
    ``tempfile`` create files that only their owner can read.

    Raises:
        OSError: The folder cannot be created or written.
    """
    partial = _partial_path(target)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        _apply_umask(partial)
        former = target.with_name(f".{target.name}.former")
        shutil.rmtree(former, ignore_errors=True)
        if target.exists():
            target.replace(former)
        partial.replace(target)
        shutil.rmtree(former, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON with a final newline.

    Raises:
        ValueError: ``value`` contains NaN or infinity, which JSON does not have.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    with replace_file(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def write_metrics(path: Path, metrics: Mapping[str, float]) -> None:
    """Write metrics for ``dvc metrics``: one flat JSON object of numbers with ``DIGITS`` digits after the decimal point.

    Raises:
        ValueError: A metric is NaN or infinite. The message names it.
    """
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise ValueError(f"metric {name!r} is {value}: {path} would not be valid JSON")
    write_json(path, {name: value if isinstance(value, int) else round(float(value), DIGITS) for name, value in metrics.items()})


def _partial_path(target: Path) -> Path:
    """Return a path beside ``target``: a rename is atomic only within one file system."""
    return target.with_name(f".{target.name}.partial")


def _apply_umask(folder: Path) -> None:
    """Give all files in ``folder`` the mode of the folder, without the execute bits."""
    mode = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)
