"""Reductions over the rows of a list column, as flat arrays: no Python object per row."""

from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Segments:
    """A column of lists: all values one after the other, and where each row starts.

    Attributes:
        values: The lists' values, of shape ``[values]``.
        lengths: int64 of shape ``[rows]``.
    """

    def __init__(self, values: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        self.values = values
        self.lengths = lengths
        self._filled = lengths > 0
        self._ends = np.cumsum(lengths)
        self._starts = (self._ends - lengths)[self._filled]

    @classmethod
    def of(cls, column: pa.ListArray) -> Self:
        """Takes the values of an Arrow column of lists, without a copy."""
        offsets = column.offsets.to_numpy().astype(np.int64)
        return cls(column.flatten().to_numpy(zero_copy_only=False), np.diff(offsets))

    def row(self, place: int) -> NDArray[Any]:
        """The values of one row."""
        return self.values[self._ends[place] - self.lengths[place] : self._ends[place]]

    def reduce(self, ufunc: np.ufunc, values: NDArray[Any], empty: int) -> NDArray[np.int64]:
        """Reduces ``values`` (one per value of the column) over each row; ``empty`` stands where a row has none.

        Returns:
            int64 of shape ``[rows]``.
        """
        reduced = np.full(len(self.lengths), empty, dtype=np.int64)
        if len(self._starts):
            # An empty row between two others takes nothing away from either, so the filled ones bound each other.
            reduced[self._filled] = ufunc.reduceat(values, self._starts, dtype=np.int64 if ufunc is np.add else None)
        return reduced

    def smallest(self) -> NDArray[np.int64]:
        """The smallest value of each row, 0 where it has none."""
        return self.reduce(np.minimum, self.values, 0)

    def largest(self) -> NDArray[np.int64]:
        """The largest value of each row, 0 where it has none."""
        return self.reduce(np.maximum, self.values, 0)

    def count(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many of each row's values are chosen."""
        return self.reduce(np.add, chosen, 0)

    def first(self) -> NDArray[np.int64]:
        """The first value of each row, -1 where it has none."""
        return self._at(self._starts)

    def last(self) -> NDArray[np.int64]:
        """The last value of each row, -1 where it has none."""
        return self._at(self._starts + self.lengths[self._filled] - 1)

    def drops(self) -> NDArray[np.int64]:
        """How often a value of each row is smaller than the one before it in that row."""
        falling = np.zeros(len(self.values), dtype=bool)
        falling[1:] = self.values[1:] < self.values[:-1]
        falling[self._starts] = False
        return self.count(falling)

    def _at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        found = np.full(len(self.lengths), -1, dtype=np.int64)
        found[self._filled] = self.values[places]
        return found
