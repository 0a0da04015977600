"""A fourth kind of task: a class with what it answers in another way, from tokenized splits to answers."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from accelerate.state import AcceleratorState, GradientState

import stages.baseline
import stages.compare
import stages.evaluate
import stages.export
import stages.train
from tests.small_pipeline import SMALL, write_pipeline
from tuneline.core.paths import METRICS, ONNX, PREDICTIONS, RAW
from tuneline.core.stage.tables import SplitReader
from tuneline.judge.metrics.predictions import read_predictions
from tuneline.model.tasks import TASKS, Classification
from tuneline.model.tasks.columns import parsed_labels, read_task
from tuneline.model.tasks.task import UNKNOWN
from tuneline.serve.columns import prediction_columns
from tuneline.serve.text_classifier import TextClassifier

GRADES = ("poor", "fair", "good")


@dataclass(frozen=True)
class Ordinal(Classification):
    """Classes in an order: the answer is the median, below and above which at most half of the
    probability is."""

    kind: ClassVar[str] = "ordinal"

    def predictions(self, logits):
        return self.decide(self.scores(logits))

    def decide(self, scores):
        return np.minimum((scores.cumsum(axis=1) < 0.5).sum(axis=1), self.outputs - 1)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with raw and tokenized splits of the fourth kind, as the working directory."""
    monkeypatch.setitem(TASKS, Ordinal.kind, Ordinal)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.chdir(tmp_path)
    changes = {
        "model.config": {"model_type": "bert", **SMALL},
        "train.epochs": 1,
        "export.precisions": ["fp32"],
    }
    write_pipeline(tmp_path, changes=changes, labels=Ordinal(GRADES))
    yield tmp_path
    # what accelerate keeps for the life of a process
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def test_fourth_kind_goes_from_tokenized_splits_to_answers(project):
    for stage in (stages.train, stages.baseline, stages.evaluate, stages.export, stages.compare):
        stage.main()

    # evaluation
    predictions = read_predictions(PREDICTIONS, with_logits=True)
    task = Ordinal(GRADES)
    assert read_task(SplitReader.open(RAW, "test", "download").schema) == predictions.task == task
    assert np.array_equal(predictions.values, predictions.task.predictions(predictions.logits))
    most_probable = Classification(GRADES).predictions(predictions.logits)
    assert not np.array_equal(predictions.values, most_probable), "the median"
    accuracy = np.mean(predictions.values == predictions.labels)
    metrics = json.loads((METRICS / "evaluate.json").read_text())
    assert metrics["accuracy"] == pytest.approx(accuracy, abs=1e-6)

    # the published model
    assert json.loads((ONNX / "export.json").read_text())["task"] == "ordinal"
    model = TextClassifier.load(ONNX)
    rows = pq.read_table(RAW / "test.parquet").select(["subject", "body"])
    answers = [prediction.label for prediction in model.predict(rows)]
    assert answers == [task.value(label) for label in predictions.values]
    assert list(prediction_columns(model.task))[:2] == ["label", "probability"]

    # what people write
    texts = pa.chunked_array([["good", "best"]])
    assert parsed_labels(task, texts).tolist() == [2, UNKNOWN]
