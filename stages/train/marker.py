"""Marker of a complete checkpoint: the size and the CRC-32 of every file. They detect damage, but not forgery."""

import json
import zlib
from pathlib import Path
from typing import Any

MARKER = "complete.json"


def write_marker(folder: Path) -> None:
    """Write the marker, which completes a checkpoint."""
    files = {str(path.relative_to(folder)): _size_and_crc(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    (folder / MARKER).write_text(json.dumps(files, indent=1), encoding="utf-8")


def find_damage(folder: Path) -> str | None:
    """Return the first problem of a checkpoint, or ``None`` if it is complete."""
    try:
        files: dict[str, Any] = json.loads((folder / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"{MARKER} is missing or unreadable"
    for name, expected in files.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if _size_and_crc(folder / name) != expected:
            return f"{name} differs from its checksum"
    return None


def _size_and_crc(path: Path) -> list[int]:
    """Return size in bytes and CRC-32."""
    crc = size = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            crc, size = zlib.crc32(block, crc), size + len(block)
    return [size, crc]
