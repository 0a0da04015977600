"""A run that is killed at any instant and resumed writes the same bytes as an uninterrupted run."""

import os
import random
import re
import signal
import time

import pytest

from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill
from tests.tuneline.training.test_frozen_head import prepared_with

SETTINGS = {
    "epochs": 3,
    "checkpoint_every_steps": 3,
    "early_stopping": {"patience": 50},
}
STEPS = 24


@pytest.fixture
def folder(tmp_path, data):
    """A project with dropout, accumulation, evaluations between and within epochs, and frequent
    checkpoints."""
    tiny_task.write_params(fill(tmp_path, data), evaluate_every_steps=5, **SETTINGS)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory, data):
    """A project after an uninterrupted run."""
    project = fill(tmp_path_factory.mktemp("reference"), data)
    tiny_task.write_params(project, evaluate_every_steps=5, **SETTINGS)
    assert launcher.run(project) == [0], launcher.output(project)
    return project


@pytest.fixture(scope="module")
def reference(finished):
    """Outs of an uninterrupted run."""
    return launcher.outs(finished)


def assert_same_outs(reference, project):
    outs = launcher.outs(project)
    assert {name for name in reference if outs.get(name) != reference[name]} == set()
    assert outs.keys() == reference.keys()


LOOP, CHECKPOINTS = "tuneline.training.loop", "tuneline.training.checkpoints"
INSTANTS = {
    "in the first step": (f"{LOOP}.train_batch", 1, 1),
    "inside an accumulation": (f"{LOOP}._seed_dropout", 8, 40),
    "in the first evaluation": ("tuneline.training.loop.predict_validation", 1, 1),
    "before a checkpoint is completed": (f"{CHECKPOINTS}.TrainingProgress.write", 2, 6),
    "while an old checkpoint is removed": (f"{CHECKPOINTS}._remove", 2, 6),
    "while publishing": ("stages.train.publish_curves", 1, 1),
}


ALWAYS = ("before a checkpoint is completed",)


@pytest.mark.parametrize(
    ("instant", "seed"),
    [
        pytest.param(name, seed, marks=[] if name in ALWAYS and not seed else [pytest.mark.slow])
        for name in INSTANTS
        for seed in range(2)
    ],
)
@pytest.mark.promise("killed-training")
def test_resume_after_sigkill_gives_identical_outs(folder, reference, instant, seed):
    function, first, last = INSTANTS[instant]
    call = random.Random(f"{instant} {seed}").randint(first, last)
    assert launcher.run(folder, before=launcher.kill_at(function, call)) == [-signal.SIGKILL]
    assert launcher.run(folder) == [0], launcher.output(folder)
    assert_same_outs(reference, folder)


@pytest.mark.slow
@pytest.mark.parametrize("instant", ["inside an accumulation", "before a checkpoint is completed"])
def test_resume_after_sigkill_in_bf16_gives_identical_outs(tmp_path_factory, data, instant):
    projects = [fill(tmp_path_factory.mktemp(name), data) for name in ("whole", "killed")]
    for project in projects:
        tiny_task.write_params(project, evaluate_every_steps=5, mixed_precision="bf16", **SETTINGS)
    whole, killed = projects
    assert launcher.run(whole) == [0], launcher.output(whole)
    function, _, last = INSTANTS[instant]
    assert launcher.run(killed, before=launcher.kill_at(function, last)) == [-signal.SIGKILL]
    assert launcher.run(killed) == [0], launcher.output(killed)
    assert_same_outs(launcher.outs(whole), killed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.promise("killed-training")
def test_resume_after_ten_random_sigkills_gives_identical_outs(
    folder, reference, tmp_path_factory, data, seed
):
    whole = fill(tmp_path_factory.mktemp("whole"), data)
    tiny_task.write_params(whole, evaluate_every_steps=5, **SETTINGS)
    started = time.monotonic()
    assert launcher.run(whole) == [0]
    seconds, draw = time.monotonic() - started, random.Random(seed)
    for _ in range(10):
        [child] = launcher.start(folder)
        child.join(draw.uniform(0.2, 0.8) * seconds)
        if child.exitcode is None:
            os.kill(child.pid, signal.SIGKILL)
        launcher.finish([child])
        if (folder / "metrics/train.json").exists():
            break
    assert launcher.run(folder) == [0], launcher.output(folder)
    assert_same_outs(reference, folder)


def begin(project):
    """Start a run up to its first step: by then it has said what it resumes."""
    assert launcher.run(project, before=launcher.kill_at(f"{LOOP}.train_batch", 1)) == [-signal.SIGKILL]


def checkpoints(project):
    return sorted(path for path in project.glob("checkpoints/*/step-*"))


def test_changed_parameter_starts_a_new_run(folder):
    launcher.run(folder, before=launcher.kill_at(f"{LOOP}.train_batch", 12))
    tiny_task.write_params(folder, evaluate_every_steps=5, **{**SETTINGS, "learning_rate": 1e-3})
    begin(folder)
    assert "resumes from step" not in launcher.output(folder)


def test_changed_base_weights_start_a_new_run(folder):
    """The parameters are the same: only the files of the checkpoint differ."""
    write_base(folder, seed=0)
    launcher.run(folder, before=launcher.kill_at(f"{LOOP}.train_batch", 12))
    write_base(folder, seed=1)
    begin(folder)
    assert "resumes from step" not in launcher.output(folder)


def check_resume(folder):
    """Check that a run that is killed and resumed gives the outs of an uninterrupted one."""
    assert launcher.run(folder) == [0], launcher.output(folder)
    expected = launcher.outs(folder)
    launcher.run(folder, before=launcher.kill_at(f"{LOOP}.train_batch", 12))
    assert launcher.run(folder) == [0], launcher.output(folder)
    assert "resumes from step" in launcher.output(folder)
    assert launcher.outs(folder) == expected


def write_base(project, seed, **train):
    """Write ``models/base`` with a checkpoint, and the parameters that name it."""
    tiny_task.write_checkpoint(project, seed, without=("bert.pooler.", "classifier."))
    tiny_task.write_params(project, tiny_task.FINE_TUNED, evaluate_every_steps=5, **{**SETTINGS, **train})


@pytest.mark.slow
@pytest.mark.parametrize(
    "train",
    [
        pytest.param({"lora": {"rank": 2}}, id="lora"),
    ],
)
def test_resume_with_frozen_weights_gives_identical_outs(folder, train):
    write_base(folder, seed=0, **train)
    check_resume(folder)


@pytest.mark.parametrize("lora", [None, pytest.param({"rank": 2}, marks=pytest.mark.slow)])
def test_resume_of_a_run_that_began_with_the_linear_model_gives_identical_outs(tmp_path, data, lora):
    model = {**tiny_task.FINE_TUNED, "head": "auto"}
    folder = prepared_with(tmp_path, data, model, **SETTINGS, contrastive=0.5, lora=lora)
    check_resume(folder)
    assert "models/classifier/head.safetensors" in launcher.outs(folder)


def test_changed_checkpoint_interval_resumes_the_run(folder, reference):
    launcher.run(folder, before=launcher.kill_at(f"{LOOP}.train_batch", 12))
    tiny_task.write_params(folder, evaluate_every_steps=5, **{**SETTINGS, "checkpoint_every_steps": 7})
    assert launcher.run(folder) == [0]
    assert "resumes from step" in launcher.output(folder)
    assert_same_outs(reference, folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
@pytest.mark.promise("killed-training")
def test_signal_saves_a_checkpoint_and_says_so(folder, reference, number):
    [child] = launcher.start(folder)
    launcher.wait_for(folder / "checkpoints", "step-*")
    os.kill(child.pid, number)
    started = time.monotonic()
    assert launcher.finish([child]) == [75]
    assert time.monotonic() - started < 30
    said = re.search(rf"interrupted by {number.name} after step (\d+) of {STEPS}", launcher.output(folder))
    assert said is not None
    assert (checkpoints(folder)[-1] / "progress.json").exists()
    assert not (folder / "models/classifier").exists()

    assert launcher.run(folder) == [0]
    assert f"resumes from step {said[1]} of {STEPS}" in launcher.output(folder)
    assert_same_outs(reference, folder)
