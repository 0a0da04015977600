import numpy as np
import onnxruntime
import pytest

from tests.exported_graph import COLUMNS
from tests.small_pipeline import tiny_model
from tests.stages.export.graphs import batch_of, logits_of, torch_logits


def padded_on_the_left():
    return {name: values[:, ::-1].copy() for name, values in batch_of(3, 9, padding=0).items()}


def padded_in_every_row():
    return {name: np.pad(values, ((0, 0), (0, 2))) for name, values in batch_of(3, 9, padding=0).items()}


def not_padded():
    return {**batch_of(3, 9, padding=0), "attention_mask": np.ones((3, 9), np.int64)}


@pytest.mark.parametrize("padded", [padded_on_the_left, padded_in_every_row, not_padded])
def test_padding_is_skipped_on_either_side_of_a_row(fp32, padded):
    session = onnxruntime.InferenceSession(fp32.SerializeToString())
    np.testing.assert_allclose(
        logits_of(session, padded()), torch_logits(tiny_model("bert", 3), padded(), COLUMNS), atol=2e-6
    )


def test_fully_masked_row_does_not_change_the_other_rows(fp32):
    session, batch = onnxruntime.InferenceSession(fp32.SerializeToString()), batch_of(3, 9, padding=0)
    before = logits_of(session, batch)
    batch["attention_mask"][2] = 0
    after = logits_of(session, batch)
    np.testing.assert_allclose(after[:2], before[:2], atol=2e-6)
    assert np.isfinite(after).all()
