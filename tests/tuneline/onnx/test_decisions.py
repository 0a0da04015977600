"""What exported models do with their probabilities."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.compare import main
from tests.exported_pipeline import exported_pipeline
from tests.params import change_params
from tuneline.core.params.evaluate import CostParams
from tuneline.core.stage.records import file_hash
from tuneline.judge.decisions.evidence import read_evidence
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks import Classification, Regression
from tuneline.onnx.decisions import (
    ModelDecisions,
    cost_record,
    half_width,
    new_rows,
)
from tuneline.onnx.usage import UsageRecord
from tuneline.serve.text_classifier import TextClassifier

TASK = Classification(("fraud", "ok"))


def outputs(rows: int, seed: int = 0, clusters: np.ndarray | None = None) -> Predictions:
    """Return logits that are three times too sure, and labels."""
    random = np.random.default_rng(seed)
    logits = random.normal(0, 1.5, (rows, 2))
    labels = (logits + random.gumbel(size=(rows, 2))).argmax(axis=1)
    return Predictions.of_logits(labels, (3 * logits).astype(np.float32), TASK, clusters)


def decisions(costs=None, *, reported=None, new=None) -> ModelDecisions:
    reported = outputs(1000, 1) if reported is None else reported
    new = np.ones(len(reported.labels), bool) if new is None else new
    return ModelDecisions.of(costs, outputs(2000), reported, new)


def test_validation_fits_the_temperature_and_the_reported_rows_promise():
    decided = decisions()
    assert decided.task.temperature == pytest.approx(3, rel=0.1)
    assert len(decided.evidence.promising) == 1000
    assert len(decided.evidence.choosing) == 2000
    assert decided.evidence.promising.right.mean() == pytest.approx(0.8, abs=0.1)


def test_copies_among_the_reported_rows_promise_once():
    reported = outputs(600, 1, clusters=np.repeat(np.arange(40), 15))
    assert len(decisions(reported=reported).evidence.promising) == 40


def test_rows_that_have_chosen_something_promise_nothing():
    assert ModelDecisions.of(None, outputs(2000), outputs(1000, 1), None).evidence is None


def test_rows_that_repeat_a_row_of_train_promise_nothing():
    leaked = np.arange(1000) < 300
    assert len(decisions(new=~leaked).evidence.promising) == 700


def test_interval_of_a_number_is_made_by_rows_that_chose_nothing():
    random = np.random.default_rng(0)
    numbers = random.normal(0, 1, (500, 1)).astype(np.float32)
    labels = numbers[:, 0] + random.normal(0, 2, 500)
    reported = Predictions.of_logits(labels, numbers, Regression())
    decided = ModelDecisions.of(None, outputs(9), reported, np.ones(500, bool))
    assert decided.task.half_width == pytest.approx(1.645 * 2, rel=0.1)
    assert decided.evidence is None
    unknown = ModelDecisions.of(None, outputs(9), reported, None)
    assert unknown.task.half_width is None


def test_costs_of_errors_are_by_the_names_of_the_data():
    record = cost_record(CostParams(error=2.0, of={"fraud": {"ok": 50.0}}), TASK)
    assert record.errors == {"fraud": {"ok": 50.0}, "ok": {"fraud": 2.0}}


def test_costs_decide_about_answers():
    record = cost_record(CostParams(abstain=0.1, of={"fraud": {"ok": 50.0}}), TASK)
    decided = decisions(costs=record)
    assert decided.costs == record
    assert decided.metrics["cost"] < decided.metrics["plain_cost"]
    saved = decided.metrics["plain_cost"] - decided.metrics["cost"]
    assert 0 < decided.metrics["saved_cost_low"] < saved < decided.metrics["saved_cost_high"]
    assert 0 < decided.metrics["abstained"] < 1
    assert len(decided.evidence.promising) < 1000, "rows without an answer promise nothing"


def test_costs_that_have_cost_more_on_validation_are_heeded_with_a_warning(capsys):
    record = cost_record(CostParams(of={"fraud": {"ok": 50.0}}), TASK)
    random = np.random.default_rng(0)
    logits = random.normal(0, 1, (500, 2)).astype(np.float32)
    never_fraud = Predictions.of_logits(np.ones(500, np.int64), logits, TASK)
    decided = ModelDecisions.of(record, never_fraud, outputs(1000, 1), np.ones(1000, bool))
    assert decided.costs == record
    assert "WARNING: decide.costs" in capsys.readouterr().out


def test_costs_that_have_cost_less_on_validation_have_no_warning(capsys):
    decisions(costs=cost_record(CostParams(abstain=0.1, of={"fraud": {"ok": 50.0}}), TASK))
    assert "WARNING" not in capsys.readouterr().out


def test_leaked_rows_of_the_checks_are_not_new(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert new_rows("test", 3).all(), "where the data checks have not run"
    folder = tmp_path / "reports/checks/rows"
    folder.mkdir(parents=True)
    leaks = pa.table({"split": ["test", "test"], "row": [1, 2], "other_split": ["train", "test"]})
    pq.write_table(leaks, folder / "leakage.parquet")
    assert new_rows("test", 3).tolist() == [True, False, True]
    assert new_rows("validation", 3) is None


@pytest.fixture
def project(tmp_path_factory, tmp_path, monkeypatch):
    """Change into a project whose classifier is exported."""
    folder = tmp_path / "project"
    shutil.copytree(exported_pipeline(tmp_path_factory, "classification"), folder, symlinks=True)
    monkeypatch.chdir(folder)
    return folder


def test_decisions_are_published_with_the_models(project):
    names = json.loads((project / "models/candidates/export.json").read_text())["labels"]
    change_params(
        project, {"decide.costs": {"error": 1.0, "abstain": 0.95, "of": {names[0]: {names[1]: 9.0}}}}
    )
    main()
    record = UsageRecord.read(project / "models/onnx/export.json")
    for precision in ("fp32", "int8"):
        assert record.models[precision].decisions["temperature"] > 0
        evidence = read_evidence(project / "models/onnx/evidence.parquet", precision)
        assert 0 < len(evidence.promising) <= 50
    assert record.evidence == file_hash(project / "models/onnx/evidence.parquet")

    # a program decides by them
    model = TextClassifier.load(project / "models/onnx", "int8")
    assert model.task.temperature == record.models["int8"].decisions["temperature"]
    assert model.rule.costs.abstain == 0.95


def test_nine_of_ten_new_numbers_are_within_the_interval():
    random = np.random.default_rng(0)
    held = []
    for _ in range(2000):
        errors = random.standard_t(3, 100)
        width = half_width(errors[:99], np.zeros(99))
        held.append(abs(errors[99]) <= width)
    assert 0.885 < np.mean(held) < 0.915


def test_few_rows_have_no_interval():
    assert half_width(np.arange(8.0), np.zeros(8)) is None
    assert half_width(np.arange(9.0), np.zeros(9)) == 8.0
