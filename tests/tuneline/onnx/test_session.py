import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tuneline.onnx.session import OnnxClassifier
from tuneline.runtime.errors import StageError


def write_model(path, *nodes):
    """Write a model with one input from some nodes."""
    source = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
    target = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence"])
    model = helper.make_model(
        helper.make_graph(nodes, "g", [source], [target]),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=10,
    )
    model.metadata_props.add(key="task", value="classification")
    onnx.save(model, path)


@pytest.fixture
def cast_model(tmp_path):
    """A model whose logits are the token ids."""
    write_model(
        tmp_path / "model.onnx", helper.make_node("Cast", ["input_ids"], ["logits"], to=TensorProto.FLOAT)
    )
    return OnnxClassifier(tmp_path / "model.onnx")


def test_logits_ignores_inputs_that_the_model_does_not_have(cast_model):
    ids = np.array([[1, 2], [3, 4]])
    logits = cast_model.logits(
        {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    )
    np.testing.assert_array_equal(logits, ids.astype(np.float32))


@pytest.mark.parametrize("content", [b"", b"not a model", b"version https://git-lfs.github.com/spec/v1\n"])
def test_invalid_model_file_is_named(tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(StageError, match=r"model\.onnx"):
        OnnxClassifier(tmp_path / "model.onnx")


def test_threads_do_not_spin_after_a_batch(tmp_path):
    """Spinning threads would slow down the tokenizer or another model."""
    cast = helper.make_node("Cast", ["input_ids"], ["ids"], to=TensorProto.FLOAT)
    write_model(tmp_path / "model.onnx", cast, helper.make_node("MatMul", ["ids", "ids"], ["logits"]))
    model, ids, cpu_seconds = (
        OnnxClassifier(tmp_path / "model.onnx", intra_op_threads=2),
        np.ones((512, 512), np.int64),
        [],
    )
    for _ in range(5):
        model.logits({"input_ids": ids})
        started = time.process_time()
        time.sleep(0.1)
        cpu_seconds.append(time.process_time() - started)
    assert np.median(cpu_seconds) < 0.005


def test_no_plan_of_the_memory_is_kept_for_each_shape_of_a_batch(cast_model):
    assert not cast_model._session.get_session_options().enable_mem_pattern
