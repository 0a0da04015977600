"""Linear layers of an int8 model in fp32: their names, their errors, and the mixed graph."""

import numpy as np
import onnx
import pytest

from stages.export.fp32_layers import layer_errors, linear_layers, with_fp32_layers
from stages.export.graph import weight_bytes
from stages.export.int8 import session_of, to_dynamic_int8
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
def test_linear_layers_are_named_after_their_modules(family, tmp_path_factory):
    names = list(linear_layers(exported_graph(tmp_path_factory, family)))
    assert len(set(names)) == len(names)
    named = [name for name in names if "." in name or name in {"classifier", "pre_classifier"}]
    assert len(named) >= len(names) / 2, names


@pytest.mark.parametrize("family", FAMILY_PARAMS)
def test_model_with_all_layers_in_fp32_computes_the_same(family, rows, tmp_path_factory):
    """Only the embeddings are rounded then; also where layers share their weights (albert)."""
    model = exported_graph(tmp_path_factory, family)
    quantized = to_dynamic_int8(model, reduce_range=True)
    mixed = with_fp32_layers(quantized, model, list(linear_layers(model)))
    assert "MatMulInteger" not in {node.op_type for node in mixed.graph.node}
    reference = Fp32Model.of(model, rows, 256)
    assert reference.difference(reference.run(mixed)) < reference.difference(reference.run(quantized))


def test_layer_in_fp32_has_its_weights_once(fp32):
    """The file has the fp32 weights of this layer, and no longer its int8 weights."""
    quantized = to_dynamic_int8(fp32, reduce_range=True)
    name = "bert.encoder.layer.1.output.dense"
    mixed = with_fp32_layers(quantized, fp32, [name])
    assert weight_bytes(mixed) - weight_bytes(quantized) == pytest.approx(
        3 * linear_layers(fp32)[name], rel=0.1
    )
    assert name in {node.name for node in mixed.graph.node}


def test_layer_errors_are_those_of_the_rounded_outputs():
    """The input of one layer has a large channel, of little weight: its other channels are coarse."""
    graph = """
    <ir_version: 10, opset_import: ["" : 20]>
    products (float[n,16] x, float[n,16] even) => (float[n,4] y, float[n,4] z)
    {
      y = MatMul(x, weight_y)
      z = MatMul(even, weight_z)
    }
    """
    random = np.random.default_rng(0)
    batch = {name: random.normal(size=(64, 16)).astype(np.float32) for name in ("x", "even")}
    batch["x"][:, 5] *= 100
    weight = random.normal(size=(16, 4)).astype(np.float32)
    weight[5] /= 100
    model = onnx.parser.parse_model(graph)
    for node in model.graph.node:
        node.name = f"layer_{node.output[0]}"
        model.graph.initializer.append(onnx.numpy_helper.from_array(weight, node.input[1]))
    quantized = to_dynamic_int8(model, reduce_range=True)

    errors = layer_errors(quantized, model, ["layer_y", "layer_z"], [batch])
    exact = {"y": batch["x"] @ weight, "z": batch["even"] @ weight}
    rounded = session_of(quantized).run(["y", "z"], batch)
    for name, logits in zip(exact, rounded, strict=True):
        expected = np.square(logits - exact[name]).sum() / np.square(exact[name]).sum()
        assert errors[f"layer_{name}"] == pytest.approx(expected, rel=1e-3)
    assert errors["layer_y"] > 10 * errors["layer_z"]
