"""Run everything on one machine with one command: server (SQLite), work pool, deployments, worker.

``python -m flows.server.schedule``; Ctrl-C or closing the terminal ends all of it, runs first. A run that is
started again resumes from its checkpoint.
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
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows import bypass_proxy
from flows.server.deploy import ROOT, deploy
from flows.server.worker import worker_settings
from tuneline.runtime import processes
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.processes import ending
from tuneline.runtime.terminal import say

SERVER = "flows.server"
"""Module that serves."""
AUTH = "PREFECT_SERVER_API_AUTH_STRING"
"""Environment variable of the server with its password."""
CLIENT_AUTH = "PREFECT_API_AUTH_STRING"
"""Environment variable of the server's clients with its password."""
ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - refused
FILE = "tuneline-serve.secret"
"""Name of the file with the password, in the folder of the server's database."""
_REMEDY = "Remove it; the next start writes a new one, with which other terminals log in."
SERVER_START = 180.0
"""Seconds until a server must answer.

Its first start migrates the database, which takes a minute on a busy machine.
"""


def main() -> None:
    """Serve until interrupted, or until the server or the worker ends."""
    parser = argparse.ArgumentParser(prog="python -m flows.server.schedule", description=__doc__)
    parser.add_argument(
        "--host", default="127.0.0.1", help="address the server listens on (default: %(default)s)"
    )
    parser.add_argument("--port", type=int, default=4200, help="its port (default: %(default)s)")
    options = parser.parse_args()
    if options.host in ANY_ADDRESS:
        parser.error(
            f"--host {options.host}: give one address of this machine, for example 192.168.1.5 (`hostname -I`"
            " lists them)"
        )
    end_on_signals()

    with contextlib.suppress(KeyboardInterrupt), exclusive(options.host, options.port) as home:
        bypass_proxy(options.host)
        # the password
        secret = None
        password = os.environ.get(AUTH)
        if not password:
            secret = home / FILE
            password = read_or_create(secret)
        env = settings(f"http://{options.host}:{options.port}/api", password)

        with server(options.host, options.port, env) as serving:
            deploy(env)
            say(welcome(env["PREFECT_API_URL"], secret))
            with ending(start_module("flows.server.worker", "--name", "local", env=env)) as worker:
                while worker.poll() is None and serving.poll() is None:
                    time.sleep(0.5)
                # Before this process ends the other one.
                ended = "worker" if serving.poll() is None else "server"
        sys.exit(
            f"The {ended} ended; its output is above. Start it again: the same run, requested again, resumes."
        )


def welcome(api: str, file: Path | None) -> str:
    """Return how to use the server from another terminal, without its password.

    The password is in ``file``; ``None`` if it is in the environment.
    """
    if file:
        where = str(file)
        password = f'"$(cat {shlex.quote(where)})"'
    else:
        where = f"${AUTH}"
        password = f'"{where}"'
    return f"""
Serving at {api.removesuffix("/api")}. Its page asks for the password: all of {where}. In another terminal:

  export PREFECT_API_URL={api} {CLIENT_AUTH}={password}
  prefect deployment run train/train-on-demand --watch
"""


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

    The file appears complete, and other users can read it at no time.

    Raises:
        SystemExit: Other users can read or replace the content of the file, or it contains no
            ``USER:PASSWORD``.
    """
    if not os.path.lexists(file):
        _create(file)
    status = file.lstat()
    is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    if not is_own or stat.S_IMODE(status.st_mode) & 0o077:
        sys.exit(
            f"Other users may know the password of the server: {file} is not a file of yours with mode 0600."
            f" {_REMEDY}"
        )

    text = file.read_text(encoding="utf-8", errors="replace").strip()
    user, _, password = text.partition(":")
    if not user or not password or len(text.split()) != 1:
        sys.exit(f"{file} is damaged: it should contain USER:PASSWORD. {_REMEDY}")
    return text


def _create(file: Path) -> None:
    """Write a random password to a new file."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600 from the start
    partial = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as content:
            content.write(f"tuneline:{secrets.token_hex(32)}\n")
            content.flush()
            os.fsync(descriptor)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(host: str, port: int) -> Iterator[Path]:
    """Make sure that nobody else uses the port or the database, and yield the folder of the database.

    To deploy to another's server would change it.
    """
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    # The database contains the secrets of notifications, and their key.
    home.mkdir(mode=0o700, parents=True, exist_ok=True)

    # the port
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        sys.exit(
            f"Cannot serve at {host}:{port} ({error.strerror}). Use another port: make schedule ARGS='--port"
            f" {port + 1}'"
        )

    # the database
    with contextlib.ExitStack() as locks:
        try:
            locks.enter_context(locked(home / "tuneline-serve.lock", wait=0))
        except BusyError:
            sys.exit(
                f"Another `make schedule` uses the database in {home}. To use another database:"
                " PREFECT_HOME=FOLDER make schedule"
            )
        database = home / "prefect.db"
        # SQLite would let others read it, in a folder that they can enter.
        database.touch(mode=0o600)
        database.chmod(0o600)
        yield home


def settings(api: str, password: str) -> dict[str, str]:
    """Return the environment of server and worker: worker settings, address and password of the server."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    env = worker_settings(os.environ)
    env.update({"PREFECT_API_URL": api, AUTH: password, CLIENT_AUTH: password, "PATH": path})
    return env


def start_module(module: str, *arguments: str, env: dict[str, str], **more: Any) -> subprocess.Popen[bytes]:
    """Start a module out of reach of the terminal's Ctrl-C: the worker and its runs end before the server.

    If this process is killed, the module is asked to end.
    """
    return processes.start(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, env=env, start_new_session=True, **more
    )


@contextlib.contextmanager
def server(host: str, port: int, env: dict[str, str], **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server and wait until it answers."""
    address = ("--host", host, "--port", str(port))
    with ending(start_module(SERVER, *address, env=env, **more)) as process:
        until = time.monotonic() + SERVER_START
        api = env["PREFECT_API_URL"]
        problem = _problem(api)
        while problem is not None:
            status = process.poll()
            if status is not None:
                say(f"The Prefect server ended with exit status {status}; its output is above.", error=True)
                # A service is not started again where that changes nothing (containers/tuneline@.service).
                sys.exit(max(status, 1))
            if time.monotonic() > until:
                sys.exit(
                    f"The Prefect server did not answer at {api} within {SERVER_START:.0f} s, but it runs:"
                    f" {problem}."
                )
            time.sleep(0.3)
            problem = _problem(api)
        yield process


def _problem(api: str) -> str | None:
    """Return why a server does not answer; ``None`` if it does."""
    try:
        with urllib.request.urlopen(f"{api}/health", timeout=5):  # noqa: S310 - the address is ours
            return None  # another status than 200 is an error
    except OSError as error:  # URLError is one
        return str(error)


if __name__ == "__main__":
    main()
