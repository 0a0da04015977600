import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.compare import logits as flip_module
from stages.compare.logits import TrainedLogits, compare_logits, describe_flips
from tests.shards import into_shards
from tuneline.core.tables import SplitReader
from tuneline.tasks import Classification


@pytest.fixture
def raw(tmp_path):
    """Twenty rows in shards of three."""
    path = tmp_path / "test.parquet"
    pq.write_table(pa.table({"text": [f"text {row}" for row in range(20)], "labels": range(20)}), path)
    into_shards(tmp_path, rows=3)
    return SplitReader.open(tmp_path, "test", "download")


def compared(reference, exported):
    return compare_logits(reference, np.asarray(exported, dtype=np.float32), 0.25, seed=0)


def test_flip_has_text_label_and_both_predictions(raw):
    reference = TrainedLogits(
        np.array([0, 1]), Classification(("no", "yes")), np.array([[0, 5], [0, 2]], dtype=np.float32)
    )
    (flip,) = describe_flips(compared(reference, [[0, 5], [1, 0]]), reference, raw, ["text"])
    assert flip.model_dump() == {
        "row": 1,
        "text": {"text": "text 1"},
        "label": "yes",
        "trained": {"prediction": "yes", "probability": 0.880797},
        "exported": {"prediction": "no", "probability": 0.731059},
        "difference": 2.0,
    }


def test_flips_are_limited_to_the_largest_differences(raw, monkeypatch):
    monkeypatch.setattr(flip_module, "LIMIT", 2)
    reference = TrainedLogits(
        np.zeros(20, np.int64), Classification(("no", "yes")), np.tile(np.array([1, 0], np.float32), (20, 1))
    )
    exported = np.stack([np.zeros(20), 1 + np.arange(20)], axis=1)
    flips = describe_flips(compared(reference, exported), reference, raw, ["text"])
    assert [(flip.row, flip.text) for flip in flips] == [(19, {"text": "text 19"}), (18, {"text": "text 18"})]
