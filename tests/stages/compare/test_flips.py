import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.compare import flips
from stages.compare.comparison import Rows, compare_logits
from stages.compare.flips import describe_flips, read_rows
from tuneline.files.schemas import LabelSchema


@pytest.fixture
def raw(tmp_path):
    """Twenty rows in groups of three."""
    path = tmp_path / "test.parquet"
    pq.write_table(pa.table({"text": [f"text {row}" for row in range(20)], "labels": range(20)}), path, row_group_size=3)
    return path


@pytest.mark.parametrize("places", [[], [0], [19], [7, 2, 3, 19, 0, 8], list(range(20))])
def test_rows_are_read_from_their_groups_in_the_order_asked_for(raw, places):
    assert read_rows(raw, np.array(places, dtype=np.int64), ["text"]) == [{"text": f"text {place}"} for place in places]


def compared(rows, exported):
    return compare_logits(rows, np.asarray(exported, dtype=np.float32), 0.05, seed=0)


def test_a_flipped_row_is_shown_with_its_text_and_what_each_model_says(raw):
    rows = Rows(np.array([0, 1]), LabelSchema(("no", "yes")), np.array([[0, 5], [0, 2]], dtype=np.float32))
    (flip,) = describe_flips(compared(rows, [[0, 5], [1, 0]]), rows, raw, ["text"])
    assert flip == {
        "row": 1,
        "text": {"text": "text 1"},
        "label": "yes",
        "trained": {"prediction": "yes", "probability": 0.880797},
        "exported": {"prediction": "no", "probability": 0.731059},
        "difference": 2.0,
    }


def test_a_number_is_shown_as_such(raw):
    rows = Rows(np.array([0, 1], np.float32), LabelSchema(None), np.array([[0], [1]], dtype=np.float32))
    (flip,) = describe_flips(compared(rows, [[0], [1.5]]), rows, raw, ["text"])
    assert (flip["label"], flip["trained"], flip["exported"]) == (1.0, {"prediction": 1.0}, {"prediction": 1.5})


def test_only_the_worst_are_shown(raw, monkeypatch):
    monkeypatch.setattr(flips, "LIMIT", 2)
    rows = Rows(np.zeros(20, np.int64), LabelSchema(("no", "yes")), np.tile(np.array([1, 0], np.float32), (20, 1)))
    exported = np.stack([np.zeros(20), 1 + np.arange(20)], axis=1)
    assert [flip["row"] for flip in describe_flips(compared(rows, exported), rows, raw, ["text"])] == [19, 18]
