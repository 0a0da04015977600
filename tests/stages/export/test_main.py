import json
from pathlib import Path

import onnx
import pytest
from ruamel.yaml import YAML

from stages.export.__main__ import main
from tests.conftest import ROOT
from tests.imports import imported_files
from tests.small_pipeline import MAX_LENGTH, QUEUES, write_pipeline
from tuneline.errors import StageError
from tuneline.params.loading import load_params

MAKERS = ("download", "tokenize", "train", "export")
FILES = {"config.json", "export.json", "model.fp16.onnx", "model.int8.onnx", "model.onnx", "tokenizer.json", "tokenizer_config.json"}


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """The root of a project in which ``export`` has run, with every precision."""
    folder = tmp_path_factory.mktemp("line")
    write_pipeline(folder, changes={"export.precisions": ["fp32", "fp16", "int8"], "export.int8.method": "best"})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        main()
    return folder


@pytest.fixture
def inside(line, monkeypatch):
    monkeypatch.chdir(line)
    return line / "models/candidates"


@pytest.fixture
def record(inside):
    return json.loads((inside / "export.json").read_text())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_folder_serves_on_its_own(inside):
    assert set(contents(inside)) == FILES


def test_exporting_again_gives_the_same_bytes(inside):
    before = contents(inside)
    main()
    assert contents(inside) == before


def test_nothing_in_the_folder_tells_where_it_was_made(inside, line):
    for name, content in contents(inside).items():
        assert str(line).encode() not in content, name
        assert str(ROOT).encode() not in content, name
        assert str(Path.home()).encode() not in content, name


def test_the_record_says_how_to_use_the_model(record):
    assert record["labels"] == list(QUEUES)
    assert (record["task"], record["max_length"], record["text_columns"]) == ("classification", MAX_LENGTH, ["subject", "body"])
    assert record["inputs"] == ["input_ids", "attention_mask", "token_type_ids"]
    assert {name: model["file"] for name, model in record["models"].items()} == {
        "fp32": "model.onnx",
        "fp16": "model.fp16.onnx",
        "int8": "model.int8.onnx",
    }


def test_the_record_traces_the_model_to_data_parameters_code_and_metric(record):
    provenance = record["provenance"]
    assert set(provenance["data"]["sha256"]) == {"train", "validation", "test"}
    assert provenance["parameters"]["values"]["train.learning_rate"] == load_params().train.learning_rate
    assert provenance["metrics"] == {"split": "test", "accuracy": 0.5, "rows": 50}
    assert len(provenance["code"]["sha256"]) == 64
    assert provenance["libraries"].keys() >= {"torch", "transformers", "onnxruntime"}


def test_each_model_carries_the_record_inside(inside, record):
    shared = record.keys() - {"models", "inputs"}
    for precision, entry in record["models"].items():
        held = {item.key: item.value for item in onnx.load(inside / entry["file"]).metadata_props}
        assert held.pop("precision") == precision
        if precision == "int8":
            assert json.loads(held.pop("quantization"))["weight_bits"] == entry["weight_bits"] == 7
        assert held.keys() == shared
        assert json.loads(held["labels"]) == list(QUEUES)
        assert json.loads(held["provenance"]) == record["provenance"]


def test_a_changed_parameter_changes_the_model_s_own_account(inside, record, line, monkeypatch, tmp_path):
    """Two models with the same weights and other origins are two models."""
    from stages.export.__main__ import provenance

    params = load_params()
    other = params.model_copy(update={"seed": params.seed + 1})
    assert provenance(other)["parameters"]["sha256"] != record["provenance"]["parameters"]["sha256"]


def test_a_missing_classifier_names_the_stage_that_makes_it(tmp_path, monkeypatch):
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StageError, match="dvc repro train"):
        main()


def test_dvc_reruns_export_for_all_that_the_record_is_made_from():
    """The record holds the parameters and the hash of the code of every stage that had a hand in the model."""
    stages = YAML(typ="safe", pure=True).load(ROOT / "dvc.yaml")["stages"]
    listed = set(stages["export"]["params"])
    wanted = {key for stage in MAKERS for key in stages[stage]["params"]}
    assert wanted - listed == set(), "add to params of export in dvc.yaml"
    deps = [Path(dep) for dep in stages["export"]["deps"]]
    code = {path for stage in MAKERS for path in imported_files(f"stages.{stage}.__main__", ROOT, ("stages", "tuneline"))}
    assert {path for path in code if not any(dep == path or dep in path.parents for dep in deps)} == set(), "add to deps of export"
