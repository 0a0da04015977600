"""Readiness of the server: it is ready if its database takes a write, and each schedule has its next run.

Prefect's own ``/ready`` connects to the database and ``/health`` does not even that, so both say OK while the
disk is full and no run can change its state. ``flows.server.api`` answers ``GET /api/ready`` with this.

What is written is a new table. PostgreSQL finds room for a replaced row in what it has already: on a full
disk, that row is written while no run and no line of a log can be added.
"""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable

import sqlalchemy as sa
from fastapi import status
from fastapi.responses import JSONResponse
from prefect.server.database.configurations import BaseDatabaseConfiguration

from tuneline.runtime.terminal import say

INTERVAL = 5.0
"""Seconds that an answer is used again: anybody may ask, without the password and as often as they like."""
CHARACTERS = 65_536
"""Length of the text that is written: some database pages, as a run writes them."""
NOT_READY = (
    "The server's database takes no writes, so no run can start or end. The server's log says why; often, the"
    " disk is full."
)
# A new table: see the top of this module.
_STATEMENTS = ("DROP TABLE IF EXISTS tuneline_ready", "CREATE TABLE tuneline_ready (content TEXT)")
_INSERT = "INSERT INTO tuneline_ready VALUES (:content)"


class Readiness:
    """Whether a database takes writes; one write at a time, and none within the interval after another."""

    def __init__(
        self, database: BaseDatabaseConfiguration, other_problem: Callable[[], str | None] = lambda: None
    ) -> None:
        """Prepare it.

        Args:
            database: The database that takes writes, or does not.
            other_problem: Returns why the server is not ready all the same; ``None`` if it is.
        """
        self._database = database
        self._other_problem = other_problem
        self._write: asyncio.Task[bool] | None = None
        self._ended = 0.0
        self._was_ready = True

    async def answer(self) -> JSONResponse:
        """Return status 200 if nothing is wrong, else 503 and one sentence."""
        problem = self._other_problem()
        if not await self.is_ready():
            problem = NOT_READY
        if problem is None:
            return JSONResponse({"message": "OK"})
        return JSONResponse({"message": problem}, status.HTTP_503_SERVICE_UNAVAILABLE)

    async def is_ready(self) -> bool:
        """Return True if the database takes a write, now or a few seconds ago."""
        expired = self._write is not None and self._write.done() and time.monotonic() - self._ended > INTERVAL
        if self._write is None or expired:
            self._write = asyncio.create_task(self._try())
        # A request that is given up ends only itself, and not the write that others wait for.
        return await asyncio.shield(self._write)

    async def _try(self) -> bool:
        try:
            await write(self._database)
            ready = True
        except Exception as error:
            ready = False
            if self._was_ready:
                with contextlib.suppress(OSError):  # the log may be on the same full disk
                    say(f"The database takes no writes: {type(error).__name__}: {error}", error=True)
        self._was_ready = ready
        self._ended = time.monotonic()
        return ready


async def write(database: BaseDatabaseConfiguration) -> None:
    """Replace the table of the last write by a new one, and commit.

    Every error of the database is raised.
    """
    async with (
        await database.session(await database.engine()) as session,
        database.begin_transaction(session),
    ):
        for statement in _STATEMENTS:
            await session.execute(sa.text(statement))
        await session.execute(sa.text(_INSERT), {"content": secrets.token_hex(CHARACTERS // 2)})
