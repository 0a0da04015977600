"""A clock that was ahead: what was written with it is corrected, and the server starts again.

Prefect compares times of the machine's clock, in its database and in memory. After a clock that was eight
days ahead has been corrected, all of them are eight days away: the services of the server sleep for so long,
and three scheduled runs per schedule are enough for Prefect, wherever they are. Nothing runs until then.

``watch`` notices that the clock was set back, and starts the server again, which forgets what is in memory.
``correct`` corrects the database at each start: a clock may be corrected while the server is away.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State, StateDetails, StateType
from prefect.server.database import PrefectDBInterface
from sqlalchemy.ext.asyncio import AsyncSession

from tuneline.runtime.terminal import say

LOOK = 10.0
"""Seconds between two looks at the clock."""
TOLERANCE = 60.0
"""Seconds by which a clock may be ahead, or set back: the services of the server wait as long anyway."""


class Clock:
    """The clock of this machine, compared with one that nobody sets."""

    def __init__(self) -> None:
        self._difference = _difference()

    def set_back(self) -> float:
        """Return the seconds by which the clock was set back since the last look; negative if forward.

        A machine that slept counts as set forward.
        """
        before = self._difference
        self._difference = _difference()
        return before - self._difference


def _difference() -> float:
    return time.time() - time.monotonic()


async def watch(restart: Callable[[], None]) -> None:
    """Look at the clock until cancelled, and call ``restart`` when it was set back."""
    clock = Clock()
    while True:
        await asyncio.sleep(LOOK)
        seconds = clock.set_back()
        if seconds > TOLERANCE:
            distance = timedelta(seconds=round(seconds))
            say(f"The clock of this machine was set back by {distance}. The server starts again.", error=True)
            restart()


async def correct(database: PrefectDBInterface, client: PrefectClient) -> None:
    """Correct what a clock that was ahead has written; without such times, change nothing.

    Runs of a schedule are deleted, and Prefect's scheduler makes those that are due next. Runs that wait for
    another reason wait as long as they had to.
    """
    now = datetime.now(UTC)
    limit = now + timedelta(seconds=TOLERANCE)
    run, state = database.FlowRun, database.FlowRunState
    written_early = run.state_id.in_(sa.select(state.id).where(state.timestamp > limit))
    of_schedule = run.auto_scheduled.is_(True)
    is_waiting = run.state_type == StateType.SCHEDULED
    unstarted = (written_early, of_schedule, is_waiting, run.run_count == 0)

    async with database.session_context(begin_transaction=True) as session:
        # the runs of schedules
        deleted = (await session.execute(sa.select(sa.func.count(run.id)).where(*unstarted))).scalar_one()
        await session.execute(sa.delete(run).where(*unstarted))

        # Where runs started early, the schedule makes others at their times: the key is the time.
        started = (written_early, of_schedule)
        await session.execute(sa.update(run).where(*started).values(idempotency_key=None))

        await _correct_events(database, session, limit, now)

        waiting = sa.select(run.id, run.state_name, run.next_scheduled_start_time, state.timestamp)
        waiting = waiting.join(state, state.id == run.state_id)
        waiting = waiting.where(written_early, is_waiting, run.next_scheduled_start_time.is_not(None))
        rows = (await session.execute(waiting)).all()

    for identity, name, due, written in rows:
        details = StateDetails(scheduled_time=now + max(due - written, timedelta()))
        corrected = State(type=StateType.SCHEDULED, name=name, state_details=details)
        await client.set_flow_run_state(identity, corrected, force=True)
    if deleted or rows:
        say(
            f"The clock of this machine was ahead. {deleted} scheduled runs are made again, and"
            f" {len(rows)} that wait have another time.",
            error=True,
        )


async def _correct_events(
    database: PrefectDBInterface, session: AsyncSession, limit: datetime, now: datetime
) -> None:
    """Move events to now, and forget what the automations have counted since a time that has not come yet.

    Otherwise, the last heartbeat of a run would stay its last one, and the run would count as dead; and an
    automation takes no event from before it began to count.
    """
    for table in (database.Event, database.EventResource):
        await session.execute(sa.update(table).where(table.occurred > limit).values(occurred=now))
    bucket = database.AutomationBucket
    await session.execute(sa.delete(bucket).where(bucket.start > limit))
