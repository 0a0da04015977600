"""Quantization to int8: smoothing, and which weights it scales."""

import numpy as np
import onnx
import onnxruntime
import pytest

from stages.export.int8 import scalable_products, smooth, to_dynamic_int8
from stages.export.int8_search import Fp32Model
from tests.exported_graph import exported_graph
from tests.small_pipeline import FAMILIES

IN_THE_DEFAULT_SET = {"albert", "bert"}
"""An ordinary architecture, and one whose layers share their weights."""
FAMILY_PARAMS = [
    pytest.param(family, marks=[] if family in IN_THE_DEFAULT_SET else [pytest.mark.slow])
    for family in sorted(FAMILIES)
]


@pytest.mark.parametrize("family", FAMILY_PARAMS)
def test_smoothed_graph_computes_the_same(family, rows, tmp_path_factory):
    """Also where layers share their weights (albert), which then stay as they are."""
    model = exported_graph(tmp_path_factory, family)
    smoothed = smooth(model, rows.calibration(16))
    reference = Fp32Model.of(model, rows, 256)
    assert smoothed.SerializeToString() != model.SerializeToString()
    np.testing.assert_allclose(
        reference.run(smoothed), reference.logits, atol=1e-3 * np.abs(reference.logits).max()
    )


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
        session = onnxruntime.InferenceSession(to_dynamic_int8(graph, reduce_range=True).SerializeToString())
        return np.abs(session.run(["y"], {"x": x})[0] - x @ weight).mean()

    assert error(smooth(model, [{"x": x}])) < 0.3 * error(model)
