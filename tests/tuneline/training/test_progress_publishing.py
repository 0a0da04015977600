import json
import time

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import stages.train
from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill


def test_published_model_loads_with_label_names_and_tokenizer(tracked_run):
    folder = tracked_run / "models/classifier"
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert model.config.id2label == dict(enumerate(tiny_task.NAMES))
    assert model(**tokenizer("billing word1", return_tensors="pt")).logits.shape == (1, 3)


def test_validation_predictions_are_those_of_the_published_model(tracked_run):
    predicted = pq.read_table(tracked_run / "reports/validation.parquet")
    model = AutoModelForSequenceClassification.from_pretrained(tracked_run / "models/classifier").eval()
    split = pq.read_table(tracked_run / "data/tokenized/validation.parquet")
    for row, logits in enumerate(predicted["logits"].to_pylist()):
        inputs = {
            name: torch.tensor([split[name][row].as_py()])
            for name in ("input_ids", "attention_mask", "token_type_ids")
        }
        with torch.no_grad():
            assert model(**inputs).logits[0].tolist() == pytest.approx(logits, abs=1e-4)
    correct = [
        label == np.argmax(row)
        for label, row in zip(predicted["label"].to_pylist(), predicted["logits"].to_pylist(), strict=True)
    ]
    metrics = launcher.metrics(tracked_run)
    assert metrics["best_accuracy"] == pytest.approx(np.mean(correct), abs=1e-6)
    assert metrics["best_accuracy_low"] <= metrics["best_accuracy"] <= metrics["best_accuracy_high"]


def test_published_model_contains_no_path_of_the_machine(tracked_run):
    for path in (tracked_run / "models/classifier").iterdir():
        assert str(tracked_run).encode() not in path.read_bytes(), path.name


def test_train_metrics_have_steps_best_step_losses_and_metric(tracked_run):
    metrics = launcher.metrics(tracked_run)
    curve = launcher.curve(tracked_run)
    assert metrics["steps"] == len(curve) == 16
    assert metrics["best_step"] in (8, 16)
    validation = launcher.curve(tracked_run, "validation")
    assert metrics["best_loss"] in [pytest.approx(row[1], abs=1e-5) for row in validation]
    assert metrics["best_accuracy"] == max(row[2] for row in validation)


def slow_publication() -> None:
    """Let a process wait before it publishes."""
    publish = stages.train.publish_curves

    def slow(*arguments):
        time.sleep(5)
        publish(*arguments)

    stages.train.publish_curves = slow


def test_seconds_of_the_training_are_without_those_of_the_publication(tmp_path, data):
    project = fill(tmp_path, data)
    tiny_task.write_params(project)
    assert launcher.run(project, before=slow_publication) == [0], launcher.output(project)
    timing = json.loads((project / "reports/timing/train.json").read_text())
    assert timing["training_seconds"] < timing["seconds"] - 5
