import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.validate.picking import spread, take_rows


@pytest.fixture
def path(tmp_path):
    pq.write_table(pa.table({"number": list(range(25)), "other": ["x"] * 25}), tmp_path / "rows.parquet", row_group_size=10)
    return tmp_path / "rows.parquet"


@pytest.mark.parametrize("rows", [[], [0], [3, 9, 10, 24], [24], list(range(25))])
def test_rows_are_taken_across_row_groups(path, rows):
    assert take_rows(path, np.array(rows, dtype=np.int64), ["number"]).to_pydict() == {"number": rows}


def test_rows_beyond_the_end_are_left_out(path):
    assert take_rows(path, np.array([24, 25, 99]), ["number"])["number"].to_pylist() == [24]


@pytest.mark.parametrize(("total", "number", "rows"), [(0, 5, []), (1, 5, [0]), (3, 5, [0, 1, 2]), (100, 3, [0, 49, 99])])
def test_a_sample_is_spread_evenly_from_the_first_to_the_last(total, number, rows):
    assert spread(total, number).tolist() == rows
