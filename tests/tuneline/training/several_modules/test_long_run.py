"""Runs of thousands of steps: they show small leaks at each step and failures at one kill in ten."""

from dataclasses import dataclass, field
from statistics import median

import psutil
import pytest

from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]

ROWS, EPOCHS = 1600, 10
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
    assert median(samples.files[late]) <= median(samples.files[early])  # a checkpoint opens some for a moment


def test_long_run_removes_old_checkpoints(uninterrupted):
    """At most the last two, the best one of each, and the one being written."""
    _, samples, _ = uninterrupted
    assert 2 <= max(samples.checkpoints) <= 5
