"""Errors of a database that is away or has no room are told from others, answered and printed once."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy.ext.asyncio import create_async_engine

from flows.server.outages import MAINTENANCE, Outages, is_database_outage
from tests.flows.prefect_server import free_port


async def refused() -> None:
    """Ask a PostgreSQL that is not there."""
    await ask(f"postgresql+asyncpg://prefect@127.0.0.1:{free_port()}/prefect", "SELECT 1")


async def full() -> None:
    """Write more than there is room for."""
    await ask("sqlite+aiosqlite://", "PRAGMA max_page_count = 1", "CREATE TABLE run (name)")


async def full_disk() -> None:
    """Write to a disk that is full."""
    with Path("/dev/full").open("wb") as file:
        file.write(b"1")


async def wrong() -> None:
    """Ask for a table that is not there."""
    await ask("sqlite+aiosqlite://", "SELECT * FROM run")


async def other_connection() -> None:
    """Connect to what is no database."""
    await asyncio.open_connection("127.0.0.1", free_port())


async def ask(address: str, *statements: str) -> None:
    engine = create_async_engine(address)
    try:
        async with engine.connect() as connection:
            for statement in statements:
                await connection.execute(sa.text(statement))
    finally:
        await engine.dispose()


def error_of(asking: Callable) -> Exception:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is
        asyncio.run(asking())
    return raised.value


@pytest.mark.parametrize(
    ("asking", "outage"),
    [(refused, True), (full, True), (full_disk, True), (wrong, False), (other_connection, False)],
)
def test_outage_is_told_from_other_errors(asking, outage):
    error = error_of(asking)
    assert is_database_outage(error) is outage
    assert is_database_outage(ExceptionGroup("unhandled errors in a TaskGroup", [error])) is outage


@pytest.fixture
def client() -> TestClient:
    """A client of an application like Prefect's, whose requests find each error."""
    api = FastAPI()
    for asking in (refused, full, wrong):
        api.get(f"/{asking.__name__}")(asking)
    application = FastAPI()
    application.mount("/api", api, name="api")
    Outages().answer_requests(application)
    return TestClient(application, raise_server_exceptions=False)


def test_request_during_an_outage_is_answered_so_that_clients_wait(client, capsys):
    for path in ("/api/refused", "/api/full"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert MAINTENANCE.items() <= {name.title(): text for name, text in answer.headers.items()}.items()
    printed = capsys.readouterr().err
    assert printed.count("The server cannot use its database") == 1, "one line a minute"
    assert "Connect" in printed
    assert client.get("/api/wrong").status_code == 500


def test_log_has_no_traceback_of_an_outage(capsys):
    log = logging.getLogger("tests.outages")
    handler = logging.StreamHandler()
    log.addHandler(handler)
    outages = Outages()
    outages.filter_logs()
    try:
        for asking in (full, full, wrong):
            log.error("Failed", exc_info=error_of(asking))
    finally:
        log.removeHandler(handler)
        for logger in (logging.root, *logging.root.manager.loggerDict.values()):
            for other in getattr(logger, "handlers", ()):
                other.removeFilter(outages)
    printed = capsys.readouterr().err
    assert printed.count("The server cannot use its database: ") == 1
    assert "disk is full" in printed
    assert "no such table: run" in printed, "other errors are logged as before"
    assert printed.count("Failed") == 1


def test_log_on_the_full_disk_stops_nobody(monkeypatch):
    answers = []
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as log:
        monkeypatch.setattr("sys.stderr", log)
        error = error_of(full)
        record = logging.LogRecord("server", logging.ERROR, "", 0, "", (), (type(error), error, None))
        answers.append(Outages().filter(record))
    assert answers == [False]
