"""Several labels per text, from the file to the report: the stages, and what people do with the model."""

import csv
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import f1_score

from tests.conftest import ROOT
from tests.params import write_params
from tests.several_labels import DATA, MODEL, ROWS, TAGS, TRAIN, write_tagged_file
from tuneline.core.params.train import ThresholdParams
from tuneline.core.stage.tables import read_table
from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks import Multilabel
from tuneline.model.tasks.columns import array_of, read_task
from tuneline.training.losses import cross_fitted

pytestmark = pytest.mark.slow  # all stages in one process; the tests of each package have several labels

STAGES = (
    "base",
    "download",
    "tokenize",
    "validate",
    "baseline",
    "train",
    "evaluate",
    "export",
    "compare",
    "report",
)
FRESH = (
    ("hello number 3. the box was crushed. the parcel is late", ["damaged", "delivery"]),
    ("dear team number 4. great shop", ["praise"]),
    ("hi there number 5", []),
)


def run(folder, module, *words):
    """Run a module of the project in a folder, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, "-m", module, *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with texts about parcels, after the stages of the pipeline."""
    folder = tmp_path_factory.mktemp("parcels")
    write_tagged_file(folder / "data/source/parcels/all.jsonl", ROWS)
    (folder / "data/corrections").mkdir()
    shutil.copytree(ROOT / "conf", folder / "conf")
    write_params(
        folder,
        data=DATA,
        model=MODEL,
        train=TRAIN,
        tokenize={"max_length": 32, "vocab_size": 300},
    )
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    for stage in STAGES:
        run(folder, f"stages.{stage}")
    return folder


@pytest.fixture
def fresh(tmp_path):
    """A file of labelled texts."""
    lines = [json.dumps({"text": text, "tags": tags}) for text, tags in FRESH]
    (tmp_path / "fresh.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path / "fresh.jsonl"


def predict(project, fresh, output, *options):
    """Predict the fresh texts into a file."""
    words = ["predict", fresh, "--model", project / "models/onnx", "-o", output, *options]
    run(project, "tuneline.cli", *words)


def test_every_metric_of_sets_is_measured_and_the_model_has_learned(project):
    metrics = json.loads((project / "reports/evaluation.json").read_text())
    assert metrics["macro_f1"] > 0.9
    for name in ("micro_f1", "subset_accuracy", "roc_auc"):
        assert metrics[name] > 0.8
    assert metrics["predicted_labels_per_row"] == pytest.approx(metrics["labels_per_row"], rel=0.2)
    assert metrics["macro_f1"] > metrics["majority_macro_f1"]
    assert "tfidf_macro_f1" in metrics


def test_predictions_follow_the_thresholds_that_the_model_stores(project):
    config = json.loads((project / "models/classifier/config.json").read_text())
    thresholds = tuple(config["decisions"]["thresholds"][name] for name in TAGS)
    assert thresholds != (0.5,) * len(TAGS), "chosen on validation"
    table = read_table(project / "reports/predictions.parquet")
    task = read_task(table.schema, "label")
    assert task == Multilabel(TAGS)
    assert task.thresholds == thresholds
    logits = np.array(table["logits"].to_pylist(), np.float32)
    expected = 1 / (1 + np.exp(-logits.astype(float))) > np.array(thresholds)
    assert (array_of(task, table["prediction"]) == expected).all()


def test_metrics_of_validation_are_of_rows_that_did_not_choose_the_thresholds_that_decide_them(project):
    table = read_table(project / "reports/validation.parquet")
    task = read_task(table.schema, "label")
    labels = array_of(task, table["label"])
    logits = np.array(table["logits"].to_pylist(), np.float32)
    predictions = array_of(task, table["prediction"])
    rows = Predictions.of_logits(labels, logits, task)
    assert (predictions == cross_fitted(rows, ThresholdParams()).values).all()

    metrics = json.loads((project / "metrics/train.json").read_text())
    expected = f1_score(labels, predictions, average="macro")
    assert metrics["best_macro_f1"] == pytest.approx(expected, abs=1e-6)
    assert metrics["best_macro_f1_low"] <= expected <= metrics["best_macro_f1_high"]


def test_exported_models_decide_as_the_trained_one(project):
    record = json.loads((project / "models/onnx/export.json").read_text())
    assert record["task"] == "multilabel"
    assert record["decisions"]["thresholds"].keys() == set(TAGS)
    compared = json.loads((project / "metrics/compare.json").read_text())
    assert compared["fp32_agreement"] == 1.0


def test_predict_joins_labels_in_csv(project, fresh, tmp_path):
    predict(project, fresh, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["labels"] for row in rows] == [";".join(tags) for _, tags in FRESH]
    assert list(rows[0]) == ["row", "labels", *(f"probability_{name}" for name in TAGS)]
