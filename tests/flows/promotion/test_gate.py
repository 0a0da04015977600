import json
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.promotion import gate as candidates
from flows.promotion.gate import CandidateModel, PairedPredictions, decide, measure, predictions, promotion_metric
from flows.runs.pipeline import ArtifactError
from flows.settings import PromotionPolicy
from tests.flows.conftest import sh
from tests.flows.promotion.measurements import GOOD
from tests.shards import into_shards
from tuneline.core.errors import DataError
from tuneline.project.registry import Version

NAMES = ("billing", "parcel", "login", "other")
POLICY = PromotionPolicy()


def model(labels: np.ndarray, skill: float, seed: int = 1) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(len(labels)) < skill, labels, (labels + 1) % 4)


@pytest.fixture
def labels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 4, 1000)


@pytest.mark.parametrize("metric", [None, "accuracy", "f1"])
def test_better_model_is_promoted(labels, metric):
    decision = decide(PairedPredictions(labels, model(labels, 0.9), model(labels, 0.8), NAMES), GOOD, PromotionPolicy(metric=metric))
    assert decision.metric == (metric or "accuracy")
    assert decision.promoted
    assert decision.reason == "every criterion is met"


@pytest.mark.parametrize(("ours", "theirs"), [(0.8, 0.9), (0.9, 0.9)], ids=["worse", "as good"])
def test_model_that_is_not_better_is_rejected_with_the_reason(labels, ours, theirs):
    decision = decide(PairedPredictions(labels, model(labels, ours), model(labels, theirs), NAMES), GOOD, POLICY)
    assert not decision.promoted
    assert "accuracy over production" in decision.reason


def test_insignificant_gain_is_rejected(labels):
    ours, theirs = model(labels, 0.805, seed=1), model(labels, 0.8, seed=2)
    decision = decide(PairedPredictions(labels, ours, theirs, NAMES), GOOD, POLICY)
    assert not decision.promoted


def test_too_few_rows_decide_nothing():
    labels = np.arange(99) % 4
    decision = decide(PairedPredictions(labels, labels, model(labels, 0.2), NAMES), GOOD, POLICY)
    assert decision.reason == "rows of the reported split: 99, required >= 100"
    assert decide(PairedPredictions(labels, labels, model(labels, 0.2), NAMES), GOOD, PromotionPolicy(min_rows=99)).promoted


def test_first_model_must_beat_the_majority_baseline(labels):
    assert decide(PairedPredictions(labels, model(labels, 0.8), None, NAMES), GOOD, POLICY).promoted
    decision = decide(PairedPredictions(labels, model(labels, 0.28), None, NAMES), GOOD, POLICY)
    assert not decision.promoted
    assert "accuracy over the majority" in decision.reason


def test_first_model_that_predicts_the_majority_is_rejected():
    labels = np.where(np.arange(1000) < 900, 0, 1)
    assert not decide(PairedPredictions(labels, np.zeros_like(labels), None, ("no", "yes")), GOOD, POLICY).promoted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"agreement": 0.9}, "agreement of model.onnx"),
        ({"max_abs_diff": 0.1}, "logit difference"),
        ({"checks_passed": False}, "data checks: failed"),
        ({"megabytes": 5000.0}, "size"),
        ({"latency_ms": 900.0}, "latency"),
        ({"latency_ms": float("nan")}, "latency"),
    ],
)
def test_better_model_outside_a_limit_is_rejected(labels, change, said):
    decision = decide(PairedPredictions(labels, model(labels, 0.9), model(labels, 0.8), NAMES), replace(GOOD, **change), POLICY)
    assert not decision.promoted
    assert said in decision.reason


@pytest.mark.parametrize("figure", [field.name for field in fields(GOOD)])
def test_missing_measurement_is_rejected(labels, figure):
    decision = decide(PairedPredictions(labels, model(labels, 0.9), None, NAMES), replace(GOOD, **{figure: None}), POLICY)
    assert not decision.promoted
    assert "unknown" in decision.reason


def test_negative_min_gain_promotes_a_slightly_worse_model(labels):
    policy = PromotionPolicy(min_gain=-0.05)
    same = model(labels, 0.8)
    assert decide(PairedPredictions(labels, same, same, NAMES), GOOD, policy).promoted
    assert not decide(PairedPredictions(labels, model(labels, 0.7), model(labels, 0.8), NAMES), GOOD, policy).promoted


def test_regression_is_compared_by_correlation():
    draw = np.random.default_rng(0)
    labels = draw.normal(size=500)
    good, bad = labels + draw.normal(size=500) / 4, labels + draw.normal(size=500)
    assert decide(PairedPredictions(labels, good, bad, None), GOOD, POLICY).promoted
    assert not decide(PairedPredictions(labels, bad, good, None), GOOD, POLICY).promoted
    assert decide(PairedPredictions(labels, bad, None, None), GOOD, POLICY).promoted
    assert not decide(PairedPredictions(labels, draw.normal(size=500), None, None), GOOD, POLICY).promoted


@pytest.mark.parametrize(("metric", "names"), [("pearson", NAMES), ("accuracy", None)])
def test_metric_that_cannot_decide_the_task_is_an_error(labels, metric, names):
    with pytest.raises(ValueError, match=r"promotion\.metric"):
        decide(PairedPredictions(labels, labels, None, names), GOOD, PromotionPolicy(metric=metric))


@pytest.mark.parametrize(
    ("name", "task", "metric"), [(None, "classification", "accuracy"), (None, "regression", "pearson"), ("f1", "classification", "f1")]
)
def test_promotion_metric_is_the_named_one_or_the_primary_one(name, task, metric):
    assert promotion_metric(name, task) == metric


@pytest.mark.parametrize(
    ("name", "task"), [("pearson", "classification"), ("accuracy", "regression"), ("loss", "classification"), ("unknown", "regression")]
)
def test_promotion_metric_that_cannot_decide_is_an_error(name, task):
    with pytest.raises(ValueError, match=r"promotion\.metric .* choose one of (accuracy|pearson)"):
        promotion_metric(name, task)


def test_majority_baseline_predicts_the_most_frequent_label():
    labels = np.array([2, 0, 2, 1])
    assert decide(PairedPredictions(labels, labels, None, NAMES), GOOD, POLICY).gain.second == 0.5


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
    found = predictions(CandidateModel(toy.root, "onnx"), None, registry, pipeline)
    assert found.production is None
    assert found.names == ("billing", "parcel", "login", "other")
    assert accuracy(found.labels, found.candidate) == pytest.approx(0.825)


def test_predictions_for_equal_rows_are_those_of_productions_run(toy, registry, pipeline, make):
    production = Version("v0.1.0", make())
    make("task=strong")
    found = predictions(CandidateModel(toy.root, "onnx"), production, registry, pipeline)
    assert accuracy(found.labels, found.production) == pytest.approx(0.825)
    assert accuracy(found.labels, found.candidate) > 0.9


def test_predictions_for_other_rows_come_from_productions_model(toy, registry, pipeline, make):
    production = Version("v0.1.0", make())
    make("seed=7")
    into_shards(toy.root / "data/raw", rows=400)
    found = predictions(CandidateModel(toy.root, "onnx"), production, registry, pipeline)
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
    found = predictions(CandidateModel(toy.root, "onnx"), production, registry, pipeline)
    assert found.production is None
    assert "no column 'text'" in found.incomparable


def test_predictions_are_sorted_by_row_index(tmp_path):
    rows = pa.table({"idx": [2, 0, 1], "label": [2.0, 0.0, 1.0], "prediction": [2.5, 0.5, 1.5]})
    features = {"info": {"features": {"label": {"dtype": "float32", "_type": "Value"}}}}
    rows = rows.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(rows, tmp_path / "predictions.parquet")
    assert candidates._read(tmp_path / "predictions.parquet").predicted.tolist() == [0.5, 1.5, 2.5]


def test_missing_predictions_error_names_the_file(toy, registry, pipeline):
    with pytest.raises(DataError, match=r"predictions\.parquet is missing"):
        predictions(CandidateModel(toy.root, "onnx"), None, registry, pipeline)


def test_measure_reads_metrics_and_measures_latency(toy, pipeline, make):
    make()
    found = measure(CandidateModel(toy.root, "onnx"), pipeline)
    assert (found.agreement, found.max_abs_diff, found.checks_passed) == (1.0, 0.0, True)
    assert 0 < found.megabytes < 1
    assert 0 < found.latency_ms < 1000


def test_measure_returns_none_for_missing_values(toy, pipeline, make):
    make()
    (toy.root / "metrics" / "compare.json").unlink()
    (toy.root / "models" / "onnx" / "model.onnx").unlink()
    (toy.root / "reports" / "checks" / "checks.json").unlink()
    found = measure(CandidateModel(toy.root, "onnx"), pipeline)
    assert (found.agreement, found.checks_passed, found.megabytes, found.latency_ms) == (None, None, None, None)


def test_measure_counts_external_weights(toy, pipeline, make):
    make()
    (toy.root / "models" / "onnx" / "model.onnx.data").write_bytes(bytes(2**20))
    assert measure(CandidateModel(toy.root, "onnx"), pipeline).megabytes > 1


def test_unknown_artifact_is_an_error(toy):
    with pytest.raises(ArtifactError, match="no artifact 'classifier'"):
        _ = CandidateModel(toy.root, "classifier").model
