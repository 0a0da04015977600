import json

import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.export import __main__ as export_record
from stages.export.__main__ import data_record, embed, new_record
from tests import records
from tests.params import write_params
from tuneline.core.base_source import BaseSource, PretrainedSource
from tuneline.core.provenance import StageProvenance, provenance_file
from tuneline.core.written_records import write_record
from tuneline.params.loading import load_params
from tuneline.paths import SPLITS, split_file
from tuneline.runtime.errors import StageError
from tuneline.tasks import Classification

BASE = PretrainedSource(
    name="someone/bert", commit="c" * 40, license="mit", sha256={"model.safetensors": "e" * 64}
)


def write_classifier(folder, **config):
    (folder / "config.json").write_text(
        json.dumps({"model_type": "bert", "id2label": {"0": "no", "1": "yes"}, **config})
    )
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text('{"truncation_side": "left"}')


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with raw data and the provenance of the earlier stages."""
    monkeypatch.chdir(tmp_path)
    for split in SPLITS:
        pq.write_table(pa.table({"a": [1]}), split_file(tmp_path, split))
    monkeypatch.setattr(export_record, "RAW", tmp_path)
    for stage in export_record.EARLIER_STAGES:
        write_record(provenance_file(stage), StageProvenance(parameters={}, code="", libraries={}))
    write_record(tmp_path / "models/base/source.json", BaseSource(checkpoint=BASE, tokenizer=BASE))
    write_params(tmp_path, tokenize={"max_length": 64})
    return tmp_path


def test_provenance_names_the_base_model(project):
    assert export_record.model_provenance().base == BaseSource(checkpoint=BASE, tokenizer=BASE)


@pytest.mark.parametrize(
    ("config", "architectures"),
    [
        ({"architectures": ["BertForSequenceClassification"]}, ["BertForSequenceClassification"]),
        ({"architectures": ["BertModel"], export_record.FROZEN_KEY: "x"}, ["BertForSequenceClassification"]),
    ],
    ids=["trained", "frozen"],
)
def test_other_servers_read_a_classifier_of_so_many_tokens(project, config, architectures):
    write_classifier(project, **config)
    folder = project / "onnx"
    folder.mkdir()
    export_record.write_configuration(project, folder, 64)
    assert json.loads((folder / "config.json").read_text())["architectures"] == architectures
    assert json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"] == 64


def test_record_of_a_classifier_has_its_classes(project):
    write_classifier(project, pad_token_id=3)
    record = new_record(project, Classification(("no", "yes")), load_params())
    assert (record.task, record.labels, record.pad_token_id, record.max_length) == (
        "classification",
        ("no", "yes"),
        3,
        64,
    )
    assert record.text_columns == ["subject", "body"]
    assert record.tokenizer.truncation_side == "left"


def test_missing_provenance_is_an_error_that_names_the_stage(project):
    provenance_file("tokenize").unlink()
    with pytest.raises(StageError, match="dvc repro tokenize"):
        export_record.model_provenance()


def test_embed_replaces_the_metadata_of_the_model():
    model = onnx.ModelProto()
    model.metadata_props.add(key="left", value="over")
    embed(model, records.export_record(labels=["ja", "nö"], max_length=64), precision="fp32")
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert {name: metadata.get(name) for name in ("task", "labels", "max_length", "precision", "left")} == {
        "task": "classification",
        "labels": '["ja", "nö"]',
        "max_length": "64",
        "precision": "fp32",
        "left": None,
    }


@pytest.mark.parametrize(
    "source", [None, {"source": "hub", "revision": "abc", "splits": {}, "label_names": None}]
)
def test_data_record_has_the_source_and_a_hash_of_each_split(tmp_path, source):
    for position, split in enumerate(SPLITS):
        pq.write_table(pa.table({"a": [position]}), tmp_path / f"{split}.parquet")
    if source:
        (tmp_path / "source.json").write_text(json.dumps(source))
    record = data_record(tmp_path)
    assert (record.source and record.source.model_dump()) == source
    assert len({*record.sha256.values()}) == 3
