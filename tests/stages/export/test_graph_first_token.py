import numpy as np
import onnx
import onnxruntime
import pytest

from stages.export.graph import ShapedGraph, keep_first_token, to_onnx
from tests.exported_graph import COLUMNS
from tests.small_pipeline import tiny_model
from tests.stages.export.graphs import batch_of, logits_of, rewritings_of, torch_logits

POOLED = """
<ir_version: 10, opset_import: ["" : 20]>
pooled (float[batch,sequence,4] hidden) => (float[batch,4] pooled)
<int64 token, float[batch,sequence,4] activated, float[batch,sequence,4] doubled>
{
  activated = Tanh(hidden)
  doubled = Add(activated, activated)
  pooled = Gather<axis: int = 1>(doubled, token)
}
"""


def pooled(token):
    """Return a model that reads one token after two operators."""
    model = onnx.parser.parse_model(POOLED)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(token), "token"))
    return model


def test_graph_that_reads_another_token_is_not_narrowed():
    model = pooled(1)
    before = model.SerializeToString()
    keep_first_token(ShapedGraph.read(model.graph))
    assert model.SerializeToString() == before


@pytest.mark.slow
def test_model_with_mean_pooling_keeps_all_tokens():
    model = tiny_model("modernbert", 3, pooling="mean")
    exported = to_onnx(model, COLUMNS[:2], opset=20)
    assert rewritings_of(exported) == {"padding"}
    batch = batch_of(3, 9, padding=0)
    session = onnxruntime.InferenceSession(exported.SerializeToString())
    np.testing.assert_allclose(logits_of(session, batch), torch_logits(model, batch, COLUMNS[:2]), atol=2e-6)
