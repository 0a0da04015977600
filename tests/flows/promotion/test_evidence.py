import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.promotion import evidence
from flows.promotion.evidence import Candidate, EvidenceError, figures, predictions
from flows.promotion.registry import Version
from flows.runs.line import compose
from flows.runs.repository import dvc_config
from flows.runs.snapshot import SnapshotError
from tests.flows.conftest import sh


@pytest.fixture
def make(toy, line):
    """Runs the line in the repository itself with some parameters, and commits."""

    def make(*overrides: str) -> str:
        compose(toy.root, dvc_config(toy.root), overrides)
        line.dvc("repro", what="The line")
        sh("git", "add", "--all", cwd=toy.root)
        sh("git", "commit", "--quiet", "--allow-empty", "--message=A run", cwd=toy.root)
        return toy.resolve("HEAD")

    return make


def accuracy(labels, predicted) -> float:
    return float((labels == predicted).mean())


def test_without_a_model_in_production_there_is_nothing_to_compare_with(toy, registry, line, make):
    make()
    found = predictions(Candidate(toy.root, "onnx"), None, registry, line)
    assert found.production is None
    assert found.names == ("billing", "parcel", "login", "other")
    assert accuracy(found.labels, found.candidate) == pytest.approx(0.825)


def test_for_the_same_rows_productions_own_predictions_are_taken(toy, registry, line, make):
    production = Version("v0.1.0", make())
    make("task=strong")
    found = predictions(Candidate(toy.root, "onnx"), production, registry, line)
    assert accuracy(found.labels, found.production) == pytest.approx(0.825)
    assert accuracy(found.labels, found.candidate) > 0.9


def test_for_other_rows_productions_model_predicts_them(toy, registry, line, make):
    production = Version("v0.1.0", make())
    make("seed=7")
    found = predictions(Candidate(toy.root, "onnx"), production, registry, line)
    # The same words are known, so both models are right about the same rows: production really saw the new ones.
    assert found.production.tolist() == found.candidate.tolist()
    assert len(found.labels) == 600


def test_a_model_that_cannot_predict_the_rows_stands_in_the_way(toy, registry, line, make):
    production = Version("v0.1.0", make())
    make("seed=7")
    path = toy.root / "data" / "raw" / "test.parquet"
    renamed = pq.read_table(path).rename_columns(["body", "labels", "idx"])
    path.unlink()
    pq.write_table(renamed, path)
    found = predictions(Candidate(toy.root, "onnx"), production, registry, line)
    assert found.production is None
    assert "has no column 'text'" in found.incomparable


def test_classes_are_compared_by_their_names():
    assert evidence._as_ours(np.array([0, 1, 2]), ("a", "b", "gone"), ("b", "a")).tolist() == [1, 0, -1]


def test_rows_are_compared_in_their_order_whatever_the_files_order(tmp_path):
    rows = pa.table({"idx": [2, 0, 1], "label": [2.0, 0.0, 1.0], "prediction": [2.5, 0.5, 1.5]})
    pq.write_table(rows, tmp_path / "predictions.parquet")
    assert evidence._read(tmp_path / "predictions.parquet").predicted.tolist() == [0.5, 1.5, 2.5]


def test_missing_predictions_are_named(toy, registry, line):
    with pytest.raises(EvidenceError, match=r"predictions\.parquet is missing"):
        predictions(Candidate(toy.root, "onnx"), None, registry, line)


def test_figures_are_read_and_the_latency_is_measured(toy, line, make):
    make()
    found = figures(Candidate(toy.root, "onnx"), line)
    assert (found.agreement, found.max_abs_diff, found.checks_passed) == (1.0, 0.0, True)
    assert 0 < found.megabytes < 1
    assert 0 < found.latency_ms < 1000


def test_what_cannot_be_had_is_unknown(toy, line, make):
    make()
    (toy.root / "metrics" / "compare.json").unlink()
    (toy.root / "models" / "onnx" / "model.onnx").unlink()
    (toy.root / "reports" / "checks" / "checks.json").unlink()
    found = figures(Candidate(toy.root, "onnx"), line)
    assert (found.agreement, found.checks_passed, found.megabytes, found.latency_ms) == (None, None, None, None)


def test_weights_beside_the_model_count(toy, line, make):
    make()
    (toy.root / "models" / "onnx" / "model.onnx.data").write_bytes(bytes(2**20))
    assert figures(Candidate(toy.root, "onnx"), line).megabytes > 1


def test_an_artifact_that_dvc_yaml_does_not_name_is_said(toy):
    with pytest.raises(SnapshotError, match="no artifact 'classifier'"):
        _ = Candidate(toy.root, "classifier").model
