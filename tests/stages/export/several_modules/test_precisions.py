import numpy as np
import onnx
import pytest

from stages.export.__main__ import to_fp16
from stages.export.graph import save_model, weight_bytes
from stages.export.int8 import to_dynamic_int8, to_static_int8
from tuneline.core.tables import SplitReader
from tuneline.model.batches import length_sorted_batches
from tuneline.model.tokenized_splits import TokenizedSplit
from tuneline.onnx.session import OnnxClassifier, logits_of


@pytest.fixture(scope="module")
def split(pipeline):
    return TokenizedSplit.read(SplitReader.open(pipeline / "data/tokenized", "test", "tokenize"))


def calibration(split):
    return (split.pad(rows, 0) for rows in length_sorted_batches(split.lengths, 16))


@pytest.fixture(scope="module")
def models(fp32, split):
    before = fp32.SerializeToString(deterministic=True)
    models = {
        "fp32": fp32,
        "fp16": to_fp16(fp32),
        "dynamic": to_dynamic_int8(fp32, reduce_range=True),
        "static": to_static_int8(fp32, True, calibration(split)),
    }
    assert fp32.SerializeToString(deterministic=True) == before, "a conversion must not change the fp32 model"
    return models


@pytest.fixture(scope="module")
def sessions(models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        name: OnnxClassifier(save_model(model, folder / f"{name}.onnx")[0]) for name, model in models.items()
    }


@pytest.mark.parametrize(("precision", "fraction"), [("fp16", 0.52), ("dynamic", 0.35), ("static", 0.35)])
def test_lower_precisions_have_smaller_weights(models, precision, fraction):
    """About half for fp16 and a quarter for int8: shapes, biases and scales, not converted, matter in a tiny
    model."""
    assert weight_bytes(models[precision]) < fraction * weight_bytes(models["fp32"])


@pytest.mark.parametrize("precision", ["fp16", "dynamic", "static"])
def test_logits_are_float32_in_every_precision(models, precision):
    """Programs that read logits need not know the precision."""
    assert models[precision].graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@pytest.mark.parametrize("precision", ["fp16", "dynamic", "static"])
def test_lower_precisions_keep_inputs_and_predictions(models, sessions, split, precision):
    outputs = split.task.outputs
    reference = logits_of(sessions["fp32"], split, outputs, 0)
    logits = logits_of(sessions[precision], split, outputs, 0)
    assert sessions[precision].inputs == sessions["fp32"].inputs
    assert np.mean(reference.argmax(axis=1) == logits.argmax(axis=1)) >= 0.9
    assert np.abs(logits - reference).mean() < 0.1 * reference.std()


def test_fp16_logits_do_not_depend_on_padding(sessions, split):
    """The mask is a number beyond the range of fp16: it must become the largest number, not infinity."""
    whole = sessions["fp16"].logits(split.pad(np.arange(len(split)), 0))
    alone = np.concatenate(
        [sessions["fp16"].logits(split.pad(np.array([row]), 0)) for row in range(len(split))]
    )
    np.testing.assert_allclose(whole, alone, atol=2e-2)


def test_static_int8_logits_do_not_depend_on_the_rest_of_the_batch(sessions, split):
    whole = sessions["static"].logits(split.pad(np.arange(len(split)), 0))
    alone = np.concatenate(
        [sessions["static"].logits(split.pad(np.array([row]), 0)) for row in range(len(split))]
    )
    np.testing.assert_allclose(whole, alone, atol=1e-5)


def test_quantization_is_deterministic(fp32, models, split):
    assert to_dynamic_int8(fp32, True).SerializeToString(deterministic=True) == models[
        "dynamic"
    ].SerializeToString(deterministic=True)
    again = to_static_int8(fp32, True, calibration(split))
    assert again.SerializeToString(deterministic=True) == models["static"].SerializeToString(
        deterministic=True
    )
