"""Products of 8-bit numbers, with an emulation of PMADDUBSW, the instruction that clips them on processors
without VNNI."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import TensorProto, helper, numpy_helper

from stages.compare.saturation import (
    LARGEST_SUM,
    check_saturation,
    count_saturated,
    integer_products,
    largest_pair_sum,
    violation_of,
)
from stages.export.int8 import to_dynamic_int8, to_static_int8
from tests.exported_graph import exported_graph
from tuneline.onnx.session import run_outputs

NAMES = ["input_ids", "attention_mask", "token_type_ids"]


def clipped_product(activations, weights):
    """Multiply as PMADDUBSW and PMADDWD do: neighbouring products are added and clipped to 16 bits, then
    summed in 32 bits."""
    pairs = activations.astype(np.int32)[:, :, None] * weights.astype(np.int32)
    sums = pairs.reshape(len(activations), -1, 2, weights.shape[1]).sum(axis=2)
    return sums.clip(-LARGEST_SUM - 1, LARGEST_SUM).sum(axis=1)


def exact_product(activations, weights):
    return activations.astype(np.int32) @ weights.astype(np.int32)


def matrices(limit):
    """Activations of shape (3, 8) and weights of shape (8, 2), with weights of at most a limit."""
    weights = st.one_of(st.integers(-limit, limit), st.sampled_from([-limit, limit]))
    activations = st.one_of(st.integers(0, 255), st.just(255))
    return st.tuples(
        arrays.arrays(np.uint8, (3, 8), elements=activations),
        arrays.arrays(np.int8, (8, 2), elements=weights),
    )


@given(matrices(64))
def test_weights_in_7_bits_give_exact_products(pair):
    assert (clipped_product(*pair) == exact_product(*pair)).all()
    assert largest_pair_sum(pair[1]) <= LARGEST_SUM
    assert count_saturated(*pair) == 0


@settings(max_examples=300)
@given(matrices(127))
def test_every_clipped_product_of_8_bits_is_counted_and_within_the_bound(pair):
    activations, weights = pair
    sums = (activations.astype(np.int32)[:, :, None] * weights).reshape(3, 4, 2, 2).sum(axis=2)
    assert count_saturated(activations, weights) == ((sums > LARGEST_SUM) | (sums < -LARGEST_SUM - 1)).sum()
    if (clipped_product(activations, weights) != exact_product(activations, weights)).any():
        assert largest_pair_sum(weights) > LARGEST_SUM


@pytest.mark.parametrize(
    ("weights", "largest"),
    [([127, 127], 64_770), ([-128, -128], 65_280), ([127, -128], 32_640), ([64, 64], 32_640)],
)
def test_saturation_bound_is_reached_by_the_largest_activations_of_one_sign(weights, largest):
    assert largest_pair_sum(np.array([[value] for value in weights], np.int8)) == largest


def test_last_product_of_an_odd_number_of_inputs_is_counted():
    assert count_saturated(np.full((1, 3), 255, np.uint8), np.full((3, 1), 127, np.int8)) == 1


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return exported_graph(tmp_path_factory, "bert")


@pytest.fixture(scope="module")
def batch():
    ids = np.random.default_rng(0).integers(5, 120, (8, 12))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}


@pytest.fixture(scope="module", params=["dynamic", "static"])
def quantize(request, graph, batch):
    return {
        "dynamic": lambda reduce_range: to_dynamic_int8(graph, reduce_range),
        "static": lambda reduce_range: to_static_int8(graph, reduce_range, iter([batch])),
    }[request.param]


def linear_layers(graph):
    constants = {tensor.name for tensor in graph.initializer}
    return [node for node in graph.node if node.op_type in {"MatMul", "Gemm"} and node.input[1] in constants]


def test_default_model_has_no_product_that_can_saturate(graph, quantize, batch, tmp_path):
    model = quantize(reduce_range=True)
    assert len(integer_products(model.graph)) == len(linear_layers(graph.graph)) > 10
    onnx.save(model, path := tmp_path / "model.onnx")
    saturation = check_saturation(path, [batch])
    assert not saturation.possible
    assert saturation.largest_sum == 255 * 128


def test_products_of_8_bits_are_counted_on_rows(quantize, batch, tmp_path):
    model = quantize(reduce_range=False)
    onnx.save(model, path := tmp_path / "model.onnx")
    saturation = check_saturation(path, [batch])
    assert saturation.possible
    products = integer_products(model.graph)
    activations = run_outputs(model, [product.activations for product in products], batch)
    wrong = 0
    for product, values in zip(products, activations, strict=True):
        rows = values.reshape(-1, values.shape[-1])
        wrong += (clipped_product(rows, product.weights) != exact_product(rows, product.weights)).any()
    assert bool(wrong) == bool(saturation.saturated)
    assert "export.int8.reduce_range: true" in violation_of(saturation)


def test_product_of_an_unknown_form_is_an_error():
    node = helper.make_node("QLinearMatMul", ["a", "s", "z", "w", "s", "z", "s", "z"], ["y"])
    graph = helper.make_graph([node], "g", [], [], [numpy_helper.from_array(np.ones((2, 2), np.int8), "w")])
    with pytest.raises(ValueError, match="QLinearMatMul"):
        integer_products(graph)


def test_unsigned_weights_are_an_error():
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["a", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, [1, 2])],
        [],
        [numpy_helper.from_array(np.ones((2, 2), np.uint8), "w")],
    )
    with pytest.raises(ValueError, match="uint8, not int8"):
        integer_products(graph)
