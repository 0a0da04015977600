"""Transactions of the server on SQLite."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from uuid import uuid4

import pytest
import sqlalchemy as sa
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import LogCreate
from prefect.server.database.configurations import AioSqliteConfiguration
from prefect.states import Crashed, Pending, Running

from flows.server.api import lock_at_begin
from tests.flows.prefect_server import LOGIN, Prefect, prefect_server, until


@pytest.fixture
def locking(monkeypatch):
    """As in the server; undone after the test."""
    monkeypatch.setattr(AioSqliteConfiguration, "begin_transaction", AioSqliteConfiguration.begin_transaction)
    lock_at_begin()


def test_transactions_that_read_and_then_write_wait_for_each_other(tmp_path, locking):
    async def count_up(database: AioSqliteConfiguration) -> None:
        async with (
            await database.session(await database.engine()) as session,
            database.begin_transaction(session),
        ):
            (count,) = (await session.execute(sa.text("SELECT count FROM counts"))).one()
            await asyncio.sleep(0.1)
            await session.execute(sa.text("UPDATE counts SET count = :count"), {"count": count + 1})

    async def main() -> int:
        database = AioSqliteConfiguration(f"sqlite+aiosqlite:///{tmp_path / 'store.db'}")
        engine = await database.engine()
        async with engine.connect() as connection:
            await connection.execute(sa.text("CREATE TABLE counts AS SELECT 0 AS count"))
        await asyncio.gather(*[count_up(database) for _ in range(4)])
        async with engine.connect() as connection:
            return (await connection.execute(sa.text("SELECT count FROM counts"))).scalar_one()

    assert asyncio.run(main()) == 4


def test_read_in_another_session_does_not_wait_for_the_transaction_around_it(tmp_path, locking):
    """As when Prefect pauses a work queue, and reads what the event of it needs."""

    async def main() -> int:
        database = AioSqliteConfiguration(f"sqlite+aiosqlite:///{tmp_path / 'store.db'}")
        engine = await database.engine()
        async with engine.connect() as connection:
            await connection.execute(sa.text("CREATE TABLE counts AS SELECT 5 AS count"))
        async with (
            await database.session(engine) as session,
            database.begin_transaction(session),
            await database.session(engine) as other,
        ):
            await session.execute(sa.text("UPDATE counts SET count = 6"))
            async with asyncio.timeout(5):
                return (await other.execute(sa.text("SELECT count FROM counts"))).scalar_one()

    assert asyncio.run(main()) == 5


@flow
def busy():
    pass


WRITERS, SECONDS = 6, 15
AUTOMATION = {
    "name": "a run crashed",
    "trigger": {
        "type": "event",
        "posture": "Reactive",
        "match": {"prefect.resource.id": "prefect.flow-run.*"},
        "match_related": {"prefect.resource.role": "flow", "prefect.resource.name": "busy"},
        "for_each": ["prefect.resource.id"],
        "after": ["prefect.flow-run.Running"],
        "expect": ["prefect.flow-run.Crashed"],
        "threshold": 1,
        "within": 3600,
    },
    "actions": [{"type": "do-nothing"}],
}


def write(served: Prefect) -> int:
    """Let runs crash, with logs and events; return how many did."""
    crashed, end = 0, time.monotonic() + SECONDS
    with SyncPrefectClient(served.api, auth_string=LOGIN) as client:
        while time.monotonic() < end:
            run = client.create_flow_run(busy, state=Pending())
            for state in (Running(), Crashed()):
                client.set_flow_run_state(run.id, state)
            now = datetime.now(UTC)
            client.create_logs(
                [LogCreate(name="busy", level=20, message="A line", timestamp=now, flow_run_id=run.id)] * 20
            )
            event = {
                "event": "busy",
                "id": str(uuid4()),
                "occurred": now.isoformat(),
                "resource": {"prefect.resource.id": "busy"},
            }
            client.request("POST", "/events", json=[event]).raise_for_status()
            crashed += 1
    return crashed


def count(served: Prefect, name: str) -> int:
    wanted = {"filter": {"event": {"name": [name]}}, "limit": 1}
    return served.client.request("POST", "/events/filter", json=wanted).json()["total"]


@pytest.mark.slow  # a server of its own
@pytest.mark.timeout(300)
@pytest.mark.promise("busy-database")
def test_busy_server_loses_no_event_and_no_automation(tmp_path, homes):
    with prefect_server(tmp_path / "home") as served:
        served.client.request("POST", "/automations/", json=AUTOMATION).raise_for_status()
        with ThreadPoolExecutor(WRITERS) as writers:
            crashed = sum(writers.map(write, [served] * WRITERS))
        assert crashed > 2 * WRITERS, "none of them waited for a lock until it gave up"
        for name in ("busy", "prefect.flow-run.Crashed", "prefect.automation.triggered"):
            until(
                lambda name=name: count(served, name) == crashed,
                60,
                f"{crashed} events {name}, not {count(served, name)}",
            )
    assert "database is locked" not in (tmp_path / "home" / "server.log").read_text()
