import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.tokenize import rows
from stages.tokenize.rows import RawSplit
from tests.stages.tokenize.raw_splits import write_raw
from tuneline.errors import DataError


@pytest.fixture
def path(tmp_path):
    """A raw split of five rows with two text columns."""
    write_raw(tmp_path / "train.parquet", [["a", "b", "c", "d", "e"], ["v", "w", "x", "y", "z"]])
    return tmp_path / "train.parquet"


@pytest.fixture
def two_rows_per_batch(monkeypatch):
    monkeypatch.setattr(rows, "ROW_GROUP", 2)


def test_raw_split_has_number_of_rows_and_label_names(path):
    split = RawSplit(path, ["subject", "body"])
    assert (split.rows, split.labels.names) == (5, ("no", "yes"))


def test_texts_are_yielded_column_by_column_in_batches(path, two_rows_per_batch):
    texts = list(RawSplit(path, ["subject", "body"]).texts())
    assert texts == [["a", "b"], ["v", "w"], ["c", "d"], ["x", "y"], ["e"], ["z"]]


def test_batches_have_the_named_columns_only(path, two_rows_per_batch):
    batches = list(RawSplit(path, ["subject"]).batches(["subject", "labels"]))
    assert [batch.to_pydict() for batch in batches] == [
        {"subject": ["a", "b"], "labels": [0, 1]},
        {"subject": ["c", "d"], "labels": [0, 1]},
        {"subject": ["e"], "labels": [0]},
    ]


def test_null_is_refused_with_its_row_in_the_file(path, two_rows_per_batch):
    table = pq.read_table(path)
    pq.write_table(table.set_column(1, table.field(1), pa.array(["v", "w", "x", None, "z"])), path)
    with pytest.raises(DataError, match=r"train\.parquet, row 3: column 'body' is null"):
        list(RawSplit(path, ["subject", "body"]).texts())


def test_file_that_is_not_parquet_is_refused(path):
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"train\.parquet cannot be read") as error:
        RawSplit(path, ["subject"])
    assert "dvc repro -f download" in error.value.hint


def test_damage_that_is_detected_while_reading_names_the_row(path):
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"train\.parquet cannot be read after row 0"):
        list(RawSplit(path, ["subject"]).texts())
