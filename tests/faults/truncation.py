"""State files as a crash leaves them."""

from collections.abc import Iterator
from pathlib import Path


def damages(path: Path) -> Iterator[str]:
    """Damage a file in each way that a full disk, a kill or a power cut does; the original is back when the
    loop ends.

    Yields:
        The name of the damage, while the file has it.
    """
    content = path.read_bytes()
    ways = {
        "empty": b"",
        "half": content[: len(content) // 2],
        "zeros": bytes(len(content)),
        "another text": b"<html>\xff",
    }
    try:
        for name, damaged in ways.items():
            path.write_bytes(damaged)
            yield name
    finally:
        path.write_bytes(content)
