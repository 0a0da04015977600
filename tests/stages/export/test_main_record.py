import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages import export as export_record
from tests.params import write_params
from tuneline.core.paths import SPLITS, split_file
from tuneline.core.stage.provenance import BaseSource, PretrainedSource, StageProvenance, provenance_file
from tuneline.core.stage.records import write_record

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
        ({"architectures": ["BertModel"], export_record.POOLED_KEY: "x"}, ["BertForSequenceClassification"]),
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
