"""Flow ``train`` on a server with PostgreSQL, as in production: SQLite is for one machine."""

import asyncio
import time

import asyncpg
import pytest

from tests.flows.conftest import sh
from tests.flows.postgres import postgres, stoppable_postgres
from tests.flows.prefect_server import prefect_server, until

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


def rows(address: str, query: str) -> list[tuple]:
    async def fetch() -> list[tuple]:
        connection = await asyncpg.connect(address.replace("+asyncpg", ""))
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()

    return asyncio.run(fetch())


def test_train_on_a_server_with_postgresql(tmp_path, toy, homes):
    with (
        postgres() as address,
        prefect_server(tmp_path / "home", PREFECT_SERVER_DATABASE_CONNECTION_URL=address) as served,
    ):
        served.start_worker()
        run = served.submit("train/train-on-demand", toy.root, overrides=["train.steps=7"])
        ended = served.wait(run)
        assert ended.state.name == "Completed", served.said(run)
        assert rows(address, "select name, state_name from flow_run where state_type <> 'SCHEDULED'") == [
            (ended.name, "Completed")
        ]
        stages = {name for (name,) in rows(address, "select name from task_run")}
        assert {"prepare", "train", "gate", "promote"} <= stages
        said = {message for (message,) in rows(address, "select message from log")}
        assert any("step" in line for line in said), "what a stage prints is in the database, too"
    assert sh("git", "branch", "--list", "runs/*", cwd=toy.root).strip()
    assert not (tmp_path / "home" / "prefect.db").exists()


AWAY = 100
"""Seconds. Prefect's worker ended itself after 75 without its database, and its clients gave up after 62."""


@pytest.mark.promise("database-away")
def test_database_that_is_away_beyond_the_end_of_a_training_delays_its_run(tmp_path, toy, homes):
    with (
        stoppable_postgres() as database,
        prefect_server(tmp_path / "home", PREFECT_SERVER_DATABASE_CONNECTION_URL=database.address) as served,
    ):
        worker = served.start_worker()
        run = served.submit(
            "train/train-on-demand", toy.root, overrides=["train.pause=0.1", "train.steps=300"]
        )
        until(lambda: list(toy.state.glob("*/checkpoints/step.json")), 400, "a checkpoint")
        database.stop()
        time.sleep(AWAY)
        database.start()

        ended = served.wait(run)
        assert [state.name for state in served.states(run)][-2:] == ["Running", "Completed"]
        assert f"runs/{ended.end_time:%Y-%m-%d}-{ended.name}" in sh("git", "branch", cwd=toy.root)
        served.wait_for_line(run, "train: 300/300")
        until(
            lambda: all(task.state.is_final() for task in served.tasks(run).values()), 60, "all tasks to end"
        )
        assert worker.poll() is None, "it takes the next run"
        for log in served.logs.glob("*.log"):
            text = log.read_text()
            assert "Traceback" not in text, log
            assert ("The server cannot use its database: " in text) == (log.name == "server.log")
