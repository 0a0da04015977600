import os
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.conftest import ROOT
from tuneline.errors import StageError
from tuneline.onnx.session import OnnxClassifier, threads


def write_model(path, *nodes):
    """A model of some nodes that reads one input."""
    given = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
    made = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence"])
    model = helper.make_model(helper.make_graph(nodes, "g", [given], [made]), opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    model.metadata_props.add(key="task", value="classification")
    onnx.save(model, path)


@pytest.fixture
def casting(tmp_path):
    """A model whose logits are the rows' ids cast to float."""
    write_model(tmp_path / "model.onnx", helper.make_node("Cast", ["input_ids"], ["logits"], to=TensorProto.FLOAT))
    return OnnxClassifier(tmp_path / "model.onnx")


def test_a_model_is_fed_what_it_asks_for_and_no_more(casting):
    ids = np.array([[1, 2], [3, 4]])
    logits = casting.logits({"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)})
    np.testing.assert_array_equal(logits, ids.astype(np.float32))


def test_what_a_model_says_of_itself_can_be_read(casting):
    assert casting.metadata == {"task": "classification"}


@pytest.mark.parametrize("content", [b"", b"not a model", b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_file_that_is_no_model_is_named(tmp_path, content):
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(StageError, match=r"model\.onnx cannot be loaded"):
        OnnxClassifier(tmp_path / "model.onnx")


def test_threads_are_those_asked_for_or_the_cores_that_may_be_used(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert threads() == len(os.sched_getaffinity(0))


def test_threads_rest_after_a_batch(tmp_path):
    """They would wait for the next one at full speed otherwise, and take the cores from the tokenizer or from another model."""
    cast = helper.make_node("Cast", ["input_ids"], ["ids"], to=TensorProto.FLOAT)
    write_model(tmp_path / "model.onnx", cast, helper.make_node("MatMul", ["ids", "ids"], ["logits"]))
    model, ids, spent = OnnxClassifier(tmp_path / "model.onnx", intra_op_threads=2), np.ones((512, 512), np.int64), []
    for _ in range(5):
        model.logits({"input_ids": ids})
        started = time.process_time()
        time.sleep(0.1)
        spent.append(time.process_time() - started)
    assert np.median(spent) < 0.005


def test_serving_needs_neither_torch_nor_transformers():
    code = "import sys, tuneline.onnx.session; sys.exit(bool({'torch', 'transformers', 'onnx', 'pandas', 'sklearn'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
