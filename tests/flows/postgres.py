"""A PostgreSQL server of the tests' own: Debian's package, in a temporary folder, on a free port, not as
root."""

import contextlib
import os
import secrets
import shutil
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


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Serves an empty database and yields its address, as Prefect takes it."""
    initdb, server, ready, port = program("initdb"), program("postgres"), program("pg_isready"), free_port()
    # PostgreSQL refuses to run as root; another user could not look into pytest's folder.
    user = {"user": "nobody"} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="tuneline-postgres-") as name:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD)
        if user:
            for path in (folder, folder / "password"):
                shutil.chown(path, **user)
        options = [
            "--username=prefect",
            f"--pwfile={folder / 'password'}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--no-sync",
        ]
        subprocess.run(
            [initdb, f"--pgdata={folder / 'data'}", *options],
            check=True,
            capture_output=True,
            cwd=folder,
            **user,
        )
        command = [server, "-D", str(folder / "data"), "-p", str(port), "-h", "127.0.0.1", "-k", name, "-F"]
        with (
            (folder / "log").open("w") as log,
            subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **user) as process,
        ):
            try:
                answers = [ready, "--quiet", f"--port={port}", "--host=127.0.0.1"]
                until(lambda: subprocess.run(answers, check=False).returncode == 0, 60, "PostgreSQL")
                yield f"postgresql+asyncpg://prefect:{PASSWORD}@127.0.0.1:{port}/postgres"
            finally:
                process.terminate()
                process.wait(30)
