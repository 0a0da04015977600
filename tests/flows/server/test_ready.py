"""The server is ready if its database takes a write: on a disk that is really full, and on both databases."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import httpx
import pytest
from prefect.server.database.configurations import AioSqliteConfiguration, AsyncPostgresConfiguration

from flows.server import ready, schedule
from flows.server.ready import NOT_READY, Readiness
from tests.conftest import ROOT
from tests.faults.disks import on_small_disk
from tests.flows.postgres import postgres
from tests.flows.prefect_server import LOGIN, free_port, until
from tuneline.runtime.processes import ending


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """No answer is used again."""
    monkeypatch.setattr(ready, "INTERVAL", 0.0)


FILL_DISK = """
import asyncio, sys
from pathlib import Path
from prefect.server.database.configurations import AioSqliteConfiguration
from flows.server import ready

folder = Path(sys.argv[1])
ready.INTERVAL = 0.0

async def main():
    readiness = ready.Readiness(AioSqliteConfiguration(f"sqlite+aiosqlite:///{folder / 'prefect.db'}"))
    print(await readiness.is_ready())
    with (folder / "filler").open("wb", buffering=0) as filler:
        try:
            while True:
                filler.write(bytes(4096))
        except OSError:
            pass
        # The journal has room for some more transactions.
        answers = [await readiness.is_ready() for _ in range(100)]
        print(answers[-1], sorted(answers, reverse=True) == answers)
    (folder / "filler").unlink()
    print(await readiness.is_ready())

asyncio.run(main())
"""


def test_database_on_a_full_disk_is_not_ready_until_there_is_room(tmp_path):
    command = on_small_disk(tmp_path, "8m", sys.executable, "-c", FILL_DISK, str(tmp_path))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["True", "False True", "True"], done.stderr
    assert done.stderr.count("The database takes no writes") == 1
    assert "disk is full" in done.stderr


@pytest.mark.slow
def test_database_is_not_ready_where_the_log_is_on_the_full_disk(tmp_path):
    command = on_small_disk(tmp_path, "8m", sys.executable, "-c", FILL_DISK, str(tmp_path))
    with Path("/dev/full").open("wb") as log:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, check=False)
    assert done.stdout.splitlines() == ["True", "False True", "True"]


def test_one_write_answers_all_who_ask_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(ready, "INTERVAL", 60.0)
    database = AioSqliteConfiguration(f"sqlite+aiosqlite:///{tmp_path / 'prefect.db'}")

    async def content() -> str:
        async with (await database.engine()).connect() as connection:
            return (await connection.exec_driver_sql("SELECT content FROM tuneline_ready")).scalar_one()

    async def main() -> None:
        readiness = Readiness(database)
        assert all(await asyncio.gather(*[readiness.is_ready() for _ in range(20)]))
        first = await content()
        assert await readiness.is_ready()
        assert await content() == first, "nothing was written for this answer"
        monkeypatch.setattr(ready, "INTERVAL", 0.0)
        assert await readiness.is_ready()
        assert await content() != first

    asyncio.run(main())


def test_request_that_is_given_up_does_not_end_the_write(tmp_path):
    database = AioSqliteConfiguration(f"sqlite+aiosqlite:///{tmp_path / 'prefect.db'}")

    async def main() -> bool:
        readiness = Readiness(database)
        given_up = asyncio.create_task(readiness.is_ready())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(readiness.is_ready())
        await asyncio.sleep(0)
        given_up.cancel()
        return await waiting

    assert asyncio.run(main())


def test_schedules_without_their_runs_are_not_ready(tmp_path):
    database = AioSqliteConfiguration(f"sqlite+aiosqlite:///{tmp_path / 'prefect.db'}")
    problems: list[str | None] = [None, "The next run is missing of train-nightly."]

    async def main() -> list[tuple[int, bytes]]:
        readiness = Readiness(database, problems.pop)
        answers = [await readiness.answer(), await readiness.answer()]
        return [(answer.status_code, answer.body) for answer in answers]

    missing, complete = asyncio.run(main())
    assert missing == (503, b'{"message":"The next run is missing of train-nightly."}')
    assert complete == (200, b'{"message":"OK"}')


@pytest.mark.slow  # a PostgreSQL server
@pytest.mark.promise("full-database")
def test_postgresql_that_takes_no_writes_is_not_ready():
    async def main(address: str) -> list[bool]:
        readiness = Readiness(AsyncPostgresConfiguration(address))
        answers = [await readiness.is_ready(), await readiness.is_ready()]
        connection = await asyncpg.connect(address.replace("+asyncpg", ""))
        # As a replica is, to which a cluster has switched.
        await connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        await connection.execute("SELECT pg_reload_conf()")
        await asyncio.sleep(1)
        answers.append(await readiness.is_ready())
        await connection.close()
        return answers

    with postgres() as address:
        assert asyncio.run(main(address)) == [True, True, False]


def ask(api: str, path: str = "/ready") -> httpx.Response:
    return httpx.get(api + path, timeout=60)


@pytest.mark.slow  # a server of its own
@pytest.mark.timeout(300)
@pytest.mark.promise("full-database")
def test_server_on_a_full_disk_says_so_without_the_password(tmp_path, homes):
    home = tmp_path / "home"
    home.mkdir()
    port = free_port()
    env = {
        **schedule.settings(f"http://127.0.0.1:{port}/api", LOGIN),
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_UI_ENABLED": "false",
    }
    api = env["PREFECT_API_URL"]
    command = [
        sys.executable,
        "-m",
        schedule.SERVER,
        "--port",
        str(port),
    ]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            on_small_disk(home, "64m", *command), cwd=ROOT, env=env, stdout=log, stderr=log
        )
    with ending(server):
        until(lambda: answers(api), 180, "the server")
        assert ask(api).status_code == 200

        # The disk is one that only the server sees.
        filler = Path(f"/proc/{server.pid}/root{home}/filler")
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))
        until(lambda: not can_write(api), 100, "a request that the server cannot write")
        assert ask(api, "/health").status_code == 200
        refused = until(
            lambda: (answer := ask(api)).status_code != 200 and answer,
            30,
            "the server to say that it is not ready",
        )
        assert refused.status_code == 503
        assert refused.json() == {"message": NOT_READY}

        filler.unlink()
        until(lambda: ask(api).status_code == 200, 30, "the server to be ready again")
        assert can_write(api)


def can_write(api: str) -> bool:
    variable = {"name": f"tests-{time.monotonic_ns()}", "value": "x" * 4000}
    user, _, password = LOGIN.partition(":")
    return httpx.post(f"{api}/variables/", json=variable, auth=(user, password), timeout=60).is_success


def answers(api: str) -> bool:
    try:
        return ask(api, "/health").status_code == 200
    except httpx.TransportError:
        return False
