"""Windows of rows: those that are tokenized and sorted by length together, and are in memory at a time.

Commands and programs have the same ones, so that the same rows have the same batches, and the same bits.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

BATCH_SIZE = 32
"""Default rows per forward pass."""
WINDOW = 4096
"""Default rows in memory."""
WINDOW_CHARACTERS = 1 << 22
"""Characters from which a window has no more rows, however few it has.

A tokenizer takes about 60 bytes of memory for each character.
"""
AnyRow = TypeVar("AnyRow")


def windows(
    rows: Iterable[AnyRow], first_size: int, max_size: int, characters: Callable[[AnyRow], int]
) -> Iterator[list[AnyRow]]:
    """Yield windows of rows, each twice as large as the one before.

    The first one has ``first_size`` rows and none has more than ``max_size``. Where rows are long, a window
    has fewer: it ends with ``WINDOW_CHARACTERS``, as ``characters`` counts them in a row.
    """
    size = min(first_size, max_size)
    window = []
    count = 0
    for row in rows:
        window.append(row)
        count += characters(row)
        if len(window) == size or count >= WINDOW_CHARACTERS:
            yield window
            size = min(2 * size, max_size)
            window = []
            count = 0
    if window:
        yield window
