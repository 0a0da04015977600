"""Rows by which it is noticed that a model computes other numbers."""

import json
import shutil

import numpy as np
import onnx
import pytest

from tests.exported_pipeline import published_pipeline
from tuneline import TextClassifier
from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.records import file_hash
from tuneline.onnx.probes import check_probes, probe_outputs, probe_texts
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord

KINDS = [("classification", "truncate"), ("classification", "windows"), ("regression", "truncate")]


@pytest.fixture(params=KINDS, ids=["-".join(kind) for kind in KINDS])
def folder(request, tmp_path_factory):
    return published_pipeline(tmp_path_factory, *request.param) / "models/onnx"


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_published_model_computes_what_is_recorded(folder, precision):
    model = TextClassifier.load(folder, precision, threads=1)
    record = UsageRecord.read(folder / EXPORT_RECORD)
    assert len(record.probes) >= 3
    assert [tuple(row) for row in record.probes] == probe_texts(model)
    assert np.ptp(record.models[precision].probe_outputs) > 0
    check_probes(model, folder)


def test_other_numbers_are_refused_and_rounding_is_not(tmp_path, tmp_path_factory):
    published = published_pipeline(tmp_path_factory, "classification") / "models/onnx"
    folder = shutil.copytree(published, tmp_path / "onnx")
    model = TextClassifier.load(folder, threads=1)
    outputs = np.array(probe_outputs(model, probe_texts(model)))
    spread = np.ptp(outputs)

    def record(shift):
        content = json.loads((folder / EXPORT_RECORD).read_text())
        shifted = outputs.copy()
        shifted[-1, 0] += shift * spread
        content["models"]["fp32"]["probe_outputs"] = shifted.tolist()
        (folder / EXPORT_RECORD).write_text(json.dumps(content))

    record(0.0005)
    check_probes(model, folder)
    record(0.01)
    with pytest.raises(StageError, match="the fp32 model computes other numbers here") as error:
        check_probes(model, folder)
    assert "onnxruntime" in error.value.hint


def test_model_that_computes_nan_is_refused(tmp_path, tmp_path_factory):
    """The hash in its record is that of the damaged file."""
    published = published_pipeline(tmp_path_factory, "classification") / "models/onnx"
    folder = shutil.copytree(published, tmp_path / "onnx")
    graph = onnx.load(folder / "model.onnx")
    (bias,) = [weights for weights in graph.graph.initializer if weights.name == "classifier.bias"]
    bias.raw_data = np.full(bias.dims, np.nan, np.float32).tobytes()
    onnx.save(graph, folder / "model.onnx")
    record = json.loads((folder / EXPORT_RECORD).read_text())
    record["models"]["fp32"]["sha256"]["model.onnx"] = file_hash(folder / "model.onnx")
    (folder / EXPORT_RECORD).write_text(json.dumps(record))
    with pytest.raises(StageError, match="differ by up to nan"):
        check_probes(TextClassifier.load(folder, threads=1), folder)


def test_tokenizer_that_reads_other_tokens_is_noticed(tmp_path, tmp_path_factory):
    """Its hash is right, as if another version of the library read the same file in another way."""
    folder = published_pipeline(tmp_path_factory, "classification") / "models/onnx"
    model = TextClassifier.load(folder, threads=1)
    tokenizer = json.loads(model.encoder.tokenizer.to_str())
    vocabulary = tokenizer["model"]["vocab"]
    words = sorted(vocabulary, key=vocabulary.get)[10:]
    for word, other in zip(words, reversed(words), strict=True):
        tokenizer["model"]["vocab"][word] = vocabulary[other] if word < other else vocabulary[word]
    model.encoder.tokenizer = type(model.encoder.tokenizer).from_str(json.dumps(tokenizer))
    with pytest.raises(StageError, match="computes other numbers here"):
        check_probes(model, folder)
