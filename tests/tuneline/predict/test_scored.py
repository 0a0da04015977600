"""Texts of scored rows, found by their ids."""

import pyarrow as pa
import pytest

from tests.params import write_params
from tests.tuneline.scored_files import texts, write_scored
from tuneline.predict.scored import find_texts

EVEN = [0.5, 0.5]
JSON = (
    '{"id": 3, "text": "no parcel"}\n{"id": 4.0, "text": null}\n{"text": "without an id"}\n{"id": 5, "text":'
    ' "pay"}\n'
)


@pytest.fixture
def root(tmp_path):
    write_params(tmp_path, data={"source": "files", "text_columns": ["text"], "label_column": "label"})
    write_scored(tmp_path, "old.csv", "id,text\n1,old\n2,hello\n", [EVEN, EVEN], age=60)
    write_scored(tmp_path, "new.jsonl", JSON, [EVEN, EVEN], skipped=(2, 3))
    write_scored(tmp_path, "again.csv", "text,id\nnew,1\n", [EVEN], age=30)
    write_scored(tmp_path, "other.csv", "text\nno ids here\n", [EVEN])
    return tmp_path


@pytest.mark.parametrize(
    "ids",
    [pa.array([5, 1, 9, 3, 2, 4]), pa.array([5.0, 1.0, None, 3.0, 2.0]), pa.array([" 5", "1", "", "3", "2"])],
)
def test_texts_are_found_by_ids_of_any_type_the_latest_first(root, ids):
    found = find_texts(root, "data/scored", "id", ids)
    assert found["id"].type == ids.type
    assert found.column_names == ["id", "text"]
    assert list(texts(found).values()) == ["pay", "new", "no parcel", "hello"], "in the order of the ids"


@pytest.mark.promise("replaced-input")
def test_input_that_is_not_the_scored_one_gives_no_text(root):
    """A truncated copy would give the label to a part of the text."""
    (root / "data/archive/old.csv").write_text("id,text\n1,old\n2,hel")
    (root / "data/archive/again.csv").unlink()
    found = find_texts(root, root / "data/scored", "id", pa.array([1, 2, 3]))
    assert texts(found) == {3: "no parcel"}


def test_no_scored_files_give_no_texts(root):
    found = find_texts(root, "nowhere", "id", pa.array(["1"]))
    assert (found.num_rows, found.schema.names, found.schema.field("text").type) == (
        0,
        ["id", "text"],
        pa.string(),
    )
