"""Tests of your project: your data, your parameters, your functions. Change this file: it is yours.

The stages run once on a few hundred rows that are sampled from your data, in a copy of the repository
(``tuneline.testing``).
"""

import os
from pathlib import Path

import numpy as np
import pytest

from tuneline.core.params.loading import load_params
from tuneline.testing import SampledRun

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> SampledRun:
    hub = load_params(ROOT / "params.yaml").data.source == "hub"
    if hub and os.environ.get("HF_HUB_OFFLINE") == "1":
        pytest.skip("data.source is hub, which HF_HUB_OFFLINE=1 does not ask")
    # Not a stage after the report, which could deploy the model. Name yours if it may run in a test.
    return SampledRun.of(ROOT, tmp_path_factory.mktemp("sampled"), "report")


def test_every_stage_ends(run):
    assert {"download", "train", "evaluate", "compare", "report"} <= set(run.stages)
    assert run.checks.passed


def test_labels_are_those_of_the_project(run):
    labels = run.labels("train")
    assert np.unique(labels.to_numpy(), axis=0).size > 1
    if run.params.data.label_names is not None:
        assert list(run.task.names) == run.params.data.label_names


def test_exported_model_answers_as_the_trained_one(run):
    trained = run.predictions
    answers = run.model.predict(run.texts(run.params.evaluate.split))
    scores = [list(answer.scores.values()) or [answer.number] for answer in answers]
    np.testing.assert_allclose(scores, trained.task.scores(trained.logits), atol=1e-3)


def test_loss_is_a_number_for_each_row(run):
    losses = run.losses()
    assert losses.shape == (len(run.predictions),)
    assert np.isfinite(losses).all()
    if run.params.train.loss is None:
        assert losses.mean() == pytest.approx(run.metrics["loss"], abs=1e-4)


def test_functions_of_the_project_are_in_the_result(run):
    for name in run.params.evaluate.metric_functions:
        assert run.metrics[name.function] == pytest.approx(run.metric(str(name)), abs=1e-6)
    checked = {check.check for check in run.checks.checks}
    assert checked >= {name.function for name in run.params.validate_.functions}
