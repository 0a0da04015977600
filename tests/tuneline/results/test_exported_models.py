import onnx
import pyarrow as pa
import pytest
from onnx import TensorProto, helper

from tests.records import export_record
from tuneline.core.hashes import file_hash
from tuneline.core.tables import write_table
from tuneline.core.written_records import write_record
from tuneline.onnx.usage import TokenizerRecord
from tuneline.results import page
from tuneline.tasks import Classification
from tuneline.tasks.schemas import tokenized_schema


@pytest.fixture
def exported(tmp_path, monkeypatch):
    """An exported model that sums its input ids, and tokenized rows."""
    monkeypatch.setattr(page, "SECONDS", 0.05)
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["rows", "tokens"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["rows", 1])
    nodes = [
        helper.make_node("ReduceSum", ["input_ids", "axes"], ["sum"], keepdims=1),
        helper.make_node("Cast", ["sum"], ["logits"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(
        nodes, "g", [ids], [logits], [helper.make_tensor("axes", TensorProto.INT64, [1], [1])]
    )
    (tmp_path / "models/onnx").mkdir(parents=True)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10),
        tmp_path / "models/onnx/model.onnx",
    )
    (tmp_path / "models/onnx/tokenizer.json").write_text("{}")
    hashes = {name: file_hash(tmp_path / "models/onnx" / name) for name in ("model.onnx", "tokenizer.json")}
    tokenizer = TokenizerRecord(
        file="tokenizer.json", sha256=hashes.pop("tokenizer.json"), truncation_side="right"
    )
    write_record(
        tmp_path / "models/onnx/export.json", export_record({"fp32": {"sha256": hashes}}, tokenizer=tokenizer)
    )
    rows = [[1] * (3 + row % 5) for row in range(50)]
    columns = {"input_ids": rows, "attention_mask": rows, "labels": [0] * 50}
    (tmp_path / "data/tokenized").mkdir(parents=True)
    schema = tokenized_schema(token_type_ids=False, task=Classification(("a", "b")))
    write_table(pa.table(columns, schema=schema), tmp_path / "data/tokenized/test.parquet")
    return tmp_path


def test_latency_is_measured_for_each_batch_size_and_written(exported):
    latencies = page.measure_latencies(exported, "test")
    assert [(name, [one.batch_size for one in found]) for name, found in latencies.measured.items()] == [
        ("fp32", [1, 32])
    ]
    assert all(0 < one.p50_ms <= one.p95_ms and one.rows_per_second > 0 for one in latencies.measured["fp32"])
    assert page.read_latency(exported) == latencies


@pytest.mark.parametrize("missing", ["models/onnx/export.json", "data/tokenized/test.parquet"])
def test_latency_is_none_without_models_or_rows(exported, missing):
    (exported / missing).unlink()
    assert page.measure_latencies(exported, "test") is None
