"""Rows with values that cannot be used, of a batch or one by one."""

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.readers.bad_rows import BadRows
from tuneline.readers.rows import RowProblem


class BadRowError(Exception):
    """A row cannot be used."""

    def __init__(self, problem: RowProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class BadValues:
    """The rows of one batch whose values cannot be used.

    Args:
        bad: The bad rows of the file.
        positions: Line or row number of each row.
        columns: What the rows contain, by the names of the source.

    Attributes:
        rows: The bad rows.
    """

    def __init__(self, bad: BadRows, positions: Sequence[int] | pa.Array, columns: Mapping[str, pa.Array]) -> None:
        self._bad, self._positions, self._columns = bad, positions, columns
        self.rows: set[int] = set()

    def add(self, row: int, column: str, message: str, hint: str) -> None:
        """Report a row, once.

        Raises:
            DataError: Bad rows are an error.
        """
        if row in self.rows:
            return
        self.rows.add(row)
        position, values = self._positions[row], {name: values[row].as_py() for name, values in self._columns.items()}
        line = position.as_py() if isinstance(position, pa.Scalar) else position
        self._bad.add(RowProblem(line, message, hint, column, json.dumps(values, ensure_ascii=False, default=str)))

    def add_all(self, rows: pa.BooleanArray, column: str, message: Callable[[int], str], hint: str) -> None:
        """Report the rows where ``rows`` is true.

        Raises:
            DataError: Bad rows are an error.
        """
        for row in np.flatnonzero(pc.fill_null(rows, False).to_numpy(zero_copy_only=False)).tolist():
            self.add(row, repr(column), message(row), hint)

    def place(self, column: str) -> str:
        """Return the place of a column, for messages."""
        return f"{self._bad.name}, column {column!r}"

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the other rows of the batch."""
        if not self.rows:
            return batch
        kept = np.ones(batch.num_rows, dtype=bool)
        kept[list(self.rows)] = False
        return batch.filter(pa.array(kept))
