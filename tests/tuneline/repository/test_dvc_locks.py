"""DVC's locks, written by DVC, of processes that run, were killed, or have the number of another one."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.dvc_files import init_dvc
from tuneline.repository.dvc_locks import DVC_LOCK, RWLOCK, processes_with, stage_processes

STAGE = "stages: {slow: {cmd: 'touch started; sleep 60', outs: [b.txt]}}\n"


@pytest.fixture
def pipeline(tmp_path):
    folder = tmp_path / "pipeline"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    init_dvc(folder)
    (folder / "dvc.yaml").write_text(STAGE)
    return folder


@pytest.fixture
def repro(pipeline):
    """A ``dvc repro`` whose stage runs."""
    command = [sys.executable, "-m", "dvc", "repro", "--quiet", "slow"]
    running = subprocess.Popen(command, cwd=pipeline, start_new_session=True)
    while not (pipeline / "started").exists():
        assert running.poll() is None
    yield running
    if running.poll() is None:
        os.killpg(running.pid, 9)
    running.wait()


def test_process_that_runs_a_stage_is_named_with_its_command(pipeline, repro):
    (holder,) = stage_processes(pipeline)
    assert (holder.pid, holder.is_running, holder.is_another) == (repro.pid, True, False)
    assert holder.command[1:] == ["-m", "dvc", "repro", "--quiet", "slow"]


def test_process_that_was_killed_runs_no_stage(pipeline, repro):
    os.killpg(repro.pid, 9)
    repro.wait()
    (holder,) = stage_processes(pipeline)
    assert (holder.pid, holder.command, holder.is_running, holder.is_another) == (
        repro.pid,
        None,
        False,
        False,
    )


def test_process_with_the_number_of_a_killed_one_is_another(pipeline, repro):
    os.killpg(repro.pid, 9)
    repro.wait()
    locks = (pipeline / RWLOCK).read_text()
    (pipeline / RWLOCK).write_text(locks.replace(f'"pid": {repro.pid}', f'"pid": {os.getpid()}'))
    (holder,) = stage_processes(pipeline)
    assert (holder.pid, holder.is_running, holder.is_another) == (os.getpid(), False, True)
    assert "repro --quiet slow" in holder.recorded


def test_working_tree_without_locks_has_no_stage_processes(pipeline):
    shutil.rmtree(pipeline / ".dvc/tmp", ignore_errors=True)
    assert stage_processes(pipeline) == []
    (pipeline / RWLOCK).parent.mkdir(parents=True)
    (pipeline / RWLOCK).write_text("{")
    assert stage_processes(pipeline) == []
    (pipeline / RWLOCK).write_text(json.dumps({}))
    assert stage_processes(pipeline) == []


def test_processes_with_an_open_file_are_found(pipeline):
    file = pipeline / DVC_LOCK
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    assert list(processes_with(file)) == []
    code = f"held = open({str(file)!r}); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        ((pid, command),) = processes_with(file)
        process.communicate(b"\n")
    assert (pid, command[-1]) == (process.pid, code)
