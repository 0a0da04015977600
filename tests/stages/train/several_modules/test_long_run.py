"""Runs of thousands of steps: they show small leaks at each step and failures at one kill in ten."""

import os
import random
import signal
from dataclasses import dataclass, field

import psutil
import pytest

from tests.stages.train import launcher, tiny_task
from tests.stages.train.conftest import fill

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

ROWS, EPOCHS = 1600, 10
STEPS = ROWS // 8 * EPOCHS
SETTINGS = {
    "epochs": EPOCHS,
    "learning_rate": 1e-3,
    "evaluate_every_steps": 130,
    "checkpoint_every_steps": 70,
}
MB = 2**20


@dataclass
class ResourceSamples:
    """Resources of a running process, sampled until it ends.

    Attributes:
        memory: Resident bytes.
        files: Open files.
        checkpoints: Folders that a run can resume from.
    """

    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)

    def sample(self, process, folder):
        try:
            memory, files = process.memory_info().rss, process.num_fds()
        except psutil.Error:  # the process has ended
            return
        self.memory.append(memory)
        self.files.append(files)
        self.checkpoints.append(len([*folder.glob("checkpoints/*/step-*")]))


def project(folder):
    """Write parameters and more rows than the other tests use."""
    tiny_task.write_params(folder, **SETTINGS)
    tiny_task.write_data(folder, rows=ROWS)
    return folder


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, data):
    """Folder, resource samples and seconds of an uninterrupted run."""
    folder = project(fill(tmp_path_factory.mktemp("uninterrupted"), data))
    samples = ResourceSamples()
    [child] = launcher.start(folder)
    process = psutil.Process(child.pid)
    seconds = 0.0
    while child.is_alive():
        samples.sample(process, folder)
        child.join(0.1)
        seconds += 0.1
    assert child.exitcode == 0, launcher.output(folder)
    return folder, samples, seconds


def test_long_run_does_not_grow_in_memory_or_open_files(uninterrupted):
    _, samples, _ = uninterrupted
    early, late = (
        slice(start, start + len(samples.memory) // 5)
        for start in (len(samples.memory) // 5, -len(samples.memory) // 4)
    )
    print(f"{max(samples.memory[early]) / MB:.0f} MB early, {max(samples.memory[late]) / MB:.0f} MB late")
    assert max(samples.memory[late]) - max(samples.memory[early]) < 40 * MB  # includes the training curve
    assert max(samples.files[late]) <= max(samples.files[early])


def test_long_run_removes_old_checkpoints(uninterrupted):
    """At most the last two, the best one of each, and the one being written."""
    _, samples, _ = uninterrupted
    assert 2 <= max(samples.checkpoints) <= 5


def test_long_run_logs_every_step_once_and_learns(uninterrupted):
    folder, _, _ = uninterrupted
    assert [row[0] for row in launcher.curve(folder)] == list(range(1, STEPS + 1))
    assert launcher.metrics(folder)["best_accuracy"] == 1.0


def test_resume_after_many_kills_and_signals_gives_identical_outs(uninterrupted, tmp_path, data):
    whole, _, seconds = uninterrupted
    folder, ends = project(fill(tmp_path, data)), []
    for number in [signal.SIGKILL, signal.SIGTERM] * 8:
        [child] = launcher.start(folder)
        child.join(random.uniform(0.1, 0.25) * seconds)
        if child.exitcode is None:
            os.kill(child.pid, number)
        ends += launcher.finish([child])
        if ends[-1] == 0:
            break
    if ends[-1] != 0:
        ends += launcher.run(folder)
    print(f"ended with {ends}")
    assert set(ends) == {-signal.SIGKILL, 75, 0}, launcher.output(folder)
    assert launcher.outs(folder) == launcher.outs(whole)
