"""The pipeline with a real pretrained encoder from a hub on loopback."""

import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from tests.hub import LoopbackHub
from tests.pipeline.test_pipeline import stages_run
from tests.project import Project

pytestmark = [pytest.mark.slow, pytest.mark.real_data, pytest.mark.timeout(1800)]

NAME = "sentence-transformers/all-MiniLM-L6-v2"
SETTINGS = [
    "data.source=hub",
    "data.path=nyu-mll/glue",
    "data.name=mrpc",
    "data.text_columns=[sentence1,sentence2]",
    "data.label_column=label",
    f"model.checkpoint={NAME}",
    "model.config=null",
    "train.learning_rate=5e-5",
    "data.max_rows=200",
    "train.epochs=null",
    "train.max_steps=5",
    "compare.int8.min_agreement=0.5",  # the logits of a hardly trained model are close together
    "compare.int8.max_metric_drop=0.5",
    "compare.fp32.min_agreement=0.9",
    "compare.fp32.max_metric_drop=0.1",
]
AFTER_BASE = ["tokenize", "baseline", "train", "evaluate", "export", "compare", "report"]
"""Stages that other weights run again; with the same tokenizer, the tokens stay, and so do their checks."""


def change_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.weight"] = weights["embeddings.LayerNorm.weight"] * 1.01
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_fine_tuning_needs_the_hub_once_and_runs_again_only_for_other_weights(pretrained_hub, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(pretrained_hub / "models" / NAME, changed)
    change_weights(changed)
    project = Project.copy_to(tmp_path / "project")
    with LoopbackHub(tmp_path / "hub") as hub:
        env = {**hub.env(tmp_path / "home"), "HF_HUB_OFFLINE": "0"}
        hub.add("datasets", "nyu-mll/glue", pretrained_hub / "datasets/nyu-mll/glue")
        first = hub.add("models", NAME, pretrained_hub / "models" / NAME)
        project.run("dvc", "exp", "run", *(word for value in SETTINGS for word in ("-S", value)), **env)
        project.commit("Fine-tune")
        assert f"{NAME} at {first}" in project.run("tuneline", "show").stdout
        assert stages_run(project.run("dvc", "repro", **env).stdout) == []

        second = hub.add("models", NAME, changed)
        assert stages_run(project.run("dvc", "repro", **env).stdout) == [], (
            "a moved branch changes nothing by itself"
        )
        assert stages_run(project.run("dvc", "repro", "--force", "base", **env).stdout) == ["base"]
    assert sorted(stages_run(project.run("dvc", "repro", HF_HUB_OFFLINE="1").stdout)) == sorted(AFTER_BASE)
    assert f"{NAME} at {second}" in project.run("tuneline", "show", "models/onnx").stdout

    shutil.copytree(changed, project.folder / "models/source/mine")
    project.set_params({"model.checkpoint": "models/source/mine"})
    assert "base" in stages_run(project.run("dvc", "repro", HF_HUB_OFFLINE="1").stdout)
    change_weights(project.folder / "models/source/mine")
    assert sorted(stages_run(project.run("dvc", "repro", HF_HUB_OFFLINE="1").stdout)) == sorted(
        ["base", *AFTER_BASE]
    )
