"""SHA-256 hashes of files: of one, of the files of a split, and of everything that a result depends on."""

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    A file that has not been touched since the last call is not read again.
    """
    status = path.stat()
    return _hash(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(maxsize=1024)
def _hash(path: Path, status: tuple[int, ...]) -> str:  # noqa: ARG001 - the key of the cache
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def split_hash(files: Sequence[Path]) -> str:
    """Return one SHA-256 for the files of a split, as ``split_files`` gives them.

    The hash of a single file is the file's own. The hash of shards is what ``sha256sum train-*.parquet |
    sha256sum`` prints: a hash of their hashes and names.
    """
    if len(files) == 1:
        return file_hash(files[0])
    lines = [f"{file_hash(file)}  {file.name}\n" for file in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def content_key(*values: Any) -> str:
    """Return a hash of values of JSON: parameters, versions or hashes of files and code."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]
