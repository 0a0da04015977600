import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from stages.export.storage import load, save, weight_bytes

WEIGHTS = np.arange(4096, dtype=np.float32).reshape(64, 64)


@pytest.fixture
def model():
    node = helper.make_node("MatMul", ["x", "weights"], ["logits"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in ("x", "logits"))
    graph = helper.make_graph([node], "tiny", [x], [y], [numpy_helper.from_array(WEIGHTS, "weights")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def logits(path):
    return onnxruntime.InferenceSession(str(path)).run(None, {"x": np.eye(64, dtype=np.float32)})[0]


def test_a_model_is_one_file(model, tmp_path):
    assert save(model, tmp_path / "model.onnx") == [tmp_path / "model.onnx"]
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    np.testing.assert_array_equal(logits(tmp_path / "model.onnx"), WEIGHTS)


def test_weights_beyond_the_limit_of_one_file_lie_beside_it(model, tmp_path):
    files = save(model, tmp_path / "model.onnx", one_file=weight_bytes(model) - 1)
    assert [path.name for path in files] == ["model.onnx", "model.onnx.data"]
    assert files[0].stat().st_size < 1000
    np.testing.assert_array_equal(logits(files[0]), WEIGHTS)


@pytest.mark.parametrize("one_file", [0, 10**6])
def test_saving_leaves_the_model_as_it_is_and_loading_gives_it_back(model, tmp_path, one_file):
    before = model.SerializeToString(deterministic=True)
    files = save(model, tmp_path / "model.onnx", one_file)
    assert model.SerializeToString(deterministic=True) == before
    np.testing.assert_array_equal(numpy_helper.to_array(load(files[0]).graph.initializer[0]), WEIGHTS)


@pytest.mark.parametrize("one_file", [0, 10**6])
def test_the_same_model_gives_the_same_bytes(model, tmp_path, one_file):
    contents = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        contents.append([path.read_bytes() for path in save(model, tmp_path / name / "model.onnx", one_file)])
    assert contents[0] == contents[1]


def test_the_size_counts_every_weight(model):
    extra = onnx.ModelProto()
    extra.CopyFrom(model)
    extra.graph.initializer.append(numpy_helper.from_array(np.zeros(10, dtype=np.int8), "more"))
    assert (weight_bytes(model), weight_bytes(extra)) == (4 * 4096, 4 * 4096 + 10)
