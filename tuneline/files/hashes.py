"""Hashes of files. Those of tokenized splits are needed in several places of one process, and such files can have gigabytes."""

import hashlib
from functools import lru_cache
from pathlib import Path


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal. A file that has not been touched since the last call is not read again."""
    status = path.stat()
    return _hash(path, (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(maxsize=1024)
def _hash(path: Path, status: tuple[int, ...]) -> str:  # noqa: ARG001 - the key of the cache
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
