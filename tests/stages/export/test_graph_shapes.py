import numpy as np
import onnx
import pytest

from stages.export.graph import ShapedGraph, int_attribute


@pytest.fixture
def shaped():
    """A graph with a weight, a value per token, and a mask of shape (batch, sequence, 1)."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 20]>
        example (float[batch,sequence,4] hidden, float[batch,sequence,1] mask)
            => (float[batch,sequence,4] masked)
        <float[4,4] weight, float[batch,sequence,4] dense>
        { dense = MatMul(hidden, weight) masked = Mul(dense, mask) }
    """)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "weight"))
    return ShapedGraph.read(model.graph)


def test_shapes_of_inputs_values_outputs_and_weights_are_read(shaped):
    token = ["batch", "sequence", 4]
    assert shaped.shapes == {
        "hidden": token,
        "mask": ["batch", "sequence", 1],
        "dense": token,
        "masked": token,
        "weight": [4, 4],
    }
    assert shaped.constants.keys() == {"weight"}


def test_consumers_are_node_and_input_and_minus_one_for_the_output(shaped):
    assert shaped.consumers() == {
        "hidden": [(0, 0)],
        "weight": [(0, 1)],
        "dense": [(1, 0)],
        "mask": [(1, 1)],
        "masked": [(-1, 0)],
    }


@pytest.mark.parametrize(
    ("name", "expected"), [("hidden", True), ("mask", False), ("weight", False), ("unknown", False)]
)
def test_value_with_a_vector_per_token_is_recognized(shaped, name, expected):
    assert shaped.is_per_token(name) is expected


def test_constant_is_added_once(shaped):
    assert [shaped.add_constant("axis", 1), shaped.add_constant("axis", 1)] == ["axis", "axis"]
    assert [tensor.name for tensor in shaped.graph.initializer] == ["weight", "axis"]


def test_int_attribute_has_a_default():
    node = onnx.helper.make_node("Gather", ["values", "index"], ["output"], axis=1)
    assert (int_attribute(node, "axis", 0), int_attribute(node, "batch_dims", 3)) == (1, 3)
