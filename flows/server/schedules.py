"""Schedules without their next run: it is made, and as long as it is missing, the server is not ready.

Prefect makes the runs of a schedule before they are due. If it does not, nothing fails: there is no run that
could.
"""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID

import sqlalchemy as sa
from prefect.server.database import PrefectDBInterface
from prefect.server.models.deployments import schedule_runs

from tuneline.runtime.terminal import say

LOOK = 60.0
"""Seconds between two looks: Prefect's scheduler makes runs once a minute."""
MISPLACED_TIMES = 2
"""Looks without a next run until it is made here."""
HORIZON = timedelta(days=90)
"""Prefect makes no runs that are due later (100 days)."""


class Schedules:
    """The active schedules of a server, and how often their next run was missing.

    Attributes:
        problem: What is missing although it was made; ``None`` if nothing is.
    """

    def __init__(self, database: PrefectDBInterface) -> None:
        self.problem: str | None = None
        self._database = database
        self._missing: Counter[UUID] = Counter()

    async def look(self) -> None:
        """Look once: make runs that were missing before, and name those that are missing still."""
        missing = await self._without_next_run()
        counts: Counter[UUID] = Counter()
        names = []
        for deployment, name in missing.items():
            counts[deployment] = self._missing[deployment] + 1
            if counts[deployment] > MISPLACED_TIMES:
                names.append(name)
            if counts[deployment] >= MISPLACED_TIMES:
                async with self._database.session_context(begin_transaction=True) as session:
                    await schedule_runs(session, deployment)  # type: ignore[attr-defined]
        self._missing = counts

        before = self.problem
        self.problem = None
        if names:
            self.problem = f"The next run is missing of {', '.join(sorted(names))}. Restart the server."
        if self.problem not in (None, before):
            say(f"server: {self.problem}", error=True)

    async def _without_next_run(self) -> dict[UUID, str]:
        """Return the names of deployments whose schedule has no run at its next time, by id."""
        deployment, schedule, run = (
            self._database.Deployment,
            self._database.DeploymentSchedule,
            self._database.FlowRun,
        )
        active = (
            sa.select(deployment.id, deployment.name, schedule.schedule)
            .join(schedule, schedule.deployment_id == deployment.id)
            .where(schedule.active.is_(True), deployment.paused.is_not(True))
        )
        missing = {}
        # A run that is due now may be starting.
        start = datetime.now(UTC) + timedelta(seconds=LOOK)
        async with self._database.session_context() as session:
            for identity, name, times in (await session.execute(active)).all():
                for time in await times.get_dates(1, start, start + HORIZON):
                    at_its_time = sa.select(run.id).where(
                        run.deployment_id == identity, run.expected_start_time == time
                    )
                    if (await session.execute(at_its_time.limit(1))).first() is None:
                        missing[identity] = name
        return missing


async def watch(schedules: Schedules) -> None:
    """Look until cancelled. A look that fails is not counted."""
    while True:
        await asyncio.sleep(LOOK)
        try:
            await schedules.look()
        except Exception as error:
            say(f"The server could not look at its schedules: {type(error).__name__}: {error}", error=True)
