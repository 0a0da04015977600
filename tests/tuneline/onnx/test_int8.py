"""Quantization to int8: smoothing, and which weights it scales."""

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.exported_graph import exported_graph
from tests.small_pipeline import FAMILIES
from tuneline.onnx.graph import input_names, save_model, weight_bytes
from tuneline.onnx.int8 import scalable_products, smooth, to_dynamic_int8, to_int8
from tuneline.onnx.session import OnnxClassifier, logits_of

IN_THE_DEFAULT_SET = {"albert", "bert"}
"""An ordinary architecture, and one whose layers share their weights."""
FAMILY_PARAMS = [
    pytest.param(family, marks=[] if family in IN_THE_DEFAULT_SET else [pytest.mark.slow])
    for family in sorted(FAMILIES)
]


@pytest.mark.parametrize("family", FAMILY_PARAMS)
def test_smoothed_graph_computes_the_same(family, split, batches, tmp_path, tmp_path_factory):
    """Also where layers share their weights (albert), which then stay as they are."""
    model = exported_graph(tmp_path_factory, family)
    smoothed = smooth(model, batches)
    assert smoothed.SerializeToString() != model.SerializeToString()
    reference = logits(model, split, tmp_path)
    np.testing.assert_allclose(
        logits(smoothed, split, tmp_path), reference, atol=1e-3 * np.abs(reference).max()
    )


def logits(model, split, folder):
    (path,) = save_model(model, folder / "model.onnx")
    return logits_of(OnnxClassifier(path), split, split.task.outputs, 0)


def test_int8_is_smaller_keeps_inputs_and_predictions_and_is_always_the_same(fp32, split, batches, tmp_path):
    before = fp32.SerializeToString(deterministic=True)
    int8 = to_int8(fp32, batches)
    assert fp32.SerializeToString(deterministic=True) == before, "quantization must not change the fp32 model"
    assert to_int8(fp32, batches).SerializeToString(deterministic=True) == int8.SerializeToString(
        deterministic=True
    )
    assert weight_bytes(int8) < 0.35 * weight_bytes(fp32)
    assert input_names(int8) == input_names(fp32)
    reference = logits(fp32, split, tmp_path)
    rounded = logits(int8, split, tmp_path)
    assert np.mean(reference.argmax(axis=1) == rounded.argmax(axis=1)) >= 0.9
    assert np.abs(rounded - reference).mean() < 0.1 * reference.std()


def test_sums_of_two_products_fit_in_16_bits(fp32, batches):
    """So that processors without VNNI saturate none."""
    for tensor in to_int8(fp32, batches).graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT8:
            assert np.abs(onnx.numpy_helper.to_array(tensor).astype(int)).max() <= 64


def test_shared_weights_are_not_scaled():
    """Two layers with one weight: neither has the scale of the other."""
    shared = """
    <ir_version: 10, opset_import: ["" : 20]>
    shared (float[n,2] x) => (float[n,2] z)
    <float[2,2] weight = {1, 2, 3, 4}, float[2,2] own = {1, 2, 3, 4}>
    {
      y = MatMul(x, weight)
      activated = Tanh(y)
      v = MatMul(activated, weight)
      z = MatMul(v, own)
    }
    """
    assert scalable_products(onnx.parser.parse_model(shared).graph) == {"v": ["own"]}


def test_smoothing_brings_int8_closer_to_fp32_where_a_channel_is_large():
    """One channel is a hundred times as large: without smoothing, the others are rounded to its scale."""
    product = """
    <ir_version: 10, opset_import: ["" : 20]>
    product (float[n,16] x) => (float[n,4] y)
    {
      y = MatMul(x, weight)
    }
    """
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 16)).astype(np.float32)
    x[:, 5] *= 100
    weight = random.normal(size=(16, 4)).astype(np.float32)
    weight[5] /= 100
    model = onnx.parser.parse_model(product)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "weight"))

    def error(graph):
        session = onnxruntime.InferenceSession(to_dynamic_int8(graph).SerializeToString())
        return np.abs(session.run(["y"], {"x": x})[0] - x @ weight).mean()

    assert error(smooth(model, [{"x": x}])) < 0.3 * error(model)
