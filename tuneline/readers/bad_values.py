"""The rows of a batch whose values cannot be used, and the conversion that finds them."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.readers.label_values import ValueProblemError
from tuneline.readers.row_texts import text_problem
from tuneline.readers.rows import BadRows, RowProblem


class BadValues:
    """The rows of one batch whose values cannot be used: they are reported to the bad rows of the file."""

    def __init__(
        self, bad: BadRows, positions: Sequence[int], columns: Mapping[str, pa.Array | list[Any]]
    ) -> None:
        self._bad = bad
        self._positions = positions
        self._columns = columns
        self.rows: set[int] = set()

    def add(self, row: int, column: str, message: str, hint: str) -> None:
        """Report a row, once; a ``DataError`` if bad rows are an error."""
        if row in self.rows:
            return
        self.rows.add(row)
        values = {name: _plain(cells[row]) for name, cells in self._columns.items()}
        content = json.dumps(values, ensure_ascii=False, default=str)
        position = int(_plain(self._positions[row]))
        self._bad.add(RowProblem(position, message, hint, column, content))

    def converted(
        self, name: str, values: pa.Array | list[Any], convert: Callable[[Any], Any], kind: pa.DataType
    ) -> pa.Array:
        """Return the converted values of a column. Values that cannot be used are reported, and null.

        Each distinct value is converted once: a column of labels has few.
        """
        distinct, codes = _encoded(values)
        results = []
        problems: dict[int, tuple[str, str, str]] = {}  # column, message and hint of a value
        for code, value in enumerate(distinct):
            try:
                result = convert(value)
            except ValueProblemError as error:
                problems[code] = (repr(name), str(error), error.hint)
                result = None
            if isinstance(result, str):
                message = text_problem(result, name)
                if message is not None:
                    problems[code] = ("", message, "Correct the escape sequence.")
                    result = None
            results.append(result)

        if problems:
            is_bad = pc.is_in(codes, pa.array(list(problems), codes.type))
            for row in np.flatnonzero(is_bad.to_numpy(zero_copy_only=False)).tolist():
                column, message, hint = problems[codes[row].as_py()]
                self.add(row, column, message, hint)
        return pa.array(results, kind).take(codes)

    def without(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the other rows of the batch."""
        if not self.rows:
            return batch
        kept = np.ones(batch.num_rows, dtype=bool)
        kept[list(self.rows)] = False
        return batch.filter(pa.array(kept))


def _plain(value: Any) -> Any:
    if isinstance(value, pa.Scalar):
        return value.as_py()
    return value


def _encoded(values: pa.Array | list[Any]) -> tuple[list[Any], pa.Array]:
    """Return the distinct values, and for each row the number of its value."""
    if isinstance(values, pa.Array):
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        return values.dictionary.to_pylist(), values.indices

    code_of: dict[Any, int] = {}
    distinct: list[Any] = []
    codes = []
    for value in values:
        hashable = value
        if isinstance(value, list | dict):
            hashable = repr(value)
        # With its type: 1, 1.0 and True are equal.
        code = code_of.setdefault((type(value), hashable), len(distinct))
        if code == len(distinct):
            distinct.append(value)
        codes.append(code)
    return distinct, pa.array(codes, pa.int64())
