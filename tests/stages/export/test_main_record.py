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
