"""The whole pipeline, run by the commands of its users, on a sampled data set."""

import json
import re

import numpy as np
import pytest

from tests.project import Project
from tuneline.testing import SampledRun

pytestmark = pytest.mark.timeout(900)
OWN = {
    "train.loss": "project/losses.py:focal",
    "evaluate.metrics": ["project/metrics.py:cost"],
    "validate.own": {"project/checks.py:no_phone_numbers": 0.5},
}


def stages_run(output: str) -> list[str]:
    """Return the stages that ``dvc repro`` ran, in order."""
    return re.findall(r"Running stage '(\w+)'", output)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> SampledRun:
    """Return a run of the product with a loss and a metric of its own."""
    product = Project.copy_to(tmp_path_factory.mktemp("product"))
    return SampledRun.of(product.folder, tmp_path_factory.mktemp("project"), changes=OWN)


@pytest.fixture(scope="module")
def project(run) -> Project:
    """Return the copy in which it ran, committed."""
    project = Project(run.folder)
    project.commit("Run the pipeline")
    return project


def test_sampled_run_has_every_stage_and_its_results(run):
    assert sorted(run.stages) == Project(run.folder).stages()
    assert set(run.labels("train")) == set(run.task.names)
    assert list(run.texts("validation")) == ["subject", "body"]
    assert len(run.texts("validation")) == 300
    assert run.checks.passed
    assert "no_phone_numbers" in {check.check for check in run.checks.checks}
    assert run.metric("project/metrics.py:cost") == pytest.approx(run.metrics["cost"], abs=1e-6)


def test_sampled_run_computes_the_loss_that_params_name(run):
    predictions = run.predictions
    p = run.task.scores(predictions.logits)[np.arange(300), predictions.labels]
    np.testing.assert_allclose(run.losses(), -((1 - p) ** 2) * np.log(p), atol=1e-5)


def test_pipeline_writes_every_documented_file(project):
    required = """
        data/raw/train.parquet data/raw/validation.parquet data/raw/test.parquet data/raw/source.json
        data/tokenized/train.parquet data/tokenized/validation.parquet data/tokenized/test.parquet
        data/tokenized/tokenizer/tokenizer.json
        reports/checks/checks.json reports/checks/index.html reports/predictions.parquet
        models/classifier/config.json models/classifier/model.safetensors models/classifier/tokenizer.json
        models/onnx/model.onnx models/onnx/model.int8.onnx models/onnx/export.json
        metrics/tokenize.json metrics/validate.json metrics/train.json metrics/evaluate.json
        metrics/compare.json
    """.split()
    assert not [name for name in required if not (project.folder / name).is_file()]


def test_metrics_files_have_the_documented_names(project):
    evaluated = json.loads((project.folder / "metrics/evaluate.json").read_text())
    assert {"accuracy", "f1", "loss", "rows"} <= set(evaluated)
    assert evaluated["rows"] == 300
    compared = json.loads((project.folder / "metrics/compare.json").read_text())
    assert {"fp32_max_abs_diff", "fp32_agreement", "int8_agreement", "int8_accuracy_drop"} <= set(compared)


def test_report_show_and_predict_read_the_outs(project):
    """The last stage has written the page; the last commands of ``make run``, and a first prediction."""
    accuracy = json.loads((project.folder / "metrics/evaluate.json").read_text())["accuracy"]
    assert f"{accuracy:.3f}" in (project.folder / "reports/index.html").read_text(encoding="utf-8")
    shown = project.run("tuneline", "show").stdout
    assert f"{accuracy:g}" in shown
    assert "of another" not in shown, "neither page nor metrics"
    project.set_params({"train.learning_rate": 3e-3})
    assert (
        "result of other parameters than those in params.yaml now (train.learning_rate)"
        in project.run("tuneline", "show").stdout
    )
    project.run("git", "checkout", "params.yaml")
    (project.folder / "reports/new.jsonl").write_text(
        '{"subject": "parcel", "body": "the parcel is missing"}'
    )
    (line,) = project.run(
        "tuneline", "predict", "reports/new.jsonl", "-o", "reports/new.csv"
    ).stdout.splitlines()
    assert line.startswith("1 rows")
    assert len((project.folder / "reports/new.csv").read_text().splitlines()) == 2
    assert project.status() == ""


def test_second_pipeline_run_executes_no_stage(project):
    assert stages_run(project.run("dvc", "repro").stdout) == []


def test_page_is_written_in_a_new_clone_whose_lock_fits(project):
    """Neither git nor DVC's cache has what the stage writes, which has facts of this machine."""
    for name in ("reports/index.html", "reports/model_card.md", "reports/report.json"):
        (project.folder / name).unlink()
    assert stages_run(project.run("dvc", "repro").stdout) == ["report"]
    assert (project.folder / "reports/index.html").exists()
    assert project.status() == ""
    assert stages_run(project.run("dvc", "repro").stdout) == []
    assert project.status() == ""


def test_published_models_stay_when_their_stage_fails(project):
    def published():
        return {path.name: path.read_bytes() for path in (project.folder / "models/onnx").iterdir()}

    before = published()
    project.set_params({"decide.costs": {"of": {"spma": {"billing": 2}}}})
    failed = project.run("dvc", "repro", check=False)
    assert failed.returncode != 0
    assert "'spma' is not a class of the data" in failed.stdout
    assert published() == before

    project.run("git", "checkout", "params.yaml")
    assert stages_run(project.run("dvc", "repro").stdout) == ["compare"]
    assert published() == before
    assert project.status() == ""


@pytest.mark.slow  # each stage has a test of its own that runs it twice
def test_forced_pipeline_run_writes_identical_bytes(project):
    before = project.lock()
    assert sorted(stages_run(project.run("dvc", "repro", "--force").stdout)) == project.stages()
    for stage, entry in project.lock().items():
        assert entry.get("outs") == before[stage].get("outs"), (
            f"{stage} wrote other bytes from the same inputs"
        )
    assert project.status() == ""
