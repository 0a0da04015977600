"""Transactions of the server on SQLite."""

import asyncio

import pytest
import sqlalchemy as sa
from prefect.server.database.configurations import AioSqliteConfiguration

from flows.server.sqlite import lock_at_begin


@pytest.fixture
def locking(monkeypatch):
    """As in the server; undone after the test."""
    monkeypatch.setattr(AioSqliteConfiguration, "begin_transaction", AioSqliteConfiguration.begin_transaction)
    lock_at_begin()


def test_transactions_that_read_and_then_write_wait_for_each_other(tmp_path, locking):
    async def count_up(database: AioSqliteConfiguration) -> None:
        async with await database.session(await database.engine()) as session, database.begin_transaction(session):
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
