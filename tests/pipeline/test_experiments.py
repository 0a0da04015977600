"""Experiments by DVC's commands, on the real pipeline with a small model."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.project import GIT_IDENTITY, SMALL, Project
from tuneline.operations.experiments.saved import SavedExperiment, saved_experiments

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
RUN = ("dvc", "exp", "run", "--temp", "train")
LONG = ("-S", "train.epochs=12", "-S", "run.checkpoint_every_steps=5")


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """A project in which the stages up to the training have run."""
    project = Project.copy_to(tmp_path_factory.mktemp("project"))
    project.set_params({**SMALL, "data.sample.rows": 400})
    project.run("dvc", "repro", "--quiet", "train")
    project.commit("Start")
    return project


def experiment(project: Project, name: str) -> SavedExperiment:
    (found,) = [saved for saved in saved_experiments(project.folder) if saved.name == name]
    return found


def test_experiment_trains_beside_the_tree_and_is_compared(project):
    project.run(*RUN, "-S", "train.epochs=2", "-S", "train.learning_rate=3e-4", "--name", "longer")
    longer = experiment(project, "longer")
    assert longer.differs == {"train.epochs": 2, "train.learning_rate": 0.0003}
    assert longer.metrics["best_accuracy_low"] < longer.metrics["best_accuracy"]
    assert project.status() == ""
    shown = project.run("tuneline", "experiments", COLUMNS="200").stdout
    assert re.search(r"longer +epochs=2, learning_rate=0\.0003 +accuracy 0\.\d+ \(", shown)


def test_queued_values_are_trained_and_a_failing_one_lets_the_others_go_on(project):
    rates = "train.learning_rate=2e-4,1e30,4e-4"
    project.run("dvc", "exp", "run", "--queue", "-S", rates, "--name", "rate", "train")
    printed = project.run("dvc", "exp", "run", "--run-all").stdout
    assert printed.count("Stage 'validate' didn't change, skipping") == 3
    names = {saved.name for saved in saved_experiments(project.folder)}
    assert {name for name in names if name.startswith("rate")} == {"rate-1", "rate-3"}
    assert re.search(r"rate-2 .*Failed", project.run("dvc", "queue", "status").stdout)
    shown = project.run("tuneline", "experiments", COLUMNS="200").stdout
    assert re.search(r"rate-3 +learning_rate=0\.0004 +accuracy 0\.\d+ \(", shown)
    assert project.status() == ""


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("+train.lr=1e-4", "train.lr: unknown key; did you mean train.learning_rate?"),
    ],
)
def test_wrong_value_is_named_and_keeps_nothing(project, override, named):
    before = saved_experiments(project.folder)
    done = project.run(*RUN, "-S", override, check=False)
    assert done.returncode != 0
    assert named in " ".join(done.stdout.split())
    assert saved_experiments(project.folder) == before
    assert project.status() == ""


def test_training_of_a_killed_tree_is_resumed_in_another_one(project):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        [*RUN, *LONG, "--name", "killed"],
        cwd=project.folder,
        env={**os.environ, "PATH": path, **GIT_IDENTITY},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    until = time.monotonic() + 240
    while not list(project.folder.glob("checkpoints/*/step-00000010")):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()

    assert "resumes from step" in project.run(*RUN, *LONG, "--name", "resumed").stdout
    project.run("dvc", "exp", "run", "--temp", "--force", "train", *LONG, "--name", "undisturbed")
    resumed, undisturbed = (experiment(project, name).lock for name in ("resumed", "undisturbed"))
    for out in ("models/classifier", "plots/training", "reports/validation.parquet", "metrics/train.json"):
        assert resumed.out(out) == undisturbed.out(out)
    assert not list((project.folder / "checkpoints").glob("*/step-*")), "they go with the published model"
