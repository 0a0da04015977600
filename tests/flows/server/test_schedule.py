"""``make schedule`` leaves other people's servers and databases alone and other people out, and ends what it
started."""

import contextlib
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from flows import bypass_proxy
from flows.server import schedule
from flows.server.schedule import FILE
from tests.conftest import ROOT
from tests.flows.prefect_server import free_port, started_with, until


def test_used_port_is_reported_before_anything_starts(monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr("sys.argv", ["schedule", "--port", str(port)])
        with pytest.raises(SystemExit, match=f"--port {port + 1}"):
            schedule.main()


def test_second_server_does_not_share_the_database(monkeypatch, tmp_path):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    with (
        schedule.exclusive("127.0.0.1", free_port()),
        pytest.raises(SystemExit, match=rf"{tmp_path}.*PREFECT_HOME"),
        schedule.exclusive("127.0.0.1", free_port()),
    ):
        pass
    with schedule.exclusive("127.0.0.1", free_port()):
        pass


def test_database_is_for_its_user_only_in_a_folder_that_others_can_enter(monkeypatch, tmp_path):
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    tmp_path.chmod(0o755)
    (tmp_path / "prefect.db").touch(mode=0o644)
    with schedule.exclusive("127.0.0.1", free_port()):
        assert (tmp_path / "prefect.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])  # noqa: S104
def test_server_for_addresses_that_are_not_named_is_refused(monkeypatch, capsys, host):
    monkeypatch.setattr("sys.argv", ["schedule", f"--host={host}"])
    with pytest.raises(SystemExit):
        schedule.main()
    assert "give one address of this machine" in capsys.readouterr().err


def login(said: str) -> str:
    """Return the command with which another terminal logs in, as ``make schedule`` prints it."""
    (line,) = [line for line in said.splitlines() if line.startswith("  export ")]
    return line.strip()


def test_printed_command_logs_in_without_showing_the_password(tmp_path):
    file = tmp_path / "a user's home" / FILE
    file.parent.mkdir()
    file.write_text("tuneline:t0p\n")
    said = schedule.welcome("http://127.0.0.1:4200/api", file)
    assert "t0p" not in said
    shell = ["bash", "-c", f"{login(said)}; echo $PREFECT_API_AUTH_STRING at $PREFECT_API_URL"]
    assert (
        subprocess.run(shell, capture_output=True, text=True, check=True).stdout
        == "tuneline:t0p at http://127.0.0.1:4200/api\n"
    )


@pytest.fixture
def made_served(tmp_path, toy, monkeypatch):
    """``make schedule`` in a terminal; yield what it has said so far, and end it with Ctrl-C."""
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    log = tmp_path / "log"
    with log.open("w") as output:
        command = [sys.executable, "-m", "flows.server.schedule", "--port", str(free_port())]
        served = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    try:
        until(
            lambda: "Worker 'local' started" in log.read_text() or served.poll() is not None,
            300,
            "the worker",
        )
        yield log.read_text
    finally:
        served.send_signal(signal.SIGINT)
        served.wait(120)


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
def test_other_terminal_logs_in_and_runs_a_deployment_until_the_server_ends(made_served, tmp_path):
    log_in, file = login(made_served()), tmp_path / "home" / FILE
    assert file.stat().st_mode & 0o777 == 0o600
    done = terminal(f"{log_in}; prefect deployment run train/train-on-demand --param promote=false --watch")
    assert done.returncode == 0, done.stdout + made_served()
    refused = terminal(f"{log_in}x; prefect work-pool ls")
    assert "401 Unauthorized" in refused.stdout
    password = file.read_text().strip()
    assert password not in made_served() + done.stdout + refused.stdout
    assert not [line for line in command_lines() if password in line]

    (server,) = [
        one
        for one in started_with("PREFECT_HOME", str(tmp_path / "home"))
        if schedule.SERVER in one.cmdline()
    ]
    server.kill()
    until(lambda: " ended; its output is above." in made_served(), 100, "schedule to end")
    assert "The server ended" in made_served(), "the worker is ended by schedule itself"


def command_lines() -> list[str]:
    """Return the command lines of all processes: every user can read them."""
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return lines


def test_ignored_hangup_stays_ignored():
    """``nohup make schedule`` serves on when the terminal is closed."""
    script = (
        "import signal\nfrom flows.server import"
        " schedule\nschedule.end_on_signals()\nprint(signal.getsignal(signal.SIGHUP))"
    )
    ignoring = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", sys.executable, "-c", script]
    done = subprocess.run(ignoring, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(signal.SIG_IGN)


def start_in_terminal(command: str, **env: str) -> tuple[subprocess.Popen, int]:
    """Start a command in a shell, as `make` is one, with a terminal of its own; return the shell and the
    terminal's other end."""
    terminal, inside = pty.openpty()
    shell = [
        "env",
        "--default-signal=HUP",
        "setsid",
        "--ctty",
        "sh",
        "-c",
        f"{command}; true",
    ]  # it may be ignored around the tests
    process = subprocess.Popen(
        shell, cwd=ROOT, env={**os.environ, **env}, stdin=inside, stdout=inside, stderr=inside
    )
    os.close(inside)
    return process, terminal


def read_until(terminal: int, text: bytes) -> None:
    printed = b""
    while text not in printed:
        printed += os.read(terminal, 4096)  # an OSError if all of it has ended


SERVING = """
import contextlib, os, time
from flows.server import schedule
from tuneline.runtime.processes import ending
schedule.end_on_signals()
env = dict(os.environ)
program = schedule.start_module("http.server", "--bind", "127.0.0.1", "0", env=env)
with contextlib.suppress(KeyboardInterrupt), ending(program) as server:
    while server.poll() is None:
        time.sleep(0.1)
"""


def test_closed_terminal_ends_what_was_started(tmp_path):
    """The children are in sessions of their own, where the terminal's signal does not reach them."""
    (tmp_path / "serving.py").write_text(SERVING)
    mark = str(tmp_path)
    shell, terminal = start_in_terminal(
        f"{sys.executable} -u {tmp_path / 'serving.py'}",
        MARK=mark,
        PYTHONPATH=str(ROOT),
        PYTHONUNBUFFERED="1",
    )
    read_until(terminal, b"Serving HTTP on 127.0.0.1")
    assert len(started_with("MARK", mark)) == 3
    os.close(terminal)
    until(lambda: not started_with("MARK", mark), 60, "all of it to end")
    shell.wait()


@pytest.mark.promise("closed-terminal")
def test_killed_serve_leaves_nothing_behind(tmp_path):
    """``kill -9``, or the kernel when memory runs out."""
    (tmp_path / "serving.py").write_text(SERVING)
    mark = str(tmp_path)
    env = {**os.environ, "MARK": mark, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, tmp_path / "serving.py"], cwd=ROOT, env=env, stdout=subprocess.PIPE
    ) as serving:
        assert serving.stdout.readline().startswith(b"Serving HTTP")
        assert len(started_with("MARK", mark)) == 2
        serving.kill()
        until(lambda: not started_with("MARK", mark), 20, "all of it to end")


@pytest.mark.slow  # a server of its own
@pytest.mark.timeout(600)
@pytest.mark.promise("closed-terminal")
def test_closed_terminal_ends_server_and_worker(tmp_path):
    home = str(tmp_path / "home")
    command = f"{sys.executable} -m flows.server.schedule --port {free_port()}"
    shell, terminal = start_in_terminal(command, PREFECT_HOME=home, PREFECT_SERVER_UI_ENABLED="false")
    read_until(terminal, b"Worker 'local' started!")
    assert len(started_with("PREFECT_HOME", home)) >= 5, "shell, schedule, server and two workers"
    os.close(terminal)
    until(lambda: not started_with("PREFECT_HOME", home), 120, "server and worker to end")
    shell.wait()


def test_no_proxy_is_asked_for_the_server_of_this_machine(monkeypatch):
    """A proxy that does not answer stands for one that does not know this machine's own addresses."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "example.org")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        answering = threading.Thread(target=answer_once, args=(listening,), daemon=True)
        answering.start()
        bypass_proxy("127.0.0.1")
        assert schedule._problem(f"http://127.0.0.1:{port}/api") is None
    assert os.environ["no_proxy"] == "example.org,127.0.0.1"


def answer_once(listening: socket.socket) -> None:
    """Answer one request as a server that is well."""
    connection, _ = listening.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue")


def test_server_that_does_not_answer_is_said_with_the_reason():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    assert "refused" in (schedule._problem(f"http://127.0.0.1:{port}/api") or "")
