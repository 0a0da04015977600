"""Where each row begins in the values of all rows, one after the other."""

import numpy as np
from numpy.typing import NDArray


def row_offsets(lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where each row begins in the values of all rows, and the end of the last; ``(rows + 1,)``."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


def joined_ranges(starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the numbers of ranges that begin at ``starts``, one range after the other."""
    # how far each range is from its place in the result, added to the places
    places = row_offsets(lengths)
    numbers: NDArray[np.int64] = np.repeat(starts - places[:-1], lengths) + np.arange(places[-1])
    return numbers
