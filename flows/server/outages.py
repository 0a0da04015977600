"""A database that is away, or has no room: clients wait until it is back, and the log says so in a line.

Prefect answers a request that needs such a database with status 500, and prints a traceback of a hundred
lines, as its services do every few seconds. Its clients give up at once, or within a minute: a line of a log
is lost, a run fails, a worker ends. ``Outages`` has requests answered as if Prefect's server was in
maintenance, for which its clients wait without end, and prints one line a minute in place of the tracebacks.
"""

import asyncio
import contextlib
import errno
import logging
import sqlite3
import time
import traceback

import asyncpg
from fastapi import FastAPI, Request, status
from fastapi.responses import JSONResponse
from fastapi.routing import Mount
from prefect.server.events.schemas.events import ReceivedEvent
from sqlalchemy.exc import DBAPIError

from tuneline.runtime.terminal import say, visible

SAY_EVERY = 60.0
"""Seconds between two lines about an outage."""
ASK_AGAIN = 5
"""Seconds after which the database is asked again."""
MAINTENANCE = {"Prefect-Maintenance": "true", "Retry-After": str(ASK_AGAIN)}
"""Headers for which Prefect's clients wait and ask again, as often as needed."""
NO_DATABASE = "The server cannot use its database, and its log says why. Ask again."
POSTGRES_STATES = ("08", "25006", "53", "57P", "58")
"""Starts of PostgreSQL's codes for: no connection, read only, no room, shut down or starting, system error.

From https://www.postgresql.org/docs/current/errcodes-appendix.html.
"""
SQLITE_STATES = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")
"""Starts of the names of SQLite's errors for: no room, and a file that cannot be read or written."""


def is_database_outage(error: BaseException | None) -> bool:
    """Return True if an error says that the database is away or has no room; False if a query is wrong."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_database_outage(part) for part in error.exceptions)
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or is_database_outage(error.orig)
    if isinstance(error, sqlite3.Error):
        return str(getattr(error, "sqlite_errorname", "")).startswith(SQLITE_STATES)
    if isinstance(error, asyncpg.InterfaceError):
        return "closed" in str(error)
    if isinstance(error, OSError):
        return error.errno in {errno.ENOSPC, errno.EDQUOT} or _is_of_postgres(error)
    # An error of PostgreSQL, or what SQLAlchemy makes of it
    return str(getattr(error, "sqlstate", None) or "").startswith(POSTGRES_STATES)


def _is_of_postgres(error: OSError) -> bool:
    """Return True if a connection to PostgreSQL failed, for which its driver has no error of its own."""
    modules = [frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return "asyncpg.connect_utils" in modules


class Outages(logging.Filter):
    """Answers requests during an outage, and prints a line in place of what is logged about it."""

    def __init__(self) -> None:
        super().__init__()
        self._said = -SAY_EVERY
        self._waits = True

    def end(self) -> None:
        """Wait no more: the server ends."""
        self._waits = False

    def keep_task_runs(self) -> None:
        """Have the states of tasks wait for the end of an outage; Prefect drops them after six attempts."""
        from prefect.server.services import task_run_recorder

        record = task_run_recorder.record_bulk_task_run_events

        async def record_after_outage(events: list[ReceivedEvent]) -> None:
            while True:
                try:
                    await record(events)
                    return
                except Exception as error:
                    if not (self._waits and is_database_outage(error)):
                        raise
                    self._say(error)
                await asyncio.sleep(ASK_AGAIN)

        task_run_recorder.record_bulk_task_run_events = record_after_outage

    def answer_requests(self, application: FastAPI) -> None:
        """Answer the requests to the API of Prefect's application that find an outage."""
        for mount in application.routes:
            if isinstance(mount, Mount) and mount.name == "api" and isinstance(mount.app, FastAPI):
                for kind in (DBAPIError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    mount.app.add_exception_handler(kind, self._answer)

    def filter_logs(self) -> None:
        """Filter all logs that this process prints now."""
        for logger in (logging.root, *logging.root.manager.loggerDict.values()):
            if isinstance(logger, logging.Logger):
                for handler in logger.handlers:
                    handler.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for a record with the traceback of an outage, and print the line in its place."""
        if record.exc_info and is_database_outage(record.exc_info[1]):
            self._say(record.exc_info[1])
            return False
        return True

    async def _answer(self, _request: Request, error: Exception) -> JSONResponse:
        """Answer with status 503; raise what is no outage, for Prefect to answer."""
        if not is_database_outage(error):
            raise error
        self._say(error)
        content = {"exception_message": NO_DATABASE}
        return JSONResponse(content, status.HTTP_503_SERVICE_UNAVAILABLE, headers=MAINTENANCE)

    def _say(self, error: BaseException | None) -> None:
        """Print that the database cannot be used, unless that was printed a moment ago."""
        if time.monotonic() < self._said + SAY_EVERY:
            return
        self._said = time.monotonic()

        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, DBAPIError):
            error = error.orig
        reason = visible(f"{type(error).__name__}: {error}")
        with contextlib.suppress(OSError):  # the log may be on the same full disk
            say(
                f"The server cannot use its database: {reason}. Runs and workers wait until it can.",
                error=True,
            )
