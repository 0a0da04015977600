"""Thousands of steps: what leaks a little at each of them, or breaks at one kill in ten, shows here."""

import os
import random
import signal
from dataclasses import dataclass, field

import psutil
import pytest

from tests.stages.train import made, runs
from tests.stages.train.conftest import fill

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

ROWS, EPOCHS = 1600, 10
STEPS = ROWS // 8 * EPOCHS
SETTINGS = {
    "epochs": EPOCHS,
    "learning_rate": 1e-3,
    "evaluate_every_steps": 130,
    "checkpoint_every_steps": 70,
    "keep_checkpoints": 2,
    "trackers": ["dvclive"],
}
MB = 2**20


@dataclass
class Watched:
    """What a run held, sampled while it ran.

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
        except psutil.Error:  # it ended
            return
        self.memory.append(memory)
        self.files.append(files)
        self.checkpoints.append(len([*folder.glob("checkpoints/*/step-*")]))


def project(folder):
    """Gives a folder more rows than the other tests have."""
    made.write_params(folder, **SETTINGS)
    made.write_data(folder, rows=ROWS)
    return folder


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, data):
    """The outs of a run that nothing disturbed, what it held, and its seconds."""
    folder = project(fill(tmp_path_factory.mktemp("uninterrupted"), data))
    watched = Watched()
    [child] = runs.start(folder)
    process = psutil.Process(child.pid)
    seconds = 0.0
    while child.is_alive():
        watched.sample(process, folder)
        child.join(0.1)
        seconds += 0.1
    assert child.exitcode == 0, runs.output(folder)
    return folder, watched, seconds


def test_long_run_does_not_grow_in_memory_or_open_files(uninterrupted):
    _, watched, _ = uninterrupted
    early, late = (slice(start, start + len(watched.memory) // 5) for start in (len(watched.memory) // 5, -len(watched.memory) // 4))
    print(f"{max(watched.memory[early]) / MB:.0f} MB early, {max(watched.memory[late]) / MB:.0f} MB late")
    assert max(watched.memory[late]) - max(watched.memory[early]) < 40 * MB  # the curve itself is among it
    assert max(watched.files[late]) <= max(watched.files[early])


def test_long_run_removes_old_checkpoints(uninterrupted):
    """The last two, the best of each of them, and the one that was just written."""
    _, watched, _ = uninterrupted
    assert 2 <= max(watched.checkpoints) <= 5


def test_long_run_logs_every_step_once_and_learns(uninterrupted):
    folder, _, _ = uninterrupted
    assert [row[0] for row in runs.curve(folder)] == list(range(1, STEPS + 1))
    assert runs.metrics(folder)["best_accuracy"] == 1.0


def test_resume_after_many_kills_and_signals_gives_identical_outs(uninterrupted, tmp_path, data):
    whole, _, seconds = uninterrupted
    folder, ends = project(fill(tmp_path, data)), []
    for number in [signal.SIGKILL, signal.SIGTERM] * 8:
        [child] = runs.start(folder)
        child.join(random.uniform(0.1, 0.25) * seconds)
        if child.exitcode is None:
            os.kill(child.pid, number)
        ends += runs.finish([child])
        if ends[-1] == 0:
            break
    if ends[-1] != 0:
        ends += runs.run(folder)
    print(f"ended with {ends}")
    assert set(ends) == {-signal.SIGKILL, 75, 0}, runs.output(folder)
    assert runs.outs(folder) == runs.outs(whole)
