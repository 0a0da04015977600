"""``make serve`` leaves other people's servers and databases alone, and ends what it started."""

import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from flows.server import serve
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


def test_ignored_hangup_stays_ignored():
    """``nohup make serve`` serves on when the terminal is closed."""
    script = "import signal\nfrom flows.server import serve\nserve.end_on_signals()\nprint(signal.getsignal(signal.SIGHUP))"
    ignoring = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", sys.executable, "-c", script]
    done = subprocess.run(ignoring, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(signal.SIG_IGN)


def start_in_terminal(command: str, **env: str) -> tuple[subprocess.Popen, int]:
    """Start a command in a shell, as `make` is one, with a terminal of its own; return the shell and the terminal's other end."""
    terminal, inside = pty.openpty()
    shell = ["setsid", "--ctty", "sh", "-c", f"{command}; true"]
    process = subprocess.Popen(shell, cwd=ROOT, env={**os.environ, **env}, stdin=inside, stdout=inside, stderr=inside)
    os.close(inside)
    return process, terminal


def read_until(terminal: int, text: bytes) -> None:
    printed = b""
    while text not in printed:
        printed += os.read(terminal, 4096)  # an OSError if all of it has ended


def started_with(name: str, value: str) -> list[psutil.Process]:
    """Every process with a variable in its environment."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


SERVING = """
import contextlib, os, time
from flows.server import serve
serve.end_on_signals()
env = dict(os.environ)
with contextlib.suppress(KeyboardInterrupt), serve.ending(serve.start("http.server", "--bind", "127.0.0.1", "0", env=env)) as server:
    while server.poll() is None:
        time.sleep(0.1)
"""


def test_closed_terminal_ends_what_was_started(tmp_path):
    """The children are in sessions of their own, where the terminal's signal does not reach them."""
    (tmp_path / "serving.py").write_text(SERVING)
    mark = str(tmp_path)
    shell, terminal = start_in_terminal(
        f"{sys.executable} -u {tmp_path / 'serving.py'}", MARK=mark, PYTHONPATH=str(ROOT), PYTHONUNBUFFERED="1"
    )
    read_until(terminal, b"Serving HTTP on 127.0.0.1")
    assert len(started_with("MARK", mark)) == 3
    os.close(terminal)
    until(lambda: not started_with("MARK", mark), 60, "all of it to end")
    shell.wait()
