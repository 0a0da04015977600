import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tuneline.core.runtime.errors import DataError
from tuneline.operations.adoption.rows import read_file
from tuneline.rows.proposals.files import sniff
from tuneline.rows.proposals.profiles import NESTED
from tuneline.rows.reading.rows import STOP


def opened(path):
    return read_file(sniff(path, required={"text"}), STOP)


def rows_of(file):
    return list(zip(*(column.cells for column in file.columns.values()), strict=True))


def test_numbers_are_written_as_the_download_stage_writes_classes(tmp_path):
    pq.write_table(
        pa.table({"text": ["a", "b", "c"], "label": [1.0, float("nan"), 0.5]}), tmp_path / "in.parquet"
    )
    assert rows_of(opened(tmp_path / "in.parquet")) == [("a", "1"), ("b", None), ("c", "0.5")]


def test_lists_of_lists_and_objects_in_parquet_are_neither_text_nor_label(tmp_path):
    pq.write_table(
        pa.table({"tags": [[["a"]], None], "text": ["x", "y"], "more": [{"a": 1}, {"a": 2}]}),
        tmp_path / "in.parquet",
    )
    assert rows_of(opened(tmp_path / "in.parquet")) == [
        (f'{NESTED}[["a"]]', "x", NESTED),
        (None, "y", NESTED),
    ]


def test_column_that_occurs_twice_in_parquet_is_refused(tmp_path):
    pq.write_table(pa.table([["a"], ["b"]], names=["text", "text"]), tmp_path / "in.parquet")
    with pytest.raises(DataError, match="'text' occurs 2"):
        opened(tmp_path / "in.parquet")
