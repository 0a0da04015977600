import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.params import params
from tests.tuneline.core.stage import tasks
from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.engines import map_tasks

SLEEP = """
from tests.params import params
from tests.tuneline.core.stage import tasks
from tuneline.core.stage.engines import map_tasks
list(map_tasks(tasks.sleep, [0, 1], params(run={"engine": "ray", "workers": 2}).run, name="test"))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, from which Ray's workers import the tasks; no cluster to join."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return tmp_path


def engine(name, workers=None):
    return params(run={"engine": name, "workers": workers}).run


def files(folder):
    return {path.name: path.read_text() for path in folder.glob("*.txt")}


def test_local_engine_runs_tasks_when_their_results_are_asked_for(folder):
    results = map_tasks(tasks.write_square, [3, 4], engine("local"), name="test")
    assert next(results)[0] == 3
    assert files(folder) == {"3.txt": "9"}


@pytest.mark.slow
def test_ray_gives_the_results_in_order_when_a_worker_is_killed(folder):
    results = list(map_tasks(tasks.kill_first_worker, range(6), engine("ray", 2), name="test"))
    assert [number for number, _ in results] == list(range(6))
    assert files(folder) == {f"{number}.txt": str(number**2) for number in range(6)}
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".txt") == ["killed", "tests"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tasks_", "kind", "message"),
    [([0, 1, 2], DataError, "shard 1 is damaged"), ([0, 2], ZeroDivisionError, "a bug")],
)
def test_error_of_a_task_is_that_of_the_local_engine(tasks_, kind, message):
    for name in ("local", "ray"):
        results = map_tasks(tasks.fail, tasks_, engine(name, 2), name="test")
        assert next(results) == 0
        with pytest.raises(kind, match=message) as caught:
            next(results)
        assert getattr(caught.value, "hint", "Write it anew.") == "Write it anew."


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_of_a_cluster_that_was_started(folder):
    process = start_sleeping(folder)
    os.killpg(process.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]
    wait_until_gone([int(path.read_text()) for path in folder.glob("*.pid")])


def start_sleeping(folder):
    """Start two tasks that take a minute, each on a worker, and return when they work."""
    command = [sys.executable, "-c", SLEEP]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)
    for number in range(2):
        wait_for(folder / f"{number}.pid")
    return process


def wait_for(path):
    deadline = time.monotonic() + 120
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert path.exists()


def wait_until_gone(processes):
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{process}").exists() for process in processes) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [process for process in processes if Path(f"/proc/{process}").exists()]
