"""What ``running`` starts, with real processes and signals.

``tests/tuneline/operations/runs/test_processes.py`` has more of them.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tuneline.core.repository.programs import program_environment, running, site_cache

SAVING = """
import os, signal, sys, time
def save(*_):
    open("checkpoint", "w").close()
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print(os.getpid(), flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def started(folder: Path, *command: str) -> Iterator[subprocess.Popen]:
    """Run a command, which prints to a file."""
    with (
        (folder / "printed").open("w") as output,
        Path(os.devnull).open("rb") as nothing,
        running(
            command,
            cwd=folder,
            env=program_environment(),
            output=output,
            drained=nothing.fileno(),
            locks=[],
            leader_last=False,
        ) as supervisor,
    ):
        yield supervisor


def printed_pid(folder: Path) -> int:
    """Wait for the process id that the command prints."""
    until = time.monotonic() + 20
    while not (printed := (folder / "printed").read_text().strip()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return int(printed)


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_exception_in_the_block_stops_the_program_which_saves_first(tmp_path):
    with pytest.raises(KeyboardInterrupt), started(tmp_path, sys.executable, "-c", SAVING):
        pid = printed_pid(tmp_path)
        raise KeyboardInterrupt
    assert not is_alive(pid)
    assert (tmp_path / "checkpoint").exists()


def test_what_a_killed_supervisor_leaves_is_killed(tmp_path):
    with started(tmp_path, "sh", "-c", "sleep 600 & echo $!; wait") as supervisor:
        pid = printed_pid(tmp_path)
        supervisor.kill()
    assert supervisor.returncode == -signal.SIGKILL
    until = time.monotonic() + 5
    while is_alive(pid):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_programs_import_nothing_from_the_python_path_of_this_process(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    environment = program_environment()
    assert "PYTHONPATH" not in environment
    assert environment["PATH"].split(os.pathsep)[0] == str(Path(sys.executable).parent)


def test_site_cache_is_for_its_user_only(tmp_path):
    assert site_cache(tmp_path) == {}, "this is no project"
    (tmp_path / ".dvc").mkdir()
    folder = Path(site_cache(tmp_path)["DVC_SITE_CACHE_DIR"])
    assert folder.stat().st_mode & 0o777 == 0o700
