import json
from pathlib import Path

import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.export.record import (
    code_hash,
    data_record,
    embed,
    label_names,
    library_versions,
    listed_inputs,
    parameters_record,
    select,
    usage_record,
)
from tuneline.errors import DataError, StageError


def write_classifier(folder, **config):
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "id2label": {"0": "no", "1": "yes"}, **config}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text('{"truncation_side": "left"}')


def test_label_names_are_in_the_order_of_their_ids():
    """JSON keys are strings: sorted as strings, 10 would precede 2."""
    names = [f"class {position}" for position in range(12)]
    assert label_names({"id2label": {str(position): names[position] for position in sorted(range(12), key=str)}}) == names


def test_label_names_are_required():
    with pytest.raises(DataError, match="no id2label"):
        label_names({})


def test_usage_record_of_a_classifier_has_its_classes(tmp_path):
    write_classifier(tmp_path, pad_token_id=3)
    record = usage_record(tmp_path, ["subject", "body"], 64)
    assert (record["task"], record["labels"], record["pad_token_id"], record["max_length"]) == ("classification", ["no", "yes"], 3, 64)
    assert record["text_columns"] == ["subject", "body"]
    assert record["tokenizer"]["truncation_side"] == "left"


def test_usage_record_of_a_regression_has_no_classes(tmp_path):
    write_classifier(tmp_path, problem_type="regression", id2label={"0": "LABEL_0"}, pad_token_id=None)
    record = usage_record(tmp_path, ["text"], 64)
    assert (record["task"], record["labels"], record["pad_token_id"]) == ("regression", None, 0)


def test_embed_replaces_the_metadata_of_the_model():
    model = onnx.ModelProto()
    model.metadata_props.add(key="left", value="over")
    embed(model, {"task": "classification", "labels": ["ja", "nö"], "max_length": 64})
    held = {entry.key: entry.value for entry in model.metadata_props}
    assert held == {"task": "classification", "labels": '["ja", "nö"]', "max_length": "64"}


@pytest.fixture
def code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stages/download").mkdir(parents=True)
    (tmp_path / "tuneline").mkdir()
    (tmp_path / "tuneline/paths.py").write_text("a = 1\n")
    (tmp_path / "stages/download/files.py").write_text("b = 2\n")
    return [Path("tuneline/paths.py"), Path("stages/download")]


def test_code_hash_changes_with_the_contents_of_a_file(code):
    before = code_hash(code)
    (code[1] / "files.py").write_text("b = 3\n")
    assert code_hash(code) != before


def test_code_hash_changes_with_the_name_of_a_file(code):
    before = code_hash(code)
    (code[1] / "files.py").rename(code[1] / "other.py")
    assert code_hash(code) != before


def test_code_hash_ignores_other_files_and_the_order_of_paths(code):
    before = code_hash(code)
    (code[1] / "__pycache__").mkdir()
    (code[1] / "__pycache__/files.cpython-311.pyc").write_bytes(b"x")
    assert code_hash(code[::-1]) == before


def test_code_hash_names_a_missing_path(code):
    with pytest.raises(StageError, match=r"tuneline/errors\.py"):
        code_hash([*code, Path("tuneline/errors.py")])


def test_listed_inputs_are_those_of_dvc_yaml(tmp_path):
    pipeline = tmp_path / "dvc.yaml"
    pipeline.write_text("stages: {export: {cmd: x, deps: [data/raw, stages/train, tuneline/paths.py], params: [seed, train.epochs]}}")
    code, keys = listed_inputs(pipeline, "export")
    assert [path.as_posix() for path in code] == ["stages/train", "tuneline/paths.py"]
    assert keys == ["seed", "train.epochs"]


def test_parameters_record_does_not_depend_on_the_order_of_keys():
    values = {"seed": 1, "train": {"epochs": 3, "schedule": "linear"}}
    record = parameters_record(select(values, ["train.epochs", "seed"]))
    assert record["values"] == {"seed": 1, "train.epochs": 3}
    assert record == parameters_record(select(values, ["seed", "train.epochs"]))
    assert record["sha256"] != parameters_record(select({**values, "seed": 2}, ["seed", "train.epochs"]))["sha256"]


@pytest.mark.parametrize("source", [None, {"source": "hub", "revision": "abc"}])
def test_data_record_has_the_source_and_a_hash_of_each_split(tmp_path, source):
    for position, split in enumerate(("train", "test")):
        pq.write_table(pa.table({"a": [position]}), tmp_path / f"{split}.parquet")
    if source:
        (tmp_path / "source.json").write_text(json.dumps(source))
    record = data_record(tmp_path, ("train", "test"))
    assert record["source"] == source
    assert len({*record["sha256"].values()}) == 2


def test_library_versions_have_no_build_tag():
    assert library_versions()["torch"].count("+") == 0
    assert all(version[0].isdigit() for version in library_versions().values())
