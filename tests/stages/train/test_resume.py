"""A run that was killed, whenever and however, ends with the same bytes as one that was not."""

import json
import os
import random
import re
import signal
import time

import pytest

from tests.stages.train import made, runs
from tests.stages.train.conftest import fill

SETTINGS = {"epochs": 3, "checkpoint_every_steps": 3, "early_stopping": {"patience": 50}, "trackers": ["dvclive"]}
STEPS = 24


@pytest.fixture
def folder(tmp_path, data):
    """A project with dropout, accumulation, evaluations between and within epochs, and frequent checkpoints."""
    made.write_params(fill(tmp_path, data), evaluate_every_steps=5, **SETTINGS)
    return tmp_path


@pytest.fixture(scope="module")
def reference(tmp_path_factory, data):
    """The outs of a run that nothing interrupted, and how long it took."""
    project = fill(tmp_path_factory.mktemp("reference"), data)
    made.write_params(project, evaluate_every_steps=5, **SETTINGS)
    runs.run(project)  # the first start pays for what is imported late
    started = time.monotonic()
    assert runs.run(project) == [0], runs.output(project)
    return runs.outs(project), time.monotonic() - started


def same_as(reference, project):
    expected, _ = reference
    found = runs.outs(project)
    assert {name for name in expected if found.get(name) != expected[name]} == set()
    assert found.keys() == expected.keys()


LOOP, CHECKPOINTS = "stages.train.loop", "stages.train.checkpoints"
INSTANTS = {
    "in the first step": (f"{LOOP}.train_batch", 1, 1),
    "inside the first accumulation": (f"{LOOP}._seed_dropout", 2, 2),
    "inside an accumulation": (f"{LOOP}._seed_dropout", 8, 40),
    "before the optimizer steps": (f"{LOOP}._optimizer_step", 5, 20),
    "between epochs": (f"{LOOP}.predict", 2, 2),
    "before the first checkpoint is completed": (f"{CHECKPOINTS}.write_marker", 1, 1),
    "before a checkpoint is completed": (f"{CHECKPOINTS}.write_marker", 2, 6),
    "while an old checkpoint is removed": (f"{CHECKPOINTS}._remove", 2, 8),
    "while publishing": ("stages.train.__main__.publish_curves", 1, 1),
    "before the checkpoints are removed": ("stages.train.__main__.clear_note", 1, 1),
}


@pytest.mark.parametrize("instant", INSTANTS)
def test_resume_after_sigkill_gives_identical_outs(folder, reference, instant):
    function, first, last = INSTANTS[instant]
    call = random.randint(first, last)
    print(f"killed at call {call} of {function}")
    assert runs.run(folder, arrange=runs.death(function, call)) == [-signal.SIGKILL]
    assert runs.run(folder) == [0], runs.output(folder)
    same_as(reference, folder)


def test_resume_after_ten_random_sigkills_gives_identical_outs(folder, reference):
    _, seconds = reference
    for _ in range(10):
        [child] = runs.start(folder)
        child.join(random.uniform(0.2, 0.8) * seconds)
        if child.exitcode is None:
            os.kill(child.pid, signal.SIGKILL)
        runs.finish([child])
        if (folder / "metrics/train.json").exists():
            break
    assert runs.run(folder) == [0], runs.output(folder)
    same_as(reference, folder)


def test_resume_starts_from_the_last_checkpoint(folder, reference):
    runs.run(folder, arrange=runs.death(f"{LOOP}.train_batch", 12))
    runs.run(folder)
    # 11 steps were done; step 9 was saved, or 10, if its evaluation was the best so far.
    assert re.search(rf"resumes from step (9|10) of {STEPS} \(", runs.output(folder))


def checkpoints(project):
    return sorted(path for path in project.glob("checkpoints/*/step-*"))


def test_resume_skips_and_reports_a_truncated_checkpoint(folder, reference):
    runs.run(folder, arrange=runs.death("stages.train.__main__.publish_curves", 1))
    newest = checkpoints(folder)[-1]
    with (newest / "optimizer.bin").open("r+b") as file:
        file.truncate(1000)
    assert runs.run(folder) == [0]
    assert f"removed checkpoint checkpoints/{newest.parent.name}/{newest.name}, which cannot be used: optimizer.bin" in runs.output(folder)
    assert "resumes from step" in runs.output(folder)
    same_as(reference, folder)


def test_resume_skips_a_checkpoint_with_damaged_best_weights(folder, reference):
    runs.run(folder, arrange=runs.death("stages.train.__main__.publish_curves", 1))
    newest = checkpoints(folder)[-1]
    best = json.loads((newest / "progress.json").read_text())["best_step"]
    (newest.parent / f"step-{best:08d}" / "model.safetensors").write_bytes(b"")
    assert runs.run(folder) == [0]
    same_as(reference, folder)


def test_finished_run_leaves_no_checkpoint(folder):
    assert runs.run(folder) == [0]
    assert checkpoints(folder) == []


def test_changed_parameter_starts_a_new_run(folder):
    runs.run(folder, arrange=runs.death(f"{LOOP}.train_batch", 12))
    made.write_params(folder, evaluate_every_steps=5, **{**SETTINGS, "learning_rate": 1e-3})
    assert runs.run(folder) == [0]
    assert "resumes from step" not in runs.output(folder)


def test_changed_data_starts_a_new_run(folder):
    runs.run(folder, arrange=runs.death(f"{LOOP}.train_batch", 12))
    made.write_data(folder, rows=64)
    assert runs.run(folder) == [0]
    assert "resumes from step" not in runs.output(folder)


def test_changed_checkpoint_interval_resumes_the_run(folder, reference):
    runs.run(folder, arrange=runs.death(f"{LOOP}.train_batch", 12))
    made.write_params(folder, evaluate_every_steps=5, **{**SETTINGS, "checkpoint_every_steps": 7, "keep_checkpoints": 1})
    assert runs.run(folder) == [0]
    assert "resumes from step" in runs.output(folder)
    same_as(reference, folder)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_saves_a_checkpoint_and_writes_a_note(folder, reference, number):
    [child] = runs.start(folder)
    runs.wait_for(folder / "checkpoints", "step-*")
    os.kill(child.pid, number)
    started = time.monotonic()
    assert runs.finish([child]) == [75]
    assert time.monotonic() - started < 30
    note = json.loads((folder / "reports/interrupted/train.json").read_text())
    assert note["resumable"]
    assert note["signal"] == number.name
    assert (folder / note["checkpoint"] / "complete.json").exists()
    assert f"interrupted by {number.name} after step {note['step']} of {STEPS}" in runs.output(folder)
    assert not (folder / "models").exists()

    assert runs.run(folder) == [0]
    assert f"step {note['step']} of {STEPS}" in runs.output(folder)
    assert not (folder / "reports/interrupted/train.json").exists()
    same_as(reference, folder)


def test_resumed_run_logs_every_step_once(folder, reference):
    runs.run(folder, arrange=runs.death(f"{LOOP}.train_batch", 7))
    runs.run(folder, arrange=runs.death(f"{LOOP}.train_batch", 7))
    runs.run(folder)
    assert [row[0] for row in runs.curve(folder)] == list(range(1, STEPS + 1))
    same_as(reference, folder)
    live = (folder / "reports/live/plots/metrics/loss.tsv").read_text().splitlines()[1:]
    assert [int(line.split("\t")[0]) for line in live] == list(range(1, STEPS + 1))
