"""A process of a training whose launcher is gone: it saves a checkpoint and ends, and never publishes."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.conftest import ROOT
from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill
from tests.tuneline.training.launched import LONG, Launch, assert_gone, launches
from tuneline.core.runtime.processes import PARENT
from tuneline.training.launch import LAUNCHED

CHILD = """
import os, time
from tuneline.training import launch
from tuneline.core.runtime import processes
parent = os.getppid()
{change}
launch.end_with_launcher()
print("ready", flush=True)
while os.getppid() == parent:
    time.sleep(0.01)
print("outlived", flush=True)
time.sleep(60)
"""
PARENTS_CHILD = (
    "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', sys.argv[1]]).pid, flush=True);"
    " input()"
)
WITHOUT_KERNEL = "processes._prctl = lambda *_: False"


def started(change: str = "", **variables: str) -> tuple[subprocess.Popen[str], psutil.Process]:
    """Return a process and its child, which calls ``end_with_launcher``."""
    env = {name: value for name, value in os.environ.items() if name not in (*LAUNCHED, PARENT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENTS_CHILD, CHILD.format(change=change)],
        cwd=ROOT,
        env={**env, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    child = psutil.Process(int(parent.stdout.readline()))
    assert parent.stdout.readline() == "ready\n"
    return parent, child


SIGNALS = list(zip(LAUNCHED, (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL), strict=True))
CASES = [
    pytest.param("", *SIGNALS[0], id="kernel"),
    pytest.param(WITHOUT_KERNEL, *SIGNALS[0], id="thread"),
]


@pytest.mark.parametrize(("change", "variable", "number"), CASES)
def test_process_ends_with_its_launcher(change, variable, number):
    parent, child = started(change, **{variable: "1"})
    with parent:
        parent.send_signal(number)
    assert_gone([child], seconds=10)


def test_process_that_a_person_started_outlives_its_parent():
    """As with nohup."""
    parent, child = started()
    parent.kill()
    with parent:
        assert parent.stdout.readline() == "outlived\n"
    child.kill()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with tokenized splits."""
    folder = tmp_path_factory.mktemp("data")
    tiny_task.write_data(folder)
    return folder


@pytest.fixture
def launch(tmp_path, data):
    """Return a function that launches a training with some parameters."""
    with launches(tmp_path, data) as start:
        yield start


SHELL = (
    "import subprocess, sys\n"
    "subprocess.run([sys.executable, '-m', 'tuneline.training.launch', 'stages.train'])"
)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL])
@pytest.mark.parametrize(
    ("command", "variables"),
    [(("-c", SHELL), {"DVC_STAGE": "train"})],
    ids=["dvc"],
)
@pytest.mark.promise("killed-launcher")
def test_training_does_not_outlive_another_launcher(launch, command, variables, number):
    run = launch(env=variables, command=command, launch="cpu", **LONG)
    assert_ends_with_a_checkpoint(run, run.process, number)


@pytest.mark.slow
def test_processes_of_a_training_do_not_outlive_their_launcher(launch):
    run = launch(launch="cpus", **LONG)
    assert_ends_with_a_checkpoint(run, run.process, signal.SIGKILL)


def assert_ends_with_a_checkpoint(
    run: Launch, ended: "subprocess.Popen[str]", number: signal.Signals
) -> None:
    """End one process of a launch; the others must save and end."""
    processes = run.wait_for_steps()
    ended.send_signal(number)
    assert_gone(processes)
    assert list(run.project.glob("checkpoints/*/step-*/progress.json"))
    assert not (run.project / "models/classifier").exists()


@pytest.mark.slow
@pytest.mark.promise("killed-training")
def test_signal_after_the_last_step_saves_and_publishes_nothing(tmp_path, data):
    """The launcher may end at any moment before the model is published."""
    tiny_task.write_params(fill(tmp_path, data), checkpoint_every_steps=None, keep="last")
    assert launcher.run(tmp_path, before=signal_while_the_result_is_read) == [75], launcher.output(tmp_path)
    assert not (tmp_path / "models/classifier").exists()
    assert launcher.run(tmp_path) == [0], launcher.output(tmp_path)
    assert "resumes from step 16 of 16" in launcher.output(tmp_path)
    expected = tmp_path / "expected"
    expected.mkdir()
    tiny_task.write_params(fill(expected, data), checkpoint_every_steps=None, keep="last")
    assert launcher.run(expected) == [0]
    assert launcher.outs(tmp_path) == launcher.outs(expected)


def signal_while_the_result_is_read() -> None:
    from tuneline.training import loop

    original = loop.training_result

    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return original(*arguments)

    loop.training_result = interrupted
