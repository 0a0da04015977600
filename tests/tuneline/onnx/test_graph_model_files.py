import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from tuneline.onnx.graph import clean_graph, save_model, weight_bytes

WEIGHTS = np.arange(4096, dtype=np.float32).reshape(64, 64)


@pytest.fixture
def model():
    node = helper.make_node("MatMul", ["x", "weights"], ["logits"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in ("x", "logits"))
    graph = helper.make_graph([node], "tiny", [x], [y], [numpy_helper.from_array(WEIGHTS, "weights")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def logits(path):
    return onnxruntime.InferenceSession(str(path)).run(None, {"x": np.eye(64, dtype=np.float32)})[0]


def test_save_model_writes_weights_above_the_limit_to_a_second_file(model, tmp_path):
    files = save_model(model, tmp_path / "model.onnx", one_file=weight_bytes(model) - 1)
    assert [path.name for path in files] == ["model.onnx", "model.onnx.data"]
    assert files[0].stat().st_size < 1000
    np.testing.assert_array_equal(logits(files[0]), WEIGHTS)


@pytest.mark.parametrize("one_file", [0, 10**6])
def test_save_model_is_deterministic(model, tmp_path, one_file):
    contents = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        contents.append(
            [path.read_bytes() for path in save_model(model, tmp_path / name / "model.onnx", one_file)]
        )
    assert contents[0] == contents[1]


def test_clean_removes_paths_and_versions(model):
    model.producer_version = "2.13.0+cpu"
    model.doc_string = model.graph.name = model.graph.node[0].doc_string = "/home/someone"
    for part in (model, model.graph, model.graph.node[0], model.graph.input[0]):
        part.metadata_props.add(key="stack_trace", value="/home/someone/model.py")
    cleaned = clean_graph(model)
    assert b"/home/someone" not in cleaned.SerializeToString()
    assert b"2.13.0" not in cleaned.SerializeToString()
    onnx.checker.check_model(cleaned)
