"""A damaged SQLite file: named before the server starts, and never started with again by a service."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flows.server import sqlite
from flows.server.schedule import AUTH, SERVER
from flows.server.sqlite import damage_of, refuse_damaged
from tests.conftest import ROOT
from tests.flows.prefect_server import free_port
from tuneline.runtime.errors import PERMANENT


@pytest.fixture
def database(tmp_path) -> Path:
    """Many pages, and an index."""
    file = tmp_path / "a folder" / "prefect.db"
    file.parent.mkdir()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE run (name TEXT PRIMARY KEY)")
        names = [(f"run-{number:09}",) for number in range(20_000)]
        connection.executemany("INSERT INTO run VALUES (?)", names)
    return file


def overwrite(file: Path, start: int, content: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(start)
        opened.write(content)


@pytest.mark.parametrize("start", [0, 50, 4096, 200_000])
def test_overwritten_file_is_damaged(database, start):
    assert damage_of(database) is None
    overwrite(database, start, os.urandom(8192))
    assert damage_of(database)


def test_truncated_file_is_damaged_and_empty_or_missing_one_is_not(database, tmp_path):
    assert damage_of(tmp_path / "missing.db") is None
    assert not (tmp_path / "missing.db").exists()
    os.truncate(database, 300_000)
    assert damage_of(database)
    os.truncate(database, 0)
    assert damage_of(database) is None


def test_large_file_is_not_looked_at_for_ever(database, monkeypatch):
    monkeypatch.setattr(sqlite, "SECONDS_TO_LOOK", 0.0)
    monkeypatch.setattr(sqlite, "STEPS", 1)
    overwrite(database, 200_000, os.urandom(8192))
    assert damage_of(database) is None


def test_other_databases_are_not_looked_at():
    refuse_damaged("postgresql+asyncpg://user:secret@127.0.0.1:9/prefect")
    refuse_damaged("sqlite+aiosqlite:///:memory:")


def start(database: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PREFECT_HOME": str(database.parent), AUTH: "tests:t0p"}
    return subprocess.run(
        [sys.executable, "-m", *command, "--port", str(free_port())],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@pytest.mark.slow  # starts the server
@pytest.mark.promise("damaged-database")
def test_server_does_not_start_with_a_damaged_file(database):
    overwrite(database, 0, os.urandom(8192))
    done = start(database, SERVER)
    assert done.returncode == PERMANENT
    assert f"Prefect's database {database} is damaged (file is not a database)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.promise("damaged-database")
def test_refusal_names_the_damaged_file_and_its_advice_sets_it_aside(database, capsys):
    overwrite(database, 0, os.urandom(8192))
    database.with_name("prefect.db-wal").write_bytes(b"old")
    with pytest.raises(SystemExit) as refused:
        refuse_damaged(f"sqlite+aiosqlite:///{database}")
    assert refused.value.code == PERMANENT
    printed = capsys.readouterr().err
    assert f"Prefect's database {database} is damaged (file is not a database)" in printed
    advice = re.search(r"aside: (mkdir .*)$", printed, re.MULTILINE)[1]
    subprocess.run(["bash", "-c", advice], check=True)
    assert not list(database.parent.glob("prefect.db*"))
    moved = database.parent / "damaged-prefect.db"
    assert (moved / "prefect.db-wal").read_bytes() == b"old", "nothing of the history is removed"


@pytest.mark.slow  # starts the server
@pytest.mark.promise("damaged-database")
def test_make_serve_ends_with_the_status_that_a_service_does_not_start_again(database):
    overwrite(database, 0, os.urandom(8192))
    done = start(database, "flows.server.schedule")
    assert done.returncode == PERMANENT
    assert "is damaged (file is not a database)" in done.stderr
    unit = (ROOT / "containers/tuneline@.service").read_text()
    assert f"\nRestartPreventExitStatus={PERMANENT}\n" in unit
