import numpy as np
import onnx
import onnxruntime
import pytest

from stages.export.graph import ShapedGraph, skip_padding
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


LINEAR = """
<ir_version: 10, opset_import: ["" : 20]>
linear (float[batch,sequence,4] hidden, int64[batch,sequence] %s) => (float[batch,sequence,4] logits)
<float[4,4] weight, float[batch,sequence,4] dense>
{ dense = MatMul(hidden, weight) logits = Softmax(dense) }
"""


def operators(model):
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(("mask", "is_rewritten"), [("attention_mask", True), ("position_ids", False)])
def test_padding_is_skipped_only_if_the_graph_has_an_attention_mask(mask, is_rewritten):
    model = onnx.parser.parse_model(LINEAR % mask)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "weight"))
    skip_padding(ShapedGraph.read(model.graph))
    assert ("NonZero" in operators(model)) is is_rewritten
    assert [operators(model)[-1], len(model.graph.output)] == ["Softmax", 1]


def test_linear_layer_computes_real_tokens_only():
    """The real tokens of both rows are one list of three; padding holds the values of the real token before
    it."""
    model = onnx.parser.parse_model(LINEAR % "attention_mask")
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.diag([1, 2, 3, 4]).astype(np.float32), "weight")
    )
    skip_padding(ShapedGraph.read(model.graph))
    [product] = [node for node in model.graph.node if node.op_type == "MatMul"]
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(product.output[0]))
    hidden = np.arange(16, dtype=np.float32).reshape(2, 2, 4)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    [products] = session.run(
        [product.output[0]], {"hidden": hidden, "attention_mask": np.array([[1, 0], [1, 1]])}
    )
    np.testing.assert_array_equal(products, hidden[[0, 1, 1], [0, 0, 1]] * [1, 2, 3, 4])
