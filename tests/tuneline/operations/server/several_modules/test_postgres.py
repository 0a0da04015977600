"""Flow ``train`` on a server with PostgreSQL, as in production: SQLite is for one machine."""

import asyncio

import asyncpg
import pytest

from tests.flows.conftest import ref_with, sh
from tests.flows.postgres import postgres
from tests.flows.prefect_server import prefect_server

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
        run = served.submit("train/train-on-demand", toy.root, ref=ref_with(toy.root, "train.steps=7"))
        ended = served.wait(run)
        assert ended.state.name == "Completed", served.said(run)
        # Runs of the schedule may have begun meanwhile.
        assert (ended.name, "Completed") in rows(address, "select name, state_name from flow_run")
        stages = {name for (name,) in rows(address, "select name from task_run")}
        assert {"prepare", "train", "gate", "promote"} <= stages
        said = {message for (message,) in rows(address, "select message from log")}
        assert any("step" in line for line in said), "what a stage prints is in the database, too"
    assert sh("git", "branch", "--list", "runs/*", cwd=toy.root).strip()
    assert not (tmp_path / "home" / "prefect.db").exists()
