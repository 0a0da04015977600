"""A network that is away: a program without one, or with one that knows no name, and a git host that is
stopped and started."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMESPACE = ("unshare", "--user", "--map-root-user", "--net")
RESOLVER = Path(__file__).with_name("resolver.py")


def recording_lookups(record: Path, *command: str) -> list[str]:
    """Return ``command`` with the loopback interface only, and a name server that knows no name.

    Args:
        record: File for the names that the command and its children look up: a JSON list, written when the
            command has ended.
        command: Program and arguments. The test is skipped where the system does not allow a user to redirect
            look-ups.
    """
    recorded = [*NAMESPACE, "--mount", sys.executable, str(RESOLVER), str(record)]
    if subprocess.run([*recorded, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not allow a user to redirect look-ups of names")
    return [*recorded, *command]


class GitHost:
    """A git daemon that serves the bare repositories of a folder, to everyone who reaches the loopback
    interface.

    Args:
        folder: The folder; served while the host runs.
    """

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._folder = folder
        self._daemon: subprocess.Popen[bytes] | None = None

    def url(self, name: str) -> str:
        """Return the address of a repository."""
        return f"git://127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        """Start the daemon, and wait until it accepts connections."""
        options = ["--reuseaddr", "--listen=127.0.0.1", f"--port={self.port}", f"--base-path={self._folder}"]
        command = ["git", "daemon", "--export-all", "--enable=receive-pack", *options, str(self._folder)]
        self._daemon = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise TimeoutError("the git daemon does not answer")

    def stop(self) -> None:
        """Stop the daemon and its connections; afterwards, connections are refused."""
        if self._daemon:
            os.killpg(self._daemon.pid, signal.SIGKILL)
            self._daemon.wait()
            self._daemon = None

    def start_later(self, seconds: float) -> None:
        """Start the daemon after a time."""
        threading.Timer(seconds, self.start).start()


@contextmanager
def git_host(folder: Path) -> Iterator[GitHost]:
    """Yield a running git host for the bare repositories of a folder; it is stopped at the end."""
    host = GitHost(folder)
    host.start()
    try:
        yield host
    finally:
        host.stop()
