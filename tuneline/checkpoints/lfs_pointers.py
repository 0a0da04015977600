"""Pointers of Git LFS: small files in the place of those that `git lfs pull` fetches."""

from pathlib import Path

LFS_START = b"version https://git-lfs.github.com/spec/"
"""First bytes of a pointer."""
LARGEST_POINTER = 1024
"""Bytes. The specification allows no larger one."""


def is_lfs_pointer(path: Path) -> bool:
    """Return True if a file is a pointer; False if it cannot be read, which its reader explains."""
    try:
        if path.stat().st_size > LARGEST_POINTER:
            return False
        return path.read_bytes().startswith(LFS_START)
    except OSError:
        return False
