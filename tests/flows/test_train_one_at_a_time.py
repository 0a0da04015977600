"""Real processes that want to train: one at a time, and the next when all of one has ended."""

import contextlib
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
with machine_training_lock("machine") as lock:
    lock.acquire(name, lambda line: print(line, flush=True))
    Programs(Path("."), name, locks=lock.descriptors).run([sys.executable, "-c", SAVES], "A training", print)
"""


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNELINE_MACHINE_LOCKS", str(tmp_path / "locks"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@contextlib.contextmanager
def training(one_per, gpus, monkeypatch):
    """The lock of a run on some GPUs, not acquired yet."""
    with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
        if gpus is not None:
            patch.setenv("CUDA_VISIBLE_DEVICES", gpus)
        yield stack.enter_context(machine_training_lock(one_per))


def busy(lock) -> bool:
    """Return whether a run would have to wait; if not, it trains."""

    class WaitsError(Exception):
        pass

    def waits(line: str) -> None:
        raise WaitsError(line)

    try:
        lock.acquire("second", waits)
    except WaitsError:
        return True
    return False


@pytest.mark.parametrize(
    ("one_per", "first", "second", "expected"),
    [
        ("machine", "0", "1", True),
        ("gpu", "0", "1", False),
        ("gpu", "0,1", "1", True),
    ],
)
def test_trainings_share_a_machine_only_on_different_gpus(monkeypatch, one_per, first, second, expected):
    with training(one_per, first, monkeypatch) as one, training(one_per, second, monkeypatch) as other:
        one.acquire("first", print)
        assert busy(other) is expected
        one.release()
        assert not busy(other)


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
