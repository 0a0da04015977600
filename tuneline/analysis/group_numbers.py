"""Numbers of the groups of rows, in place of values that can be names of people."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

GroupNumbers = NDArray[np.int32]
"""Number of the group of each row, from 0 in the order of their first rows, shape ``(rows,)``."""


def renumbered(values: NDArray[Any]) -> GroupNumbers:
    """Number equal values from 0, in the order of their first rows."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[inverse]
