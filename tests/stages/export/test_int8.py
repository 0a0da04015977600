"""Quantization to int8: its methods, the choice among them, and the layers that stay in fp32."""

import functools
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from stages.export import int8
from stages.export.graph import to_onnx
from stages.export.int8 import (
    Fp32Model,
    QuantizationRows,
    linear_layers,
    method_named,
    scalable_products,
    sensitive_layers,
    smooth,
    to_dynamic_int8,
    to_int8,
)
from tests.params import params
from tests.small_pipeline import FAMILIES, tiny_model
from tuneline.core.tables import SplitReader

MISSING = SplitReader(Path("no/such"), "file", (Path("no/such/file.parquet"),))


def int8_params(**values):
    return params(export={"int8": values}).export.int8


def test_mean_difference_of_nan_is_infinite(fp32, rows):
    reference = Fp32Model.of(fp32, rows)
    assert reference.difference(reference.logits + 2) == pytest.approx(2)
    assert reference.difference(np.full_like(reference.logits, np.nan)) == float("inf")


@pytest.fixture
def rows(pipeline):
    train, validation = (
        SplitReader.open(pipeline / "data/tokenized", name, "tokenize") for name in ("train", "validation")
    )
    return QuantizationRows(train, validation, 0, seed=1, close_rmse=0.25)


def ids(batches):
    return [batch["input_ids"].tolist() for batch in batches]


def test_dynamic_quantization_reads_no_data(fp32):
    _, quantization = to_int8(
        fp32, int8_params(method="dynamic"), QuantizationRows(MISSING, MISSING, 0, seed=1, close_rmse=0.25)
    )
    assert quantization == {"method": "dynamic", "weight_bits": 7}


def test_static_quantization_does_not_read_the_validation_split(fp32, rows):
    _, quantization = to_int8(
        fp32,
        int8_params(method="static", calibration_rows=8),
        QuantizationRows(rows.train, MISSING, 0, seed=1, close_rmse=0.25),
    )
    assert quantization == {"method": "static", "weight_bits": 7}


def test_smoothing_does_not_read_the_validation_split(fp32, rows):
    only_train = QuantizationRows(rows.train, MISSING, 0, seed=1, close_rmse=0.25)
    _, quantization = to_int8(fp32, int8_params(method="smoothed", calibration_rows=8), only_train)
    assert quantization == {"method": "smoothed", "weight_bits": 7}


def test_method_best_selects_the_method_closest_to_fp32(fp32, rows):
    _, quantization = to_int8(fp32, int8_params(method="best", max_fp32=0.0), rows)
    differences = quantization["mean_abs_diff_on_validation"]
    assert set(differences) == {"dynamic", "smoothed", "static"}
    assert quantization["method"] == min(differences, key=differences.get)


@functools.cache
def exported(family):
    """Return the graph of a tiny model."""
    return to_onnx(tiny_model(family, 3), ["input_ids", "attention_mask"], opset=20)


IN_THE_DEFAULT_SET = {"albert", "bert"}
"""An ordinary architecture, and one whose layers share their weights."""
FAMILY_PARAMS = [
    pytest.param(family, marks=[] if family in IN_THE_DEFAULT_SET else [pytest.mark.slow])
    for family in sorted(FAMILIES)
]


@pytest.mark.parametrize("family", FAMILY_PARAMS)
def test_smoothed_graph_computes_the_same(family, rows):
    """Also where layers share their weights (albert), which then stay as they are."""
    model = exported(family)
    smoothed = smooth(model, rows.calibration(16))
    reference = Fp32Model.of(model, rows)
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


def test_layers_stay_in_fp32_until_predictions_agree(fp32, rows, monkeypatch):
    """A goal beyond reach keeps as many layers as allowed; their products are those of floats."""
    monkeypatch.setattr(int8, "GOAL", 1.01)
    allowed = 0.4
    model, quantization = to_int8(fp32, int8_params(method="best", max_fp32=allowed), rows)
    kept = quantization["fp32_layers"]
    sizes = linear_layers(fp32)
    assert kept
    assert sum(sizes[name] for name in kept) <= allowed * sum(sizes.values())
    assert {node.name for node in model.graph.node if node.op_type == "MatMul"} >= set(kept)

    all_int8, without = to_int8(fp32, int8_params(method="best", max_fp32=0.0), rows)
    assert "fp32_layers" not in without
    reference = Fp32Model.of(fp32, rows)
    assert reference.difference(reference.run(model)) < reference.difference(reference.run(all_int8))


def test_no_layer_is_kept_where_predictions_agree(fp32, rows, monkeypatch):
    monkeypatch.setattr(int8, "GOAL", 0.0)
    _, quantization = to_int8(fp32, int8_params(method="best", max_fp32=0.4), rows)
    assert "fp32_layers" not in quantization


def test_most_sensitive_layer_comes_first(fp32, rows):
    """The input of one layer gets a huge channel, of little weight there: rounding that layer costs most."""
    fragile = "bert.encoder.layer.1.output.dense"
    before = "bert.encoder.layer.1.intermediate.dense"
    model = onnx.ModelProto()
    model.CopyFrom(fp32)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.name in {fragile, before}:
            tensor = weights[node.input[1]]
            values = onnx.numpy_helper.to_array(tensor).copy()
            if node.name == before:
                values[:, 0] *= 1000
            else:
                values[0] /= 1000
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    method = method_named("dynamic", model, int8_params(), rows)
    assert sensitive_layers(method, linear_layers(model), Fp32Model.of(model, rows))[0] == fragile


@pytest.mark.parametrize("family", FAMILY_PARAMS)
def test_linear_layers_are_named_after_their_modules(family):
    names = list(linear_layers(exported(family)))
    assert len(set(names)) == len(names)
    named = [name for name in names if "." in name or name in {"classifier", "pre_classifier"}]
    assert len(named) >= len(names) / 2, names


def test_calibration_rows_are_sampled_from_train_with_the_seed(rows):
    drawn = ids(rows.calibration(20))
    assert sum(map(len, drawn)) == 20
    assert drawn == ids(rows.calibration(20))
    assert drawn != ids(
        QuantizationRows(rows.train, rows.validation, 0, seed=2, close_rmse=0.25).calibration(20)
    )


def test_calibration_uses_every_row_of_a_small_split(rows):
    assert sum(map(len, ids(rows.calibration(10_000)))) == 60
    assert len(rows.selection()) == 30


def test_method_selection_reads_a_limited_number_of_rows(rows, monkeypatch):
    monkeypatch.setattr(int8, "SELECTION_ROWS", 7)
    chosen = rows.selection()
    assert len(chosen) == 7
    assert chosen.offsets[-1] == sum(chosen.lengths) == len(chosen.values["input_ids"])
    assert np.array_equal(chosen.labels, rows.selection().labels)
