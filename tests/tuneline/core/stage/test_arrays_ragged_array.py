import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given

from tuneline.core.stage.arrays import RaggedArray

ROWS = st.lists(st.lists(st.integers(-5, 100), max_size=6), max_size=12)


def ragged(rows) -> RaggedArray:
    return RaggedArray.of(pa.array(rows, pa.list_(pa.int32())))


@given(ROWS)
def test_reductions_equal_those_of_each_row(rows):
    """Compared with plain Python row by row, including empty rows."""
    array = ragged(rows)
    assert array.lengths.tolist() == [len(row) for row in rows]
    assert array.reduce(np.minimum, array.values).tolist() == [min(row, default=0) for row in rows]
    assert array.reduce(np.maximum, array.values).tolist() == [max(row, default=0) for row in rows]
    assert array.first().tolist() == [row[0] if row else -1 for row in rows]
    assert array.last().tolist() == [row[-1] if row else -1 for row in rows]
    assert array.reduce(np.add, array.values > 3).tolist() == [
        sum(value > 3 for value in row) for row in rows
    ]
    assert array.drops().tolist() == [sum(row[i] < row[i - 1] for i in range(1, len(row))) for row in rows]


def test_slice_of_a_column_has_its_own_rows():
    """Batches of a file share their buffers: offsets of a slice do not start at 0."""
    column = pa.array([[1, 2], [], [3], [4, 5, 6]], pa.list_(pa.int32())).slice(1, 2)
    assert [RaggedArray.of(column).first().tolist(), RaggedArray.of(column).last().tolist()] == [
        [-1, 3],
        [-1, 3],
    ]
