"""Arrays that many modules give each other: their names, and rows of different lengths."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

RowNumbers = NDArray[np.int64]
"""Numbers of rows in a split or a table, from 0, of shape ``(rows,)``."""


class RaggedArray:
    """Rows of different lengths: a flat array of values, row after row, and the length of each row.

    The lengths are int64 of shape ``(rows,)``.
    """

    def __init__(self, values: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        self.values = values
        self.lengths = lengths
        self._is_filled = lengths > 0
        self._starts = (np.cumsum(lengths) - lengths)[self._is_filled]

    @classmethod
    def of(cls, column: "pa.ListArray") -> Self:
        """Wrap the values of an Arrow list column without a copy."""
        offsets = column.offsets.to_numpy().astype(np.int64)
        return cls(column.flatten().to_numpy(zero_copy_only=False), np.diff(offsets))

    def reduce(self, ufunc: np.ufunc, values: NDArray[Any], empty: int = 0) -> NDArray[np.int64]:
        """Reduce each row of ``values``, of the shape of ``self.values``, to one number.

        The result is int64 of shape ``(rows,)``, with ``empty`` for a row without values.
        """
        reduced = np.full(len(self.lengths), empty, dtype=np.int64)
        if not len(self._starts):
            return reduced
        dtype = None
        if ufunc is np.add:  # else sums of small types, such as masks, would overflow
            dtype = np.int64
        # empty rows hold no values, so each filled row ends where the next filled one starts
        reduced[self._is_filled] = ufunc.reduceat(values, self._starts, dtype=dtype)
        return reduced

    def first(self) -> NDArray[np.int64]:
        """Return the first value of each row, -1 for an empty row."""
        return self._at(self._starts)

    def last(self) -> NDArray[np.int64]:
        """Return the last value of each row, -1 for an empty row."""
        return self._at(self._starts + self.lengths[self._is_filled] - 1)

    def first_other(self, values: NDArray[Any], expected: int | None) -> NDArray[np.int64]:
        """Return the first of the values of each row that is not the expected one; else the expected one.

        ``values`` have the shape of ``self.values``; no row is empty. If nothing is expected, it is the first
        value.
        """
        last = len(values)
        positions = np.arange(last)
        if expected is not None:
            positions[values == expected] = last
        positions = self.reduce(np.minimum, positions)
        is_expected = positions == last
        positions[is_expected] = self._starts[is_expected]
        return values[positions].astype(np.int64)

    def drops(self) -> NDArray[np.int64]:
        """Count the values of each row that are smaller than the value before them."""
        is_drop = np.zeros(len(self.values), dtype=bool)
        is_drop[1:] = self.values[1:] < self.values[:-1]
        is_drop[self._starts] = False
        return self.reduce(np.add, is_drop)

    def _at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        result = np.full(len(self.lengths), -1, dtype=np.int64)
        result[self._is_filled] = self.values[positions]
        return result
