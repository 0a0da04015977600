import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.promotion import candidate as candidates
from flows.promotion.candidate import Candidate, measure, predictions
from flows.runs.pipeline import ArtifactError
from tests.flows.conftest import sh
from tests.shards import into_shards
from tuneline.errors import DataError
from tuneline.registry import Version


@pytest.fixture
def make(toy, pipeline):
    """Run the pipeline in the repository itself with some parameters, and commits."""

    def make(*overrides: str) -> str:
        pipeline.compose(overrides)
        pipeline.dvc("repro", what="The pipeline")
        sh("git", "add", "--all", cwd=toy.root)
        sh("git", "commit", "--quiet", "--allow-empty", "--message=A run", cwd=toy.root)
        return toy.resolve("HEAD")

    return make


def accuracy(labels, predicted) -> float:
    return float((labels == predicted).mean())


def test_predictions_without_a_model_in_production(toy, registry, pipeline, make):
    make()
    found = predictions(Candidate(toy.root, "onnx"), None, registry, pipeline)
    assert found.production is None
    assert found.names == ("billing", "parcel", "login", "other")
    assert accuracy(found.labels, found.candidate) == pytest.approx(0.825)


def test_predictions_for_equal_rows_are_those_of_productions_run(toy, registry, pipeline, make):
    production = Version("v0.1.0", make())
    make("task=strong")
    found = predictions(Candidate(toy.root, "onnx"), production, registry, pipeline)
    assert accuracy(found.labels, found.production) == pytest.approx(0.825)
    assert accuracy(found.labels, found.candidate) > 0.9


def test_predictions_for_other_rows_come_from_productions_model(toy, registry, pipeline, make):
    production = Version("v0.1.0", make())
    make("seed=7")
    into_shards(toy.root / "data/raw", rows=400)
    found = predictions(Candidate(toy.root, "onnx"), production, registry, pipeline)
    # The same words are known, so both models are right about the same rows: production really saw the new ones.
    assert found.production.tolist() == found.candidate.tolist()
    assert len(found.labels) == 600


def test_predictions_report_why_production_cannot_be_compared(toy, registry, pipeline, make):
    production = Version("v0.1.0", make())
    make("seed=7")
    path = toy.root / "data" / "raw" / "test.parquet"
    renamed = pq.read_table(path).rename_columns(["body", "labels", "idx"])
    path.unlink()
    pq.write_table(renamed, path)
    found = predictions(Candidate(toy.root, "onnx"), production, registry, pipeline)
    assert found.production is None
    assert "no column 'text'" in found.incomparable


def test_class_ids_are_translated_by_name():
    assert candidates._with_our_ids(np.array([0, 1, 2]), ("a", "b", "gone"), ("b", "a")).tolist() == [1, 0, -1]


def test_predictions_are_sorted_by_row_index(tmp_path):
    rows = pa.table({"idx": [2, 0, 1], "label": [2.0, 0.0, 1.0], "prediction": [2.5, 0.5, 1.5]})
    features = {"info": {"features": {"label": {"dtype": "float32", "_type": "Value"}}}}
    rows = rows.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(rows, tmp_path / "predictions.parquet")
    assert candidates._read(tmp_path / "predictions.parquet").predicted.tolist() == [0.5, 1.5, 2.5]


def test_missing_predictions_error_names_the_file(toy, registry, pipeline):
    with pytest.raises(DataError, match=r"predictions\.parquet is missing"):
        predictions(Candidate(toy.root, "onnx"), None, registry, pipeline)


def test_measure_reads_metrics_and_measures_latency(toy, pipeline, make):
    make()
    found = measure(Candidate(toy.root, "onnx"), pipeline)
    assert (found.agreement, found.max_abs_diff, found.checks_passed) == (1.0, 0.0, True)
    assert 0 < found.megabytes < 1
    assert 0 < found.latency_ms < 1000


def test_measure_returns_none_for_missing_values(toy, pipeline, make):
    make()
    (toy.root / "metrics" / "compare.json").unlink()
    (toy.root / "models" / "onnx" / "model.onnx").unlink()
    (toy.root / "reports" / "checks" / "checks.json").unlink()
    found = measure(Candidate(toy.root, "onnx"), pipeline)
    assert (found.agreement, found.checks_passed, found.megabytes, found.latency_ms) == (None, None, None, None)


def test_measure_counts_external_weights(toy, pipeline, make):
    make()
    (toy.root / "models" / "onnx" / "model.onnx.data").write_bytes(bytes(2**20))
    assert measure(Candidate(toy.root, "onnx"), pipeline).megabytes > 1


def test_unknown_artifact_is_an_error(toy):
    with pytest.raises(ArtifactError, match="no artifact 'classifier'"):
        _ = Candidate(toy.root, "classifier").model
