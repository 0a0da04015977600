import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from stages.validate.rows import RaggedArray, evenly_spaced, read_batches, take_rows


@pytest.fixture
def path(tmp_path):
    pq.write_table(pa.table({"number": list(range(25)), "other": ["x"] * 25}), tmp_path / "rows.parquet", row_group_size=10)
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize("rows", [[], [0], [3, 9, 10, 24], [24], list(range(25))])
def test_take_rows_reads_across_row_groups(path, rows):
    assert take_rows(path, np.array(rows, dtype=np.int64), ["number"]).to_pydict() == {"number": rows}


def test_take_rows_ignores_rows_beyond_the_end(path):
    assert take_rows(path, np.array([24, 25, 99]), ["number"])["number"].to_pylist() == [24]


@pytest.mark.parametrize(("total", "number", "rows"), [(0, 5, []), (1, 5, [0]), (3, 5, [0, 1, 2]), (100, 3, [0, 49, 99])])
def test_evenly_spaced_runs_from_the_first_row_to_the_last(total, number, rows):
    assert evenly_spaced(total, number).tolist() == rows


def test_read_batches_yields_one_empty_batch_for_a_file_without_rows(tmp_path):
    pq.write_table(pa.table({"number": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    (batch,) = read_batches(tmp_path / "empty.parquet")
    assert (batch.num_rows, batch.schema.names) == (0, ["number"])


ROWS = st.lists(st.lists(st.integers(-5, 100), max_size=6), max_size=12)


def ragged(rows) -> RaggedArray:
    return RaggedArray.of(pa.array(rows, pa.list_(pa.int32())))


@given(ROWS)
def test_reductions_equal_those_of_each_row(rows):
    """Compared with plain Python row by row, including empty rows."""
    array = ragged(rows)
    assert array.lengths.tolist() == [len(row) for row in rows]
    assert array.smallest().tolist() == [min(row, default=0) for row in rows]
    assert array.largest().tolist() == [max(row, default=0) for row in rows]
    assert array.first().tolist() == [row[0] if row else -1 for row in rows]
    assert array.last().tolist() == [row[-1] if row else -1 for row in rows]
    assert array.count(array.values > 3).tolist() == [sum(value > 3 for value in row) for row in rows]
    assert array.drops().tolist() == [sum(row[i] < row[i - 1] for i in range(1, len(row))) for row in rows]
    assert [array.row(index).tolist() for index in range(len(rows))] == rows


def test_slice_of_a_column_has_its_own_rows():
    """Batches of a file share their buffers: offsets of a slice do not start at 0."""
    column = pa.array([[1, 2], [], [3], [4, 5, 6]], pa.list_(pa.int32())).slice(1, 2)
    assert RaggedArray.of(column).largest().tolist() == [0, 3]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32])
def test_counts_do_not_overflow_the_dtype_of_the_values(dtype):
    array = RaggedArray(np.ones(300, dtype=dtype), np.array([300]))
    assert array.count(array.values == 1).tolist() == [300]
