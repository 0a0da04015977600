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


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Serve an empty database and yield its address, as Prefect takes it."""
    port = free_port()
    # PostgreSQL refuses to run as root; another user could not look into pytest's folder.
    user = {"user": "nobody"} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="tuneline-postgres-") as name:
        folder = Path(name)
        (folder / "password").write_text(PASSWORD)
        if user:
            for path in (folder, folder / "password"):
                shutil.chown(path, **user)
        create = [program("initdb"), f"--pgdata={folder}/data", "--username=prefect", "--no-sync"]
        create += [f"--pwfile={folder}/password", "--auth=scram-sha-256", "--encoding=UTF8"]
        subprocess.run(create, check=True, capture_output=True, cwd=folder, **user)

        serve = [program("postgres"), "-D", f"{folder}/data", "-p", str(port), "-h", "127.0.0.1"]
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([*serve, "-k", name, "-F"], stdout=log, stderr=log, cwd=folder, **user)
        try:
            answers = [program("pg_isready"), "--quiet", f"--port={port}", "--host=127.0.0.1"]
            until(lambda: subprocess.run(answers, check=False).returncode == 0, 60, "PostgreSQL")
            yield f"postgresql+asyncpg://prefect:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
