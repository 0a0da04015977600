import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.validate.rows import evenly_spaced, read_batches, take_rows


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
