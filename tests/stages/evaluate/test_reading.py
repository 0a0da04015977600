import json

import pytest

from stages.evaluate.reading import read_places, read_texts
from tests.stages.tokenize.made import write_raw
from tuneline.errors import DataError


@pytest.fixture
def raw(tmp_path):
    write_raw(tmp_path / "test.parquet", [["a", "b"], ["c", "d"]])
    return tmp_path / "test.parquet"


def test_texts_come_column_by_column(raw):
    assert read_texts(raw, ["body", "subject"], 2) == [["c", "d"], ["a", "b"]]


def test_texts_of_other_rows_are_refused(raw):
    with pytest.raises(DataError, match=r"has 2 rows, the tokenized split has 3(.|\n)*dvc repro tokenize"):
        read_texts(raw, ["body"], 3)


def test_a_column_that_is_not_there_is_named(raw):
    with pytest.raises(DataError, match="has no column 'title'"):
        read_texts(raw, ["title"], 2)


def test_where_rows_were_drawn_from_stands_in_source_json(raw, tmp_path):
    source = tmp_path / "source.json"
    assert read_places(raw, source, "test")[0] == ""
    source.write_text(json.dumps({"splits": {"test": {"from": "a+b", "rows": 2}}}))
    specification, places = read_places(raw, source, "test")
    assert (specification, places.tolist()) == ("a+b", [0, 1])
