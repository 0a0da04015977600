"""A server whose clock was days ahead runs everything on time again when the clock is right."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from uuid import UUID

import httpx
import pytest
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.events import emit_event
from prefect.events.worker import EventsWorker

from tests.conftest import ROOT
from tests.faults.clocks import WrongClock
from tests.flows.prefect_server import Prefect, prefect_server, until

DAYS = 8
AHEAD = DAYS * 24 * 3600

LOOK_TWICE = """
import sys
from flows.server.clock import Clock
clock = Clock()
for line in sys.stdin:
    print(round(clock.set_back()), flush=True)
"""


def test_clock_that_is_set_back_or_forward_is_noticed_once(tmp_path):
    clock = WrongClock(tmp_path, 0)
    looking = [sys.executable, "-c", LOOK_TWICE]
    with subprocess.Popen(
        looking, cwd=ROOT, env=clock.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def look() -> int:
            process.stdin.write("look\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        assert look() == 0
        clock.set(AHEAD)
        assert [look(), look()] == [-AHEAD, 0]
        clock.set(0)
        assert [look(), look()] == [AHEAD, 0]
        process.stdin.close()


def scheduled(served: Prefect, deployment: UUID) -> list[FlowRun]:
    """Return the runs of a deployment that wait, the next one first."""
    only = DeploymentFilter(id=DeploymentFilterId(any_=[deployment]))
    runs = served.client.read_flow_runs(deployment_filter=only)
    waiting = [run for run in runs if run.state.is_scheduled()]
    return sorted(waiting, key=lambda run: run.next_scheduled_start_time)


@pytest.mark.slow  # a server of its own
@pytest.mark.timeout(400)
@pytest.mark.promise("clock-ahead")
def test_schedules_and_waiting_runs_are_on_time_again_when_the_clock_is_corrected(tmp_path, homes):
    clock = WrongClock(tmp_path / "clock", AHEAD)
    home = tmp_path / "home"
    with prefect_server(home, **clock.env) as served:
        nightly = served.client.read_deployment_by_name("train/train-nightly").id
        hourly = served.client.read_deployment_by_name("watch/watch-hourly").id
        later = served.client.read_deployment_by_name("score/score-on-demand").id
        now = datetime.now(UTC)
        too_late = now + timedelta(days=DAYS - 1)
        until(lambda: scheduled(served, nightly), 60, "the runs of the schedule")
        until(lambda: scheduled(served, hourly), 60, "the runs of the schedule")
        assert scheduled(served, nightly)[0].next_scheduled_start_time > too_late

        # a run that started early, one that a person wants in two hours, and a heartbeat
        early = scheduled(served, hourly)[0]
        served.client.set_flow_run_state(early.id, State(type=StateType.COMPLETED), force=True)
        due = now + timedelta(seconds=AHEAD, hours=2)
        in_two_hours = State(type=StateType.SCHEDULED, state_details={"scheduled_time": due})
        waiting = served.client.create_flow_run_from_deployment(later, state=in_two_hours).id
        emit_event(
            "prefect.flow-run.heartbeat",
            resource={"prefect.resource.id": f"prefect.flow-run.{waiting}"},
            occurred=now + timedelta(seconds=AHEAD),
        )
        EventsWorker.drain_all()
        until(lambda: times_ahead(home, "events") > 0, 30, "the heartbeat")

        clock.set(0)
        until(
            lambda: (runs := scheduled(served, nightly)) and runs[0].next_scheduled_start_time < too_late,
            120,
            "a training tonight",
        )
        assert all(run.next_scheduled_start_time < too_late for run in scheduled(served, nightly))
        until(lambda: scheduled(served, hourly), 60, "the runs of the other schedule")
        tonight, now = scheduled(served, nightly)[0], datetime.now(UTC)
        assert tonight.next_scheduled_start_time < now + timedelta(days=1, hours=1)
        moved = served.run(waiting).next_scheduled_start_time
        assert timedelta(hours=1, minutes=50) < moved - now < timedelta(hours=2, minutes=1)
        assert times_ahead(home, "events") == 0
        with closing(sqlite3.connect(home / "prefect.db")) as database:
            key = database.execute("SELECT idempotency_key FROM flow_run WHERE id = ?", [str(early.id)])
            assert key.fetchone() == (None,), "its hour is free again"
        assert httpx.get(f"{served.api}/ready", timeout=60).status_code == 200
    log = (home / "server.log").read_text()
    assert log.count("was set back by 8 days") == 1
    assert "scheduled runs are made again, and 1 that wait have another time" in log


def times_ahead(home, table: str) -> int:
    """Return how many rows have a time that has not come yet."""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat(" ")
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        query = f"SELECT count(*) FROM {table} WHERE occurred > ?"  # noqa: S608 - a name of ours
        return database.execute(query, [tomorrow]).fetchone()[0]
