"""``make serve`` leaves other people's servers and databases alone, and other people out."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from flows.server import serve
from flows.server.secret import FILE
from tests.conftest import ROOT
from tests.flows.prefect_server import free_port, until


def test_used_port_is_reported_before_anything_starts(monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["serve", "--port", str(port)])
        with pytest.raises(SystemExit, match=rf"127.0.0.1:{port}.*Address already in use.*--port {port + 1}"):
            serve.main()


def test_second_server_does_not_share_the_database(monkeypatch, tmp_path):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    with (
        serve.exclusive("127.0.0.1", free_port()),
        pytest.raises(SystemExit, match=rf"{tmp_path}.*PREFECT_HOME"),
        serve.exclusive("127.0.0.1", free_port()),
    ):
        pass
    with serve.exclusive("127.0.0.1", free_port()):
        pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])  # noqa: S104
def test_server_for_addresses_that_are_not_named_is_refused(monkeypatch, capsys, host):
    monkeypatch.setattr("sys.argv", ["serve", f"--host={host}"])
    with pytest.raises(SystemExit):
        serve.main()
    assert "give one address of this machine" in capsys.readouterr().err


def login(said: str) -> str:
    """Return the command with which another terminal logs in, as ``make serve`` prints it."""
    (line,) = [line for line in said.splitlines() if line.startswith("  export ")]
    return line.strip()


def test_printed_command_logs_in_without_showing_the_password(tmp_path):
    file = tmp_path / "a user's home" / FILE
    file.parent.mkdir()
    file.write_text("tuneline:t0p\n")
    said = serve.welcome("http://127.0.0.1:4200/api", file)
    assert "t0p" not in said
    shell = ["bash", "-c", f"{login(said)}; echo $PREFECT_API_AUTH_STRING at $PREFECT_API_URL"]
    assert subprocess.run(shell, capture_output=True, text=True, check=True).stdout == "tuneline:t0p at http://127.0.0.1:4200/api\n"


@pytest.fixture
def made_served(tmp_path, toy, monkeypatch):
    """``make serve`` in a terminal; yield what it has said so far, and end it with Ctrl-C."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    log = tmp_path / "log"
    with log.open("w") as output:
        command = [sys.executable, "-m", "flows.server.serve", "--port", str(free_port())]
        served = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        until(lambda: "Worker 'local' started" in log.read_text() or served.poll() is not None, 300, "the worker")
        yield log.read_text
    finally:
        served.send_signal(signal.SIGINT)
        served.wait(120)


def terminal(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=240)


@pytest.mark.slow  # a server, a worker and a run
@pytest.mark.timeout(600)
def test_other_terminal_logs_in_and_runs_a_deployment(made_served, tmp_path):
    log_in, file = login(made_served()), tmp_path / "home" / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    done = terminal(f"{log_in}; prefect deployment run train/train-on-demand --param promote=false --watch")
    assert done.returncode == 0, done.stdout + made_served()
    refused = terminal(f"{log_in}x; prefect work-pool ls")
    assert "401 Unauthorized" in refused.stdout
    password = file.read_text().strip()
    assert password not in made_served() + done.stdout + refused.stdout
    assert not [line for line in command_lines() if password in line]


def command_lines() -> list[str]:
    """Return the command lines of all processes: every user can read them."""
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return lines
