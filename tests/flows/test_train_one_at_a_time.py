"""Real processes that want to train: one at a time, and the next when all of one has ended."""

import os
import signal
import subprocess
import sys

import pytest

from flows.train import machine_training_lock
from tests.conftest import ROOT
from tests.flows.prefect_server import until

TRAINS = """
import sys, time
from pathlib import Path
from flows.train import machine_training_lock
from tuneline.core.repository.programs import Programs

SAVES = '''
import signal, time
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: None)
Path("started").touch()
while not Path("save").exists():
    time.sleep(0.05)
time.sleep(1.5)
Path("saved").touch()
'''
name = sys.argv[1]
with machine_training_lock() as lock:
    lock.acquire(name, lambda line: print(line, flush=True))
    Programs(Path("."), name, locks=[lock.descriptor]).run([sys.executable, "-c", SAVES], "A training", print)
"""


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNELINE_MACHINE_LOCKS", str(tmp_path / "locks"))


def test_workers_with_lock_folders_of_their_own_train_at_once(tmp_path, monkeypatch):
    with machine_training_lock() as one:
        one.acquire("on GPU 0", pytest.fail)
        monkeypatch.setenv("TUNELINE_MACHINE_LOCKS", str(tmp_path / "of GPU 1"))
        with machine_training_lock() as other:
            other.acquire("on GPU 1", pytest.fail)


@pytest.mark.promise("one-training")
def test_waiting_run_names_the_one_that_trains_and_trains_after_it(tmp_path):
    """The first is killed with its flow only: the second waits until its last process has saved."""
    command = [sys.executable, "-c", TRAINS]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*command, "nightly"], cwd=tmp_path, env=env) as first:
        until((tmp_path / "started").exists, 20, "the first training")
        with subprocess.Popen(
            [*command, "on-demand"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
        ) as second:
            assert second.stdout.readline() == "Waits for run nightly, which trains on this machine.\n"
            first.send_signal(signal.SIGKILL)
            first.wait()
            (tmp_path / "save").touch()
            assert not (tmp_path / "saved").exists(), "the first one still saves its checkpoint"
            assert second.stdout.readline().startswith("Trains now.")
            assert (tmp_path / "saved").exists()
