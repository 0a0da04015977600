"""Run everything on one machine with one command: Prefect's server, work pool, deployments, and a worker.

``python -m tuneline.operations.server.schedule`` in the root of the project; Ctrl-C or closing the terminal
ends all of it, runs first. A run that is started again resumes from its checkpoint.
"""

import argparse
import contextlib
import os
import secrets
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tuneline.core.runtime import processes
from tuneline.core.runtime.files import BusyError, locked
from tuneline.core.runtime.processes import ending
from tuneline.core.runtime.terminal import say
from tuneline.operations.server.crashes import LOOK, restart_crashed_runs
from tuneline.operations.server.deploy import client_of, deploy, project_folder
from tuneline.operations.server.worker import worker_settings

HOST = "127.0.0.1"
AUTH = "PREFECT_SERVER_API_AUTH_STRING"
"""Environment variable of the server with its password."""
CLIENT_AUTH = "PREFECT_API_AUTH_STRING"
"""Environment variable of the server's clients with its password."""
FILE = "tuneline-serve.secret"
"""Name of the file with the password, in the folder of the server's database."""
SERVER_START = 180.0
"""Seconds until a server must answer: its first start migrates the database."""
KEEP_RUNS = 90 * 86400
"""Seconds that the server keeps runs with their logs, unless its own setting says otherwise."""


def main() -> None:
    """Serve until interrupted, or until the server or the worker ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tuneline.operations.server.schedule", description=__doc__
    )
    parser.add_argument("--port", type=int, default=4200, help="port of the server (default: %(default)s)")
    port = parser.parse_args().port
    project_folder()
    end_on_signals()

    with contextlib.suppress(KeyboardInterrupt), exclusive() as home:
        password = os.environ.get(AUTH)
        shown = f"${AUTH}"
        if not password:
            password = read_or_create(home / FILE)
            shown = f"$(cat {shlex.quote(str(home / FILE))})"
        env = settings(port, password)
        with server(port, env) as serving:
            deploy(env)
            say(f"""
Serving at http://{HOST}:{port}. Its page asks for the password: all of {shown}. In another terminal:

  export PREFECT_API_URL={env["PREFECT_API_URL"]} {CLIENT_AUTH}="{shown}"
  prefect deployment run train/train-on-demand --watch
""")
            worker_command = [sys.executable, "-m", "tuneline.operations.server.worker", "--name", "local"]
            with (
                ending(start_apart(worker_command, env)) as worker,
                client_of(env) as client,
            ):
                next_look = time.monotonic()
                while worker.poll() is None and serving.poll() is None:
                    if time.monotonic() >= next_look:
                        restart_crashed_runs(client)
                        next_look = time.monotonic() + LOOK
                    time.sleep(0.5)
                # Before this process ends the other one.
                ended = "worker" if serving.poll() is None else "server"
        sys.exit(f"The {ended} ended; its output is above. Start it again: interrupted runs resume.")


def end_on_signals() -> None:
    """Make Ctrl-C, SIGTERM and a closed terminal interrupt this process, so that it ends what it started."""

    def interrupt(_number: int, _frame: object) -> None:
        # Kernel and shell both send it: the second one must not interrupt the ending.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        raise KeyboardInterrupt

    # Also SIGINT, which a script's background process ignores.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup make schedule` serves on
        signal.signal(signal.SIGHUP, interrupt)


def read_or_create(file: Path) -> str:
    """Return the ``USER:PASSWORD`` in a file, which is created with a random password if it is missing.

    Raises:
        SystemExit: Other users can read or replace the content of the file, or it contains no password.
    """
    with contextlib.suppress(FileExistsError):
        # Mode 0600 from the start; what a kill left empty is refused below.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as content:
            content.write(f"tuneline:{secrets.token_hex(32)}\n")

    status = file.lstat()
    is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    user, _, password = file.read_text(encoding="utf-8").strip().partition(":")
    if not is_own or stat.S_IMODE(status.st_mode) & 0o077 or not user or not password:
        sys.exit(
            f"{file} is not a file of yours with mode 0600 that contains USER:PASSWORD. Remove it; the next"
            " start writes a new one, with which other terminals log in."
        )
    return f"{user}:{password}"


@contextlib.contextmanager
def exclusive() -> Iterator[Path]:
    """Make sure that nobody else uses the database, and yield its folder."""
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    # The database contains the secrets of notifications, and their key.
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    try:
        with locked(home / "tuneline-serve.lock", wait=0):
            yield home
    except BusyError:
        sys.exit(
            f"Another `make schedule` uses the database in {home}. To use another database:"
            " PREFECT_HOME=FOLDER make schedule"
        )


def settings(port: int, password: str) -> dict[str, str]:
    """Return the environment of server and worker: Prefect's settings, which the environment may override."""
    api = f"http://{HOST}:{port}/api"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    defaults = {
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://{HOST}:{port},http://localhost:{port}",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(KEEP_RUNS),
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    }
    own = {"PREFECT_API_URL": api, AUTH: password, CLIENT_AUTH: password, "PATH": path}
    return {**defaults, **worker_settings(os.environ), **own}


def start_apart(command: Sequence[str], env: dict[str, str], **more: Any) -> subprocess.Popen[bytes]:
    """Start a program out of reach of the terminal's Ctrl-C: the worker and its runs end before the server.

    If this process is killed, the program is asked to end.
    """
    return processes.start(command, env=env, start_new_session=True, **more)


@contextlib.contextmanager
def server(port: int, env: dict[str, str], **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run Prefect's server and wait until it answers."""
    # What has the port already must not get the password.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            sys.exit(
                f"Port {port}: {error.strerror}. For another one: make schedule ARGS='--port {port + 1}'"
            )
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(port)]
    with ending(start_apart(command, env, **more)) as process:
        until = time.monotonic() + SERVER_START
        while not _answers(env["PREFECT_API_URL"]):
            if process.poll() is not None or time.monotonic() > until:
                sys.exit(
                    "Prefect's server did not start; its output is above. If it cannot locate a revision, a"
                    " newer Prefect has used this database: take that version, or PREFECT_HOME=FOLDER."
                )
            time.sleep(0.3)
        yield process


def _answers(api: str) -> bool:
    try:
        with urllib.request.urlopen(f"{api}/health", timeout=5):  # noqa: S310 - the address is ours
            return True
    except OSError:
        return False


if __name__ == "__main__":
    main()
