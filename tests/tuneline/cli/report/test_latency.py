import json

import numpy as np
import onnx
import pyarrow as pa
import pytest
from onnx import TensorProto, helper

from tuneline.cli.report import latency
from tuneline.files.schemas import LabelSchema, tokenized_schema, write_table


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A model of two operators that sums its ids, and rows to ask it about."""
    monkeypatch.setattr(latency, "SECONDS", 0.05)
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["rows", "tokens"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", 1])
    nodes = [
        helper.make_node("ReduceSum", ["input_ids", "axes"], ["sum"], keepdims=1),
        helper.make_node("Cast", ["sum"], ["logits"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(nodes, "g", [ids], [logits], [helper.make_tensor("axes", TensorProto.INT64, [1], [1])])
    (tmp_path / "models/onnx").mkdir(parents=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "models/onnx/model.onnx")
    record = {"pad_token_id": 0, "models": {"fp32": {"file": "model.onnx"}}}
    (tmp_path / "models/onnx/export.json").write_text(json.dumps(record))
    rows = [[1] * (3 + row % 5) for row in range(50)]
    columns = {"input_ids": rows, "attention_mask": rows, "labels": [0] * 50}
    (tmp_path / "data/tokenized").mkdir(parents=True)
    schema = tokenized_schema(token_type_ids=False, labels=LabelSchema(("a", "b")))
    write_table(pa.table(columns, schema=schema), tmp_path / "data/tokenized/test.parquet")
    return tmp_path


def test_every_model_is_measured_with_one_row_and_with_many_and_noted(served):
    found = latency.measure(served, "test")
    assert [(one.precision, one.batch_size) for one in found.measured] == [("fp32", 1), ("fp32", 32)]
    assert all(0 < one.p50_ms <= one.p95_ms and one.rows_per_second > 0 for one in found.measured)
    assert latency.last_measured(served) == found


@pytest.mark.parametrize("missing", ["models/onnx/export.json", "data/tokenized/test.parquet"])
def test_without_models_or_rows_there_is_nothing_to_measure(served, missing):
    (served / missing).unlink()
    assert latency.measure(served, "test") is None


def test_rows_are_cut_into_whole_batches_and_few_rows_into_one():
    assert [len(part) for part in latency.cut(np.arange(70), 32)] == [32, 32]
    assert [len(part) for part in latency.cut(np.arange(7), 32)] == [7]


def test_a_model_is_asked_often_enough_and_not_for_ever(monkeypatch):
    monkeypatch.setattr(latency, "SECONDS", 60)
    calls = list(latency.timed(lambda batch: None, [{"input_ids": [1]}]))
    assert len(calls) == latency.MOST_CALLS
