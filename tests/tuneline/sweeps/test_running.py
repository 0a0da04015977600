"""Sweeps on the real commands, with a model of a few thousand weights."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.params import write_params
from tests.project import GIT_IDENTITY, SMALL, Project
from tuneline.runtime.errors import ParamsError
from tuneline.sweeps.running import begin
from tuneline.sweeps.space import Sweep

TINY = {**SMALL, "data.sample.rows": 400, "train.epochs": None, "train.max_steps": 8, "run.trackers": []}
SWEEP = {
    "parameters": {
        "train.learning_rate": {"choice": [1e-4, 1e-2, 1e30]},  # the last one is NaN
        "train.epochs": {"choice": [1]},  # max_steps becomes null: 10 steps
        "train.optimizer": {"choice": ["sgd"]},
        "train.max_grad_norm": {"choice": [None]},
        "train.seed": {"choice": [1]},
    },
    "sampler": "grid",
    "halving": {"factor": 2, "first_steps": 2},
}
COMMAND = ("tuneline", "sweep", "conf/sweep/tiny.yaml")


def write_sweep(project, **changes):
    path = project.folder / "conf/sweep/tiny.yaml"
    path.parent.mkdir(exist_ok=True)
    YAML(typ="safe").dump({**SWEEP, **changes}, path)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A project whose stages before the training have run. Copy it."""
    project = Project.copy_to(tmp_path_factory.mktemp("prepared"))
    project.set_params(TINY)
    write_sweep(project)
    project.run("dvc", "repro", "--quiet", "validate")
    project.commit("Tiny")
    return project


def copy(project, folder):
    shutil.copytree(project.folder, folder, symlinks=True)
    return Project(folder)


def record(project):
    return json.loads((project.folder / ".dvc/tmp/sweeps/tiny/record.json").read_text())


def results(project):
    """What must not depend on kills and workers."""
    return [
        {key: value for key, value in trial.items() if key not in {"seconds", "commit"}}
        for trial in record(project)["trials"]
    ]


@pytest.fixture(scope="module")
def swept(prepared, tmp_path_factory):
    """A project in which the sweep has run, undisturbed, and what it printed."""
    project = copy(prepared, tmp_path_factory.mktemp("swept") / "project")
    return project, project.run(*COMMAND, OMP_NUM_THREADS="1").stdout


def test_best_configuration_is_trained_to_the_end_and_becomes_an_experiment(swept):
    project, printed = swept
    trials = record(project)["trials"]
    finished = [trial for trial in trials if trial["metric"] is not None]
    assert len({trial["configuration"] for trial in finished}) == 1
    assert [trial["steps"] for trial in finished] == [10]
    names = project.run("git", "for-each-ref", "--format=%(refname:lstrip=4)", "refs/exps").stdout.split()
    assert names == [f"tiny-{trial['number']}" for trial in finished]
    assert f"Best of 2 on validation: tiny-{finished[0]['number']}" in printed
    assert "is to be expected" in printed


def test_nan_is_recorded_and_the_sweep_goes_on(swept):
    project, printed = swept
    failed = [trial for trial in record(project)["trials"] if trial["error"]]
    assert {trial["configuration"] for trial in failed} == {2}
    assert all("loss" in trial["error"] for trial in failed)
    assert f"{len(failed)} of 3 trials failed" in printed


def test_working_tree_is_untouched_and_nothing_is_left(swept):
    project, _ = swept
    assert project.status() == ""
    assert not list((project.folder / ".dvc/tmp/experiments").glob("sweep-*"))
    assert not (project.folder / ".dvc/tmp/sweeps/tiny/checkpoints").exists()


def test_repeated_command_prints_the_same_and_trains_nothing(swept):
    project, printed = swept
    before = record(project)
    again = project.run(*COMMAND).stdout
    assert record(project) == before
    assert again.splitlines()[-5:] == printed.splitlines()[-5:]


@pytest.mark.slow
def test_apply_writes_the_parameters_of_the_best(swept, tmp_path):
    project = copy(swept[0], tmp_path / "project")
    project.run("tuneline", "sweep", "apply", "tiny")
    params = YAML(typ="safe").load(project.folder / "params.yaml")
    best = next(trial for trial in record(project)["trials"] if trial["metric"] is not None)
    assert params["train"]["learning_rate"] == best["parameters"]["train.learning_rate"]
    assert (params["train"]["epochs"], params["train"]["max_steps"]) == (1, None)


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"train.learning_rat": {"choice": [1e-4]}}, "did you mean train.learning_rate?"),
        ({"train.learning_rate": {"choice": [1e-4, -1.0]}}, "train.learning_rate"),
    ],
)
def test_invalid_space_is_refused_before_anything_runs(prepared, tmp_path, parameters, named):
    project = copy(prepared, tmp_path / "project")
    write_sweep(project, parameters=parameters)
    done = project.run(*COMMAND, check=False)
    assert (done.returncode, named in done.stdout) == (1, True), done.stdout
    assert not (project.folder / ".dvc/tmp/sweeps/tiny/record.json").exists()
    assert not list((project.folder / ".dvc/tmp").glob("experiments/*"))


@pytest.mark.parametrize(
    ("head", "key", "halving"),
    [("frozen", "train.epochs", False), ("frozen", "tokenize.max_length", True), (None, "model.head", True)],
)
def test_sweep_that_a_frozen_head_makes_pointless_is_refused(tmp_path, head, key, halving):
    write_params(tmp_path, model={"checkpoint": "owner/bert", "config": {}, "head": head})
    space = {
        "parameters": {key: {"choice": [1]}},
        "sampler": "grid",
        "halving": SWEEP["halving"] if halving else None,
    }
    with pytest.raises(ParamsError, match=r"model\.head"):
        begin(tmp_path, Sweep.model_validate(space), 1)


def test_variants_are_compared_as_fine_tuned_models_whatever_auto_would_publish(tmp_path, capsys):
    write_params(tmp_path, model={"checkpoint": "owner/bert", "config": {}, "head": "auto"})
    space = {
        "parameters": {"train.learning_rate": {"choice": [1e-5, 1e-4]}},
        "sampler": "grid",
        "halving": None,
    }
    record = begin(tmp_path, Sweep.model_validate(space), 1)
    assert "head: null" in record.params
    assert "the variants have model.head null" in capsys.readouterr().out


@pytest.mark.slow
def test_changed_file_is_refused(swept, tmp_path):
    project = copy(swept[0], tmp_path / "project")
    write_sweep(project, halving=None)
    done = project.run(*COMMAND, check=False)
    assert (done.returncode, "--restart" in done.stdout) == (1, True), done.stdout


def start(project):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **GIT_IDENTITY}
    with (project.folder.parent / "output.txt").open("ab") as output:
        return subprocess.Popen(
            COMMAND, cwd=project.folder, env=env, stdout=output, stderr=output, start_new_session=True
        )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(2))
def test_sweep_killed_five_times_ends_as_an_undisturbed_one(prepared, swept, tmp_path, seed):
    import psutil

    project, draw = copy(prepared, tmp_path / "project"), random.Random(seed)
    for kill in range(5):
        process = start(project)
        time.sleep(draw.uniform(2, 40))
        if process.poll() is not None:
            break
        victims = psutil.Process(process.pid).children(recursive=True)
        trainings = [one for one in victims if "stages.train" in " ".join(one.cmdline())]
        victim = draw.choice(trainings) if kill % 2 and trainings else psutil.Process(process.pid)
        victim.kill()
        if victim.pid == process.pid:
            process.wait()
        else:  # the training is started again; then the machine stops
            time.sleep(draw.uniform(0, 5))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    project.run(*COMMAND, OMP_NUM_THREADS="1")
    assert results(project) == results(swept[0])


@pytest.mark.slow
def test_two_workers_end_as_one(prepared, swept, tmp_path):
    project = copy(prepared, tmp_path / "project")
    project.run(*COMMAND, "--workers", "2", OMP_NUM_THREADS="1")
    assert results(project) == results(swept[0])


@pytest.mark.slow
def test_second_process_is_refused_and_ctrl_c_says_how_to_go_on(prepared, swept, tmp_path):
    project = copy(prepared, tmp_path / "project")
    process = start(project)
    deadline = time.monotonic() + 120
    while not (project.folder / ".dvc/tmp/sweeps/tiny/record.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    refused = project.run(*COMMAND, check=False)
    assert (refused.returncode, "running already" in refused.stdout) == (1, True)
    time.sleep(10)
    process.send_signal(signal.SIGINT)
    assert process.wait(90) == 130
    assert "Go on: tuneline sweep conf/sweep/tiny.yaml" in (tmp_path / "output.txt").read_text()
    project.run(*COMMAND, OMP_NUM_THREADS="1")
    assert results(project) == results(swept[0])
