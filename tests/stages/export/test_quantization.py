import numpy as np
import onnx
import pytest

from stages.export.half import to_fp16
from stages.export.quantization import mean_difference, to_dynamic_int8, to_static_int8
from stages.export.storage import save, weight_bytes
from tuneline.batches import TokenizedSplit, length_sorted_batches
from tuneline.onnx.session import OnnxClassifier, logits_of


@pytest.fixture(scope="module")
def split(line):
    return TokenizedSplit.read(line / "data/tokenized/test.parquet")


def calibration(split):
    return (split.pad(rows, 0) for rows in length_sorted_batches(split.lengths, 16))


@pytest.fixture(scope="module")
def made(fp32, split):
    before = fp32.SerializeToString(deterministic=True)
    models = {
        "fp32": fp32,
        "fp16": to_fp16(fp32),
        "dynamic": to_dynamic_int8(fp32, reduce_range=True),
        "static": to_static_int8(fp32, True, calibration(split)),
    }
    assert fp32.SerializeToString(deterministic=True) == before, "making one precision must not change what the next is made from"
    return models


@pytest.fixture(scope="module")
def sessions(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {name: OnnxClassifier(save(model, folder / f"{name}.onnx")[0]) for name, model in made.items()}


@pytest.mark.parametrize(("precision", "share"), [("fp16", 0.52), ("dynamic", 0.35), ("static", 0.35)])
def test_weights_shrink(made, precision, share):
    """Half for fp16, but for shapes and positions; a quarter for int8, but for biases and scales: many in a model this small."""
    assert weight_bytes(made[precision]) < share * weight_bytes(made["fp32"])


@pytest.mark.parametrize("precision", ["fp16", "dynamic", "static"])
def test_logits_come_out_in_float32(made, precision):
    """Whoever reads them need not know in which precision they were made."""
    assert made[precision].graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@pytest.mark.parametrize("precision", ["fp16", "dynamic", "static"])
def test_inputs_and_predictions_stay(made, sessions, split, precision):
    reference, logits = logits_of(sessions["fp32"], split, 0), logits_of(sessions[precision], split, 0)
    assert sessions[precision].inputs == sessions["fp32"].inputs
    assert np.mean(reference.argmax(axis=1) == logits.argmax(axis=1)) >= 0.9
    assert mean_difference(logits, reference) < 0.1 * reference.std()


def test_a_padded_row_gives_the_same_in_fp16_as_alone(sessions, split):
    """The mask is a number too large for fp16: it must become a large one, not an infinity."""
    whole = sessions["fp16"].logits(split.pad(np.arange(len(split)), 0))
    alone = np.concatenate([sessions["fp16"].logits(split.pad(np.array([row]), 0)) for row in range(len(split))])
    np.testing.assert_allclose(whole, alone, atol=2e-2)


def test_static_logits_do_not_depend_on_the_rest_of_the_batch(sessions, split):
    whole = sessions["static"].logits(split.pad(np.arange(len(split)), 0))
    alone = np.concatenate([sessions["static"].logits(split.pad(np.array([row]), 0)) for row in range(len(split))])
    np.testing.assert_allclose(whole, alone, atol=1e-5)


def test_quantizing_twice_gives_the_same_bytes(fp32, made, split):
    assert to_dynamic_int8(fp32, True).SerializeToString(deterministic=True) == made["dynamic"].SerializeToString(deterministic=True)
    again = to_static_int8(fp32, True, calibration(split))
    assert again.SerializeToString(deterministic=True) == made["static"].SerializeToString(deterministic=True)


def test_a_difference_that_is_no_number_is_the_largest():
    one = np.zeros((2, 3), np.float32)
    assert mean_difference(one + 2, one) == 2
    assert mean_difference(np.full_like(one, np.nan), one) == float("inf")
