"""A full disk: a program runs in a mount namespace of its own, in which a folder is a small tmpfs."""

import subprocess
from pathlib import Path

import pytest

PAGE = 4096
"""Bytes in which a tmpfs counts."""
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")


def on_small_disk(folder: Path, size: str, *command: str) -> list[str]:
    """Return ``command`` with ``folder`` on a file system of ``size`` (for example ``64k``), which is gone
    when the command ends.

    What the folder contains is copied there first; what the command leaves there is lost. The test is skipped
    where the system does not allow a user to mount a file system.
    """
    if subprocess.run(
        [*NAMESPACE, 'mount -t tmpfs none "$0"', str(folder)], capture_output=True, check=False
    ).returncode:
        pytest.skip("this system does not allow a user to mount a file system")
    script = (
        'size=$1 folder=$2; shift 2; before=$(mktemp -d) && mount --bind "$folder" "$before" && mount -t'
        ' tmpfs -o "size=$size" none "$folder" && cp -a "$before/." "$folder" && umount "$before" && rmdir'
        ' "$before" && cd "$PWD" && exec "$@"'
    )
    return [*NAMESPACE, script, "sh", size, str(folder), *command]


def on_full_disk(folder: Path, room: int, *command: str) -> list[str]:
    """Return ``command`` with ``folder`` on a file system that has ``room`` for so many further kilobytes,
    which is gone when it ends."""
    pages = sum(-(-path.stat().st_size // PAGE) for path in folder.rglob("*") if path.is_file())
    return on_small_disk(folder, f"{pages * PAGE // 1024 + room}k", *command)
