"""A new kind of task is one class: it goes through the pipeline, ``predict`` and the gate without an edit
elsewhere."""

import csv
import json
import os
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest

from flows.promotion.evidence import PairedPredictions
from flows.promotion.gate import decide_promotion
from tests.conftest import ROOT
from tests.ordinal import Ordinal, nearest_ranks
from tests.params import write_params
from tuneline.core.tables import read_table
from tuneline.core.task_kinds import TASK_KINDS
from tuneline.params.loading import load_params
from tuneline.runtime.errors import ParamsError
from tuneline.settings import PromotionPolicy
from tuneline.tasks import TASKS, register
from tuneline.tasks.probabilities import probabilities
from tuneline.tasks.schemas import read_task

RATINGS = ("poor", "fair", "good")
STAGES = ("base", "download", "tokenize", "baseline", "train", "evaluate", "export", "compare")
MODEL = {
    "model_type": "bert",
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def run(folder, *words):
    """Run modules of the project in a folder, with the new kind."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, "-m", "tests.ordinal", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with ratings, after the stages of the pipeline."""
    folder = tmp_path_factory.mktemp("ratings")
    generator = random.Random(0)
    words = {"poor": "broken late rude", "fair": "usable plain slow", "good": "lovely quick kind"}
    rows = []
    for number in range(300):
        rating = RATINGS[number % 3]
        rows.append(
            (f"{generator.choice(words[rating].split())} parcel number {generator.randrange(50)}", rating)
        )
    (folder / "data/source/reviews").mkdir(parents=True)
    with (folder / "data/source/reviews/all.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "rating"), *rows])
    (folder / "data/corrections").mkdir()
    shutil.copytree(ROOT / "conf", folder / "conf", symlinks=True)
    # launch configurations of people may have other names
    shutil.copytree(ROOT / "tests/conf/accelerate", folder / "conf/accelerate", dirs_exist_ok=True)
    data = {
        "source": "files",
        "path": "reviews",
        "splits": {"train": "all", "validation": "validation", "test": "test"},
        "split": {"validation": 0.2, "test": 0.4, "stratify": True},
        "text_columns": ["text"],
        "label_column": "rating",
        "label_names": list(RATINGS),
        "task": "ordinal",
    }
    training = {"epochs": 3, "launch": "cpu"}
    register(Ordinal)
    write_params(
        folder,
        data=data,
        model={"config": MODEL},
        train=training,
        tokenize={"max_length": 16},
        evaluate={"behaviour": None},
    )
    run(folder, *(f"stages.{stage}" for stage in STAGES))
    yield folder
    TASK_KINDS.remove(Ordinal.kind)
    del TASKS[Ordinal.kind]


def test_predictions_of_every_stage_are_those_of_the_new_kind(project):
    table = read_table(project / "reports/predictions.parquet")
    assert read_task(table.schema, "label") == Ordinal(RATINGS)
    logits = np.array(table["logits"].to_pylist(), np.float32)
    expected = nearest_ranks(probabilities(logits))
    assert (expected != logits.argmax(axis=1)).any(), (
        "some predictions are others than those of a classification"
    )
    assert table["prediction"].to_pylist() == expected.tolist()
    metrics = json.loads((project / "metrics/evaluate.json").read_text())
    assert metrics["accuracy"] == pytest.approx((expected == table["label"].to_numpy()).mean(), abs=1e-6)
    compared = json.loads((project / "metrics/compare.json").read_text())
    assert compared["fp32_agreement"] == 1.0
    assert json.loads((project / "models/onnx/export.json").read_text())["task"] == "ordinal"


def test_predict_writes_the_predictions_of_the_new_kind(project, tmp_path):
    (tmp_path / "texts.csv").write_text(
        "text\nlovely parcel number 3\nusable parcel number 4\nrude parcel number 5\n"
    )
    arguments = [
        "predict",
        str(tmp_path / "texts.csv"),
        "--model",
        str(project / "models/onnx"),
        "-o",
        str(tmp_path / "out.csv"),
    ]
    run(project, "tuneline.cli", "--", *arguments)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    scores = np.array([[float(row[f"probability_{name}"]) for name in RATINGS] for row in rows])
    assert [row["label"] for row in rows] == [RATINGS[rank] for rank in nearest_ranks(scores)]


def test_gate_decides_about_the_new_kind(project):
    table = read_table(project / "reports/predictions.parquet")
    labels = table["label"].to_numpy()
    rows = PairedPredictions(
        labels, labels, table["prediction"].to_numpy() * 0, read_task(table.schema, "label")
    )
    decision = decide_promotion(rows, (), PromotionPolicy(min_rows=1))
    assert decision.promoted
    assert decision.metric == "accuracy"


def test_kind_that_is_not_registered_is_refused_with_those_that_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_params(tmp_path)
    text = (tmp_path / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(text.replace("task: classification", "task: ranking"))
    with pytest.raises(ParamsError, match="classification"):
        load_params()
