"""``make schedule`` leaves other people's servers and databases alone and other people out, and ends what it
started."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from tests.conftest import ROOT
from tests.flows.prefect_server import LOGIN, free_port, started_with, until
from tuneline.operations.server import schedule
from tuneline.operations.server.schedule import FILE, read_or_create


def test_second_server_does_not_share_the_database(monkeypatch, tmp_path):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    with (
        schedule.exclusive(),
        pytest.raises(SystemExit, match=rf"{tmp_path}.*PREFECT_HOME"),
        schedule.exclusive(),
    ):
        pass
    with schedule.exclusive():
        assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_password_is_random_stays_and_is_for_its_user_only(tmp_path):
    file = tmp_path / FILE
    os.umask(0)
    try:
        password = read_or_create(file)
    finally:
        os.umask(0o022)
    assert read_or_create(file) == password
    assert password != read_or_create(tmp_path / "another")
    assert file.stat().st_mode & 0o777 == 0o600

    for mode, content in ((0o644, password), (0o600, ""), (0o600, "tuneline:")):
        file.write_text(content)
        file.chmod(mode)
        with pytest.raises(SystemExit, match="Remove it"):
            read_or_create(file)


@pytest.mark.parametrize(
    ("auth", "status"), [(None, 401), (("tests", "wrong"), 401), (tuple(LOGIN.split(":")), 200)]
)
def test_request_without_the_password_is_refused(served, auth, status):
    answer = httpx.post(f"{served.api}/flows/filter", auth=auth, json={}, headers={"Origin": "http://evil"})
    assert answer.status_code == status
    assert "access-control-allow-origin" not in answer.headers


@pytest.fixture
def scheduled(tmp_path, toy, monkeypatch):
    """``make schedule`` in a terminal; yield what it has said so far, and end it with Ctrl-C."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "a home"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    log = tmp_path / "log"
    with log.open("w") as output:
        command = [sys.executable, "-m", "tuneline.operations.server.schedule", "--port", str(free_port())]
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        until(
            lambda: "Worker 'local' started" in log.read_text() or process.poll() is not None,
            300,
            "the worker",
        )
        yield log.read_text
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)


def terminal(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.mark.slow  # a server, a worker and a run
@pytest.mark.timeout(600)
def test_other_terminal_logs_in_and_runs_a_deployment_until_the_server_ends(scheduled, tmp_path):
    (log_in,) = [line.strip() for line in scheduled().splitlines() if line.startswith("  export ")]
    done = terminal(f"{log_in}; prefect deployment run train/train-on-demand --param promote=false --watch")
    assert done.returncode == 0, done.stdout + scheduled()
    refused = terminal(f"{log_in}x; prefect work-pool ls")
    assert "401 Unauthorized" in refused.stdout
    password = (tmp_path / "a home" / FILE).read_text().strip()
    assert password not in scheduled() + done.stdout + refused.stdout
    assert not [line for line in command_lines() if password in line]

    (server,) = [
        process
        for process in started_with("PREFECT_HOME", str(tmp_path / "a home"))
        if "server" in process.cmdline()
    ]
    server.kill()
    until(lambda: " ended; its output is above." in scheduled(), 100, "schedule to end")
    assert "The server ended" in scheduled(), "the worker is ended by schedule itself"


def command_lines() -> list[str]:
    """Return the command lines of all processes: every user can read them."""
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return lines


SERVING = """
import contextlib, os, sys, time
from tuneline.operations.server import schedule
from tuneline.core.runtime.processes import ending
schedule.end_on_signals()
env = dict(os.environ)
command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "0"]
program = schedule.start_apart(command, env)
with contextlib.suppress(KeyboardInterrupt), ending(program) as server:
    while server.poll() is None:
        time.sleep(0.1)
"""


@pytest.mark.promise("closed-terminal")
def test_closed_terminal_ends_what_was_started(tmp_path):
    """The children are in sessions of their own, where the terminal's signal does not reach them."""
    (tmp_path / "serving.py").write_text(SERVING)
    mark = str(tmp_path)
    end, inside = pty.openpty()
    script = f"{sys.executable} -u {tmp_path / 'serving.py'}; true"
    shell = ["env", "--default-signal=HUP", "setsid", "--ctty", "sh", "-c", script]
    env = {**os.environ, "MARK": mark, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(shell, cwd=ROOT, env=env, stdin=inside, stdout=inside, stderr=inside)
    os.close(inside)
    printed = b""
    while b"Serving HTTP on 127.0.0.1" not in printed:
        printed += os.read(end, 4096)  # an OSError if all of it has ended
    assert len(started_with("MARK", mark)) == 3
    os.close(end)
    until(lambda: not started_with("MARK", mark), 60, "all of it to end")
    process.wait()
