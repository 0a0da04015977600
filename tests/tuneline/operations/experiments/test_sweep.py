"""Sweeps on the real commands, with a model of a few thousand weights."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.project import GIT_IDENTITY, SMALL, Project
from tuneline.operations.experiments.saved import saved_experiments

TINY = {**SMALL, "data.sample.rows": 400, "train.epochs": None, "train.max_steps": 40}
TINY |= {"run.checkpoint_every_steps": 5}
SWEEP = {
    "parameters": {
        "train.learning_rate": {"choice": [1e-4, 1e-2, 1e30]},  # the last one is NaN
    },
    "halving": {"factor": 2, "first_steps": 4},
}
COMMAND = ("tuneline", "sweep", "conf/sweep/tiny.yaml")


def write_sweep(project: Project, **changes: object) -> None:
    path = project.folder / "conf/sweep/tiny.yaml"
    path.parent.mkdir(exist_ok=True)
    YAML(typ="safe").dump({**SWEEP, **changes}, path)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Project:
    """A project whose stages before the training have run."""
    project = Project.copy_to(tmp_path_factory.mktemp("prepared"))
    project.set_params(TINY)
    write_sweep(project)
    project.run("dvc", "repro", "--quiet", "validate")
    project.commit("Tiny")
    return project


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"train.learning_rate": {"choice": [1e-4, -1.0]}}, "train.learning_rate: input should be greater"),
        ({"model.head": {"choice": ["frosen"]}}, "model.head"),
    ],
)
def test_configuration_that_is_invalid_is_refused_before_anything_is_trained(prepared, changes, named):
    write_sweep(prepared, parameters=changes)
    prepared.commit("Invalid")
    done = prepared.run(*COMMAND, check=False)
    assert (done.returncode, named in done.stdout) == (1, True), done.stdout
    assert saved_experiments(prepared.folder) == []


def test_uncommitted_changes_are_refused(prepared):
    write_sweep(prepared, seed=3)
    done = prepared.run(*COMMAND, check=False)
    assert (done.returncode, "conf/sweep/tiny.yaml has uncommitted changes" in done.stdout) == (1, True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_sweep_trains_nothing_twice_and_ends_with_the_corrected_best(prepared):
    write_sweep(prepared)
    prepared.commit("Sweep")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, **GIT_IDENTITY}
    process = subprocess.Popen(COMMAND, cwd=prepared.folder, env=env, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 400
    while not list(prepared.folder.glob("checkpoints/*/step-00000005")):  # the last training, to its end
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    process.kill()
    before = {experiment.name: experiment.commit for experiment in saved_experiments(prepared.folder)}
    assert len(before) == 2

    printed = prepared.run(*COMMAND).stdout
    after = {experiment.name: experiment.commit for experiment in saved_experiments(prepared.folder)}
    assert before.items() < after.items(), "what was trained stays as it is"
    assert len(after) == 3
    assert "learning_rate 1e+30: failed: " in printed
    assert "Best of 3 on validation" in printed
    assert "is to be expected: corrected" in printed
    logs = (prepared.folder / ".dvc/tmp/sweeps").glob("*.log")
    assert any("resumes from step" in log.read_text() for log in logs)
    assert prepared.status() == ""
    assert len(saved_experiments(prepared.folder)) == 3
