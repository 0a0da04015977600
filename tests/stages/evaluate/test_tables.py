import json

import pytest

from stages.evaluate.tables import read_origin, read_texts
from tests.stages.tokenize.raw_splits import write_raw
from tuneline.errors import DataError


@pytest.fixture
def raw(tmp_path):
    write_raw(tmp_path / "test.parquet", [["a", "b"], ["c", "d"]])
    return tmp_path / "test.parquet"


def test_read_texts_returns_one_list_per_column(raw):
    assert read_texts(raw, ["body", "subject"], 2) == [["c", "d"], ["a", "b"]]


def test_texts_of_another_number_of_rows_are_an_error(raw):
    with pytest.raises(DataError, match=r"has 2 rows, the tokenized split has 3(.|\n)*dvc repro tokenize"):
        read_texts(raw, ["body"], 3)


def test_missing_column_is_named(raw):
    with pytest.raises(DataError, match="has no column 'title'"):
        read_texts(raw, ["title"], 2)


def test_read_origin_reads_source_json(raw, tmp_path):
    source = tmp_path / "source.json"
    assert read_origin(raw, source, "test")[0] == ""
    source.write_text(json.dumps({"splits": {"test": {"from": "a+b", "rows": 2}}}))
    specification, positions = read_origin(raw, source, "test")
    assert (specification, positions.tolist()) == ("a+b", [0, 1])
