"""Waits of OpenMP's threads on shared cores; benchmarks/contention.py measures them."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from stages.train.cpu.waits import IDLE_THREAD, short_waits_on_shared_cores, teams_needed

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux has the statistics of its scheduler"
)
TIMEOUT = 60.0


def idle_threads() -> int:
    return sum(thread.name == IDLE_THREAD for thread in threading.enumerate())


def tasks() -> int:
    """Return the number of threads of this process, those of OpenMP included."""
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.fixture
def competitors():
    """Twice as many busy processes as there are cores."""
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    yield
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def threads(monkeypatch):
    """Two computing threads, whatever the other tests use."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@linux
def test_shared_cores_start_an_idle_team_that_ends_with_the_block(threads, competitors):
    matrix = torch.ones(256, 256)
    with short_waits_on_shared_cores():
        before, deadline = tasks(), time.monotonic() + TIMEOUT
        while not (idle_threads() and tasks() > before + idle_threads()) and time.monotonic() < deadline:
            matrix @ matrix
        assert idle_threads() == teams_needed(2, len(os.sched_getaffinity(0)))
        assert tasks() >= before + 2 * idle_threads(), "a team has a second thread"
    assert not idle_threads()


@linux
def test_single_thread_starts_nothing(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    before = threading.active_count()
    with short_waits_on_shared_cores():
        assert threading.active_count() == before


@pytest.mark.parametrize(
    ("threads", "cores", "teams"), [(2, 2, 1), (4, 4, 1), (2, 8, 7), (4, 8, 2), (16, 8, 1)]
)
def test_teams_needed_exceed_the_cores(threads, cores, teams):
    assert teams_needed(threads, cores) == teams
    managed = threads + teams * (threads - 1)
    assert managed > cores
