"""Regression with a head that is drawn at random: it learns at any scale of the targets, and is published as
a plain model."""

import math

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from tests.small_pipeline import FAMILIES, tiny_model
from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill
from tuneline.core.paths import TOKENIZER
from tuneline.core.stage.tables import write_table
from tuneline.model.linear.pooled_classifier import PooledClassifier
from tuneline.model.tasks import Regression
from tuneline.training import loop
from tuneline.training.head import TargetScale
from tuneline.training.publication import publish_model

NUMBERS = Regression()
TARGETS = np.array([1000.0, 3000.0], dtype=np.float32)
METRIC = {"metric": "mse", "keep": "last"}


def write_targets(project, factor=1.0, shift=0.0):
    """Write a regression whose targets of 0, 0.5 and 1 are multiplied and shifted."""
    tiny_task.write_data(project, labels=NUMBERS)
    for seed, (split, rows) in enumerate({"train": 60, "validation": 21}.items()):
        table = tiny_task.table(rows, seed, NUMBERS)
        index = table.column_names.index("labels")
        values = (table["labels"].to_numpy() * factor + shift).astype(np.float32)
        write_table(
            table.set_column(index, table.schema.field("labels"), [values]),
            project / f"data/tokenized/{split}.parquet",
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_new_head_predicts_around_the_mean_in_every_family(family):
    model = tiny_model(family, outputs=1)
    inputs = {"input_ids": torch.arange(5, 17).reshape(2, 6)}
    before = model(**inputs).logits
    scale = TargetScale.apply(model, model.state_dict(), TARGETS)
    assert (scale.mean, scale.deviation) == (2000.0, 1000.0)
    expected = before * 1000 + 2000
    assert torch.allclose(model(**inputs).logits, expected)
    weights = model.state_dict()
    scale.fold(weights)
    model.load_state_dict(weights)
    assert torch.allclose(model(**inputs).logits, expected, rtol=1e-4)


def test_head_of_the_linear_model_predicts_as_before():
    model = PooledClassifier(tiny_model("bert", outputs=1).base_model, None)
    inputs = {"input_ids": torch.arange(5, 17).reshape(2, 6), "attention_mask": torch.ones(2, 6)}
    expected = model(**inputs).logits
    TargetScale.apply(model, ["head.bias"], TARGETS)
    assert torch.allclose(model(**inputs).logits, expected, atol=1e-3)
    assert abs(float(model.head.bias) + 2) < 0.1, "it is in the unit of standard deviations from the mean"


def test_loaded_head_keeps_its_unit():
    model = tiny_model("bert", outputs=1)
    assert TargetScale.apply(model, {"bert.pooler.dense.bias"}, TARGETS) is None


def test_training_learns_targets_of_any_scale_alike(project, trained, monkeypatch):
    """But for the epsilon of Adam, which is larger for smaller gradients."""
    monkeypatch.setattr(loop, "MAX_GRADIENT_NORM", math.inf)
    write_targets(project)
    small = trained(tiny_task.params(epochs=6, **METRIC)).state.progress.evaluated
    write_targets(project, factor=4000.0, shift=10_000.0)
    large = trained(tiny_task.params(epochs=6, **METRIC)).state.progress.evaluated
    assert [row.loss / 4000**2 for row in large] == pytest.approx([row.loss for row in small], rel=0.1)
    assert small[-1].loss < 0.5 * small[0].loss


@pytest.mark.parametrize(
    "changes", [{}, {"lora": {"rank": 2, "target_modules": "all-linear"}}], ids=["plain", "lora"]
)
def test_published_model_predicts_in_the_unit_of_the_targets(project, trained, changes):
    write_targets(project, factor=4000.0, shift=10_000.0)
    outcome = trained(tiny_task.params(**METRIC, **changes))
    publish_model(outcome.model, outcome.weights, TOKENIZER, project / "published", Regression())
    model = AutoModelForSequenceClassification.from_pretrained(project / "published").eval()
    loader = outcome.state.validation_loader
    rows = np.arange(len(loader.split))
    with torch.no_grad():
        error = model(**loader.inputs(rows)).logits[:, 0] - loader.labels(rows)
    assert float(error.square().mean()) == pytest.approx(outcome.state.progress.evaluated[-1].loss, rel=1e-4)


@pytest.mark.slow
def test_resumed_regression_gives_identical_outs(tmp_path, data):
    write_targets(fill(tmp_path, data), factor=4000.0, shift=10_000.0)
    tiny_task.write_params(tmp_path, checkpoint_every_steps=3, **METRIC)
    assert launcher.run(tmp_path) == [0], launcher.output(tmp_path)
    expected = launcher.outs(tmp_path)
    launcher.run(tmp_path, before=launcher.kill_at("tuneline.training.loop.train_batch", 12))
    assert launcher.run(tmp_path) == [0], launcher.output(tmp_path)
    assert "resumes from step 9 of 16" in launcher.output(tmp_path)
    assert launcher.outs(tmp_path) == expected
