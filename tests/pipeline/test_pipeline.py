"""The whole pipeline, run by the commands of its users, on a sampled data set."""

import json
import re

import pytest

from tests.project import SMALL, Project

pytestmark = pytest.mark.timeout(900)


def stages_run(output: str) -> list[str]:
    """Return the stages that ``dvc repro`` ran, in order."""
    return re.findall(r"Running stage '(\w+)'", output)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """Return a project in which the pipeline ran once and was committed."""
    project = Project.copy_to(tmp_path_factory.mktemp("project"))
    project.set_params(SMALL)
    # The logits of a hardly trained model are close together, so quantization may flip more predictions than
    # usual.
    project.set_params({"compare.int8.min_agreement": 0.5, "compare.int8.max_metric_drop": 0.5})
    output = project.run("dvc", "repro").stdout
    assert sorted(stages_run(output)) == project.stages()
    project.commit("Run the pipeline")
    return project


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
    assert evaluated["rows"] == 80
    compared = json.loads((project.folder / "metrics/compare.json").read_text())
    assert {"fp32_max_abs_diff", "fp32_agreement", "int8_agreement", "int8_accuracy_drop"} <= set(compared)


def test_report_show_and_predict_read_the_outs(project):
    """The last stage has written the page; the last commands of ``make run``, and a first prediction."""
    accuracy = json.loads((project.folder / "metrics/evaluate.json").read_text())["accuracy"]
    assert f"{accuracy:.3f}" in (project.folder / "reports/index.html").read_text(encoding="utf-8")
    shown = project.run("tuneline", "show").stdout
    assert f"{accuracy:g}" in shown
    assert "of another" not in shown, "neither page nor metrics"
    project.set_params({"train.learning_rate": 2e-3})
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

    project.set_params({"decide.costs": None})
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
