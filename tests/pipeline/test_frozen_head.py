"""The pipeline with a linear model on a frozen checkpoint, by the commands of its users."""

import json

import pytest

from tests.checkpoints import write_checkpoint
from tests.pipeline.test_pipeline import stages_run
from tests.project import SMALL, Project

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_frozen_head_is_published_reported_and_compared_like_any_other_model(tmp_path):
    project = Project.copy_to(tmp_path / "project")
    write_checkpoint(project.folder / "models/source/tiny")
    project.run("dvc", "add", "--quiet", "models/source/tiny")
    project.set_params(SMALL)
    project.set_params(
        {
            "model.checkpoint": "models/source/tiny",
            "model.config": {},
            "model.head": "frozen",
            "tokenize.max_length": 64,
        }
    )
    project.set_params(
        {"compare.int8.min_agreement": 0.5, "compare.int8.max_metric_drop": 0.5}
    )  # random weights
    project.set_params(
        {"validate.unknown_rate": 1.0, "validate.truncation_rate": 1.0}
    )  # it knows a few words only
    assert sorted(stages_run(project.run("dvc", "repro").stdout)) == project.stages()
    project.commit("Frozen")
    assert stages_run(project.run("dvc", "repro").stdout) == []
    compared = json.loads((project.folder / "metrics/compare.json").read_text())
    assert compared["fp32_agreement"] == 1.0

    page = (project.folder / "reports/index.html").read_text(encoding="utf-8")
    card = (project.folder / "reports/model_card.md").read_text(encoding="utf-8")
    assert "A linear model was fitted to its vectors" in page
    assert "head.safetensors" in card
    assert 'pipeline("text-classification"' not in card
    shown = project.run("tuneline", "show").stdout
    assert "dvc exp run --temp train -S model.head=auto" in shown
    assert "train.epochs" not in shown
    (project.folder / "new.csv").write_text("subject,body\nWhere is it,The parcel was lost\n")
    project.run("tuneline", "predict", "new.csv", "-o", "predicted.csv")
    assert len((project.folder / "predicted.csv").read_text().splitlines()) == 2
