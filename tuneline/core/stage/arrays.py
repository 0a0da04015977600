"""Names of the arrays that many modules give each other."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
"""Numbers in double precision, of any shape."""
ClassIds = NDArray[np.int64]
"""Index of the class of each row, of shape ``(rows,)``."""
RowNumbers = NDArray[np.int64]
"""Numbers of rows in a split or a table, from 0, of shape ``(rows,)``."""
