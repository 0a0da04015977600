"""A PostgreSQL server of the tests' own: Debian's package, in a temporary folder, on a free port, not as
root."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.prefect_server import free_port, until

PASSWORD = secrets.token_hex(8)


def program(name: str) -> str:
    """Debian keeps the server's programs off the path."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    found = shutil.which(name) or (str(versions[-1]) if versions else None)
    if found is None:
        pytest.skip(f"PostgreSQL's {name} is not there: apt-get install postgresql")
    return found


class Postgres:
    """A database in a folder, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        """Create it."""
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        # PostgreSQL refuses to run as root; another user could not look into pytest's folder.
        self._user = {"user": "nobody"} if os.geteuid() == 0 else {}

        (folder / "password").write_text(PASSWORD)
        if self._user:
            for path in (folder, folder / "password"):
                shutil.chown(path, **self._user)
        options = [
            "--username=prefect",
            f"--pwfile={folder / 'password'}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-sync",
        ]
        command = [program("initdb"), f"--pgdata={folder / 'data'}", *options]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, **self._user)

    @property
    def address(self) -> str:
        """The address, as Prefect takes it."""
        return f"postgresql+asyncpg://prefect:{PASSWORD}@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        folder = self._folder
        place = [
            "-D",
            str(folder / "data"),
            "-p",
            str(self._port),
            "-h",
            "127.0.0.1",
            "-k",
            str(folder),
            "-F",
        ]
        with (folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                [program("postgres"), *place, "-F"], stdout=log, stderr=log, cwd=folder, **self._user
            )
        answers = [program("pg_isready"), "--quiet", f"--port={self._port}", "--host=127.0.0.1"]
        until(lambda: subprocess.run(answers, check=False).returncode == 0, 60, "PostgreSQL")

    def stop(self) -> None:
        """Stop it at once, whoever is connected."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)


@contextlib.contextmanager
def stoppable_postgres() -> Iterator[Postgres]:
    """Serves an empty database."""
    with tempfile.TemporaryDirectory(prefix="tuneline-postgres-") as name:
        database = Postgres(Path(name))
        try:
            database.start()
            yield database
        finally:
            database.stop()


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Serves an empty database and yields its address, as Prefect takes it."""
    with stoppable_postgres() as database:
        yield database.address
