import json
from pathlib import Path

import onnx
import pytest

from stages.export import main
from tests.conftest import ROOT
from tests.small_pipeline import MAX_LENGTH, QUEUES, write_pipeline
from tuneline.core.stage.provenance import StageProvenance, provenance_file
from tuneline.onnx.records import ExportRecord

FILES = {
    "config.json",
    "export.json",
    "model.int8.onnx",
    "model.onnx",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The root of a project in which ``export`` has run with all precisions."""
    folder = tmp_path_factory.mktemp("project")
    write_pipeline(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        main()
    return folder


@pytest.fixture
def candidates(project, monkeypatch):
    monkeypatch.chdir(project)
    return project / "models/candidates"


@pytest.fixture
def record(candidates):
    return ExportRecord.read(candidates / "export.json")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_export_writes_every_model_and_the_tokenizer(candidates):
    assert set(contents(candidates)) == FILES


def test_export_is_deterministic(candidates):
    before = contents(candidates)
    main()
    assert contents(candidates) == before


def test_exported_files_contain_no_path_of_the_machine(candidates, project):
    for name, content in contents(candidates).items():
        assert str(project).encode() not in content, name
        assert str(ROOT).encode() not in content, name
        assert str(Path.home()).encode() not in content, name


def test_record_says_how_to_use_the_model(record):
    assert record.labels == list(QUEUES)
    assert (record.task, record.max_length, record.text_columns) == (
        "classification",
        MAX_LENGTH,
        ["subject", "body"],
    )
    assert record.inputs == ["input_ids", "attention_mask", "token_type_ids"]
    files = {"fp32": "model.onnx", "int8": "model.int8.onnx"}
    assert {name: model.file for name, model in record.models.items()} == files


def test_record_has_the_provenance_of_every_stage(record):
    assert record.provenance.data.sha256.keys() == {"train", "validation", "test"}
    assert record.provenance.stages.keys() == {"base", "download", "tokenize", "train", "export"}
    assert record.provenance.stages["train"] == StageProvenance.read(provenance_file("train"))
    assert record.provenance.stages["export"].parameters["export"]["precisions"] == ["fp32", "int8"]


def test_metadata_of_each_model_is_the_record(candidates, record):
    values = record.model_dump(mode="json", exclude={"models", "inputs"})
    for precision, model in record.models.items():
        metadata = {item.key: item.value for item in onnx.load(candidates / model.file).metadata_props}
        assert metadata.pop("precision") == precision
        assert metadata.keys() == values.keys()
        assert json.loads(metadata["labels"]) == list(QUEUES)
        assert json.loads(metadata["provenance"]) == values["provenance"]
