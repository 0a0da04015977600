"""Partitions of rows by the range of their keys, so that rows with the same key can be found without sorting all keys in memory."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

PARTITION_ROWS = 1 << 21
"""Rows of a partition, about: keys are hashes, so all partitions have nearly as many. A row takes about 100 bytes while it is sorted."""
ROWS_AT_A_TIME = 1 << 20


def partitions(keys: NDArray[np.uint64]) -> Iterator[NDArray[np.int64]]:
    """Yield the row numbers of one partition after the other, each ascending. Rows with the same key are in the same partition.

    Args:
        keys: Key of each row, a 64-bit hash. Partitions are ranges of keys, ascending; each passes over all keys.
    """
    bits = max((len(keys) - 1) // PARTITION_ROWS, 0).bit_length()
    if not bits:
        yield np.arange(len(keys))
        return
    shift = np.uint64(64 - bits)
    for number in range(1 << bits):
        blocks = ((first, keys[first : first + ROWS_AT_A_TIME]) for first in range(0, len(keys), ROWS_AT_A_TIME))
        yield np.concatenate([first + np.flatnonzero(block >> shift == number) for first, block in blocks])
