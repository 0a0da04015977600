import json
from pathlib import Path

import onnx
import pytest
from ruamel.yaml import YAML

from stages.export.__main__ import main
from stages.export.record import provenance_record
from tests.conftest import ROOT
from tests.imports import imported_files
from tests.small_pipeline import MAX_LENGTH, QUEUES, write_pipeline
from tuneline.errors import StageError
from tuneline.params.loading import load_params

STAGES = ("download", "tokenize", "train", "export")
FILES = {"config.json", "export.json", "model.fp16.onnx", "model.int8.onnx", "model.onnx", "tokenizer.json", "tokenizer_config.json"}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The root of a project in which ``export`` has run with all precisions."""
    folder = tmp_path_factory.mktemp("project")
    write_pipeline(folder, changes={"export.precisions": ["fp32", "fp16", "int8"], "export.int8.method": "best"})
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
    return json.loads((candidates / "export.json").read_text())


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


def test_record_describes_how_to_use_the_model(record):
    assert record["labels"] == list(QUEUES)
    assert (record["task"], record["max_length"], record["text_columns"]) == ("classification", MAX_LENGTH, ["subject", "body"])
    assert record["inputs"] == ["input_ids", "attention_mask", "token_type_ids"]
    assert {name: model["file"] for name, model in record["models"].items()} == {
        "fp32": "model.onnx",
        "fp16": "model.fp16.onnx",
        "int8": "model.int8.onnx",
    }


def test_record_has_the_provenance_of_the_model(record):
    provenance = record["provenance"]
    assert set(provenance["data"]["sha256"]) == {"train", "validation", "test"}
    assert provenance["parameters"]["values"]["train.learning_rate"] == load_params().train.learning_rate
    assert provenance["metrics"] == {"split": "test", "accuracy": 0.5, "rows": 50}
    assert len(provenance["code"]["sha256"]) == 64
    assert provenance["libraries"].keys() >= {"torch", "transformers", "onnxruntime"}


def test_metadata_of_each_model_has_the_record(candidates, record):
    keys = record.keys() - {"models", "inputs"}
    for precision, entry in record["models"].items():
        metadata = {item.key: item.value for item in onnx.load(candidates / entry["file"]).metadata_props}
        assert metadata.pop("precision") == precision
        if precision == "int8":
            assert json.loads(metadata["quantization"])["weight_bits"] == entry["weight_bits"] == 7
        assert metadata.keys() == (keys | {"quantization"} if precision == "int8" else keys)
        assert json.loads(metadata["labels"]) == list(QUEUES)
        assert json.loads(metadata["provenance"]) == record["provenance"]


def test_changed_parameter_changes_the_provenance(candidates, record):
    """Models with the same weights but different parameters can be told apart."""
    params = load_params()
    other = params.model_copy(update={"seed": params.seed + 1})
    assert provenance_record(other)["parameters"]["sha256"] != record["provenance"]["parameters"]["sha256"]


def test_missing_classifier_is_an_error_that_names_the_stage(tmp_path, monkeypatch):
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StageError, match="dvc repro train"):
        main()


def test_dvc_reruns_export_for_every_input_of_the_record():
    """The record contains the parameters and the code hash of all stages that the model depends on."""
    pipeline = YAML(typ="safe", pure=True).load(ROOT / "dvc.yaml")["stages"]
    listed = set(pipeline["export"]["params"])
    required = {key for stage in STAGES for key in pipeline[stage]["params"]}
    assert required - listed == set(), "add to params of export in dvc.yaml"
    deps = [Path(dep) for dep in pipeline["export"]["deps"]]
    code = {path for stage in STAGES for path in imported_files(f"stages.{stage}.__main__", ROOT, ("stages", "tuneline"))}
    assert {path for path in code if not any(dep == path or dep in path.parents for dep in deps)} == set(), "add to deps of export"
