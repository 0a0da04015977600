"""The example workflow for pull requests in docs/compare-commits.md, run as CI runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.dvc_files import init_dvc
from tests.params import write_params
from tests.tuneline.finished_project import FinishedProject

EXAMPLE = Path(__file__).parents[2] / "docs/examples/compare.yml"


@pytest.fixture(scope="module")
def workflow():
    return YAML(typ="safe", pure=True).load(EXAMPLE)


@pytest.fixture(scope="module")
def job(workflow):
    return workflow["jobs"]["compare"]


def step(job, name) -> dict:
    return next(entry for entry in job["steps"] if entry.get("name") == name)


@pytest.fixture(scope="module")
def proposed(tmp_path_factory, homes):
    """A pull request: the commit `base`, and a commit with another learning rate."""
    root = tmp_path_factory.mktemp("proposed")
    project = FinishedProject(root)
    init_dvc(root)
    project.run_pipeline()
    (root / "dvc.yaml").write_text("metrics: [metrics/evaluate.json]\nparams: [params.yaml]\n")
    write_params(root, train={"learning_rate": 0.0005})
    project.commit("Base")
    project.git("branch", "base")
    project.run_pipeline(skill=6.0, seed=2)
    write_params(root, train={"learning_rate": 0.001})
    project.commit("Learn faster")
    return project


@pytest.mark.slow
def test_compare_workflow_writes_both_tables_and_the_report(job, proposed):
    summary = proposed.root / "summary.md"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step(job, "Compare")["run"]],  # as GitHub starts it
        cwd=proposed.root,
        env={**os.environ, "PATH": path, "BASE": "base", "GITHUB_STEP_SUMMARY": str(summary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tables = summary.read_text()
    assert "### Metrics, against base" in tables
    assert "| metrics/evaluate.json | accuracy" in tables
    assert "| train.learning_rate | 0.0005" in tables
    assert "Clearly better" in tables


def test_compare_workflow_passes_branch_names_by_environment_only(job):
    """A branch may be called `$(curl ...)`: expressions are allowed in `env`, not in `run`."""
    for entry in job["steps"]:
        assert "${{" not in entry.get("run", "")


def test_compare_workflow_may_write_comments_only(workflow):
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}


def test_compare_workflow_runs_without_the_secrets_of_the_base_repository(workflow):
    """`pull_request_target` would run code of a stranger with these secrets."""
    assert workflow["on"] == "pull_request"
