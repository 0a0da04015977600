"""A schedule whose next run is missing: it is made, or the server says that it is missing."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.flows.prefect_server import prefect_server

LOOK = """
import asyncio, sys
import sqlalchemy as sa
from prefect.server.database import provide_database_interface
from flows.server.schedules import Schedules

database = provide_database_interface()
schedules = Schedules(database)

async def remove():
    async with database.session_context(begin_transaction=True) as session:
        await session.execute(sa.delete(database.FlowRun))

async def look():
    await schedules.look()
    print(schedules.problem)

async def main():
    await look()
    await remove()
    await look()
    await look()
    await look()
    for _ in range(3):
        await remove()
        await look()
    await look()

asyncio.run(main())
"""
MISSING = (
    "The next run is missing of clean-weekly, ingest-daily, score-hourly, train-nightly, watch-hourly."
    " Restart the server."
)


@pytest.mark.slow  # a server of its own
@pytest.mark.timeout(300)
def test_missing_next_runs_are_made_and_named_if_they_stay_missing(tmp_path, homes):
    with prefect_server(tmp_path / "home") as served:
        env = served.env
    done = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    # removed once: made at the second look; removed before each look: named at the third
    expected = ["None", "None", "None", "None", "None", "None", MISSING, "None"]
    assert done.stdout.splitlines() == expected, done.stderr
    assert MISSING in done.stderr
