"""Runs of a real server, brought into their states by hand.

Looking takes no time here; the server itself waits between its looks.
"""

import asyncio
import time
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import StateType
from prefect.flow_engine import run_flow
from prefect.states import AwaitingRetry, Cancelled, Completed, Crashed, Pending, Running
from ruamel.yaml import YAML

from flows.runs.processes import RUN_VARIABLE
from flows.server import crashes
from flows.server.crashes import RESTARTED, RESTARTS, Watch, is_given_up, restarts
from flows.server.deploy import DEPLOYMENTS
from flows.server.worker import HEARTBEAT
from flows.train import CrashedTooOftenError, train
from tests.flows.prefect_server import LOGIN, Prefect, heartbeats, prefect_server, started_with, until

SILENT, STARTING, REPORTING = 3, 6, 2
"""Looks until something happens: fewer than in the server, whose own looks take longer than a test."""


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    looks = {StateType.RUNNING: SILENT, StateType.PENDING: STARTING, StateType.CRASHED: REPORTING}
    monkeypatch.setattr(crashes, "_PATIENCE", looks)


@pytest.fixture
def runs(served):
    """Return a function that makes a run of a deployment in a state.

    None of them sends a heartbeat of its own.
    """
    deployment = served.client.read_deployment_by_name("train/train-nightly")
    made = []

    def make(*states):
        run = served.client.create_flow_run_from_deployment(deployment.id)
        made.append(run.id)
        for state in states:
            served.client.set_flow_run_state(run.id, state, force=True)
        return run.id

    yield make
    for run in made:
        served.client.set_flow_run_state(run, Completed(), force=True)


def look(served: Prefect, *runs: UUID, times: int, between=lambda _number: None) -> list[list[str]]:
    """Look some times, and return the names of the states of some runs after each look."""

    async def looking() -> list[list[str]]:
        async with PrefectClient(served.api, auth_string=LOGIN) as client:
            watch, seen = Watch(client), []
            for number in range(times):
                await watch.look()
                seen.append([(await client.read_flow_run(run)).state.name for run in runs])
                between(number)
            return seen

    return asyncio.run(looking())


def beat(served: Prefect, run: UUID) -> None:
    """Send a heartbeat as the run would, and wait until the server has it."""
    event = {
        "event": "prefect.flow-run.heartbeat",
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "resource": {"prefect.resource.id": f"prefect.flow-run.{run}"},
    }
    before = len(heartbeats(served, run))
    served.client.request("POST", "/events", json=[event]).raise_for_status()
    until(lambda: len(heartbeats(served, run)) > before, 30, "the heartbeat")


@pytest.mark.promise("silent-run")
def test_silent_run_crashes_and_is_started_again_once(served, runs):
    run, lost = runs(Pending(), Running()), runs(Pending())
    by_hand = served.client.create_flow_run(train, state=Running()).id
    beat(served, run)
    seen = look(served, run, lost, by_hand, times=STARTING + 2)
    assert [state for state, _, _ in seen[:SILENT]] == ["Running"] * SILENT
    assert {state for state, _, _ in seen[SILENT:]} == {"AwaitingRetry"}
    assert {state for _, state, _ in seen[STARTING:]} == {"AwaitingRetry"}, "its worker died before it ran"
    assert {state for _, _, state in seen} == {"Running"}, (
        "nobody could start it again, and it may send no heartbeats"
    )
    assert [state.name for state in served.states(run)][-2:] == ["Crashed", "AwaitingRetry"]
    assert restarts(served.states(run)) == restarts(served.states(lost)) == 1
    served.client.set_flow_run_state(by_hand, Completed(), force=True)


@pytest.mark.promise("silent-run")
def test_restarted_run_is_not_taken_for_its_dead_attempt(served, runs):
    """It runs again before the next look, and has sent no heartbeat yet: the last one is that of the attempt
    that died."""
    run = runs(Pending(), Running())
    beat(served, run)

    def start_again(number: int) -> None:
        if number == SILENT:
            served.client.set_flow_run_state(run, Running(), force=True)

    seen = look(served, run, times=2 * SILENT + 1, between=start_again)
    assert [name for (name,) in seen] == ["Running"] * SILENT + ["AwaitingRetry"] + ["Running"] * SILENT


def test_heartbeat_keeps_a_run_alive(served, runs):
    run = runs(Pending(), Running())
    seen = look(
        served,
        run,
        times=SILENT + 2,
        between=lambda number: beat(served, run) if number == SILENT - 2 else None,
    )
    assert {name for (name,) in seen} == {"Running"}


def test_reported_crash_is_restarted_after_the_late_report(served, runs):
    run = runs(Pending(), Running(), Crashed(message="Process exited with status code: -9."))
    ended, never_ran = (
        runs(Running(), Cancelled()),
        runs(Pending(), Crashed(message="Flow run could not start")),
    )
    seen = look(served, run, ended, never_ran, times=5)
    assert [state for state, _, _ in seen] == ["Crashed"] * REPORTING + ["AwaitingRetry"] * (5 - REPORTING)
    assert {state for _, state, _ in seen} == {"Cancelled"}
    assert [state for _, _, state in seen] == ["Crashed"] * REPORTING + ["Failed"] * (5 - REPORTING), (
        "it would crash again"
    )


def test_run_is_not_restarted_for_ever():
    history = [Running(), *[AwaitingRetry(message=RESTARTED)] * RESTARTS, Crashed()]
    assert is_given_up(history, reported=False)
    assert not is_given_up(history[:-2], reported=True)


def test_run_that_crashed_in_each_attempt_fails(served, toy):
    """What counts are deaths: a person may start a run again as often as they like."""
    run = served.client.create_flow_run(train, state=Pending())
    for state in [Running(), AwaitingRetry(message="By a person.")] * 4 + [
        Running(),
        AwaitingRetry(message=RESTARTED),
    ] * 4:
        served.client.set_flow_run_state(run.id, state, force=True)
    served.client.set_flow_run_state(run.id, Pending(), force=True)
    with pytest.raises(CrashedTooOftenError, match="crashed 4 times"):
        run_flow(train, flow_run=served.run(run.id), parameters={"ref": "main"})


def test_deployments_bring_the_heartbeats_that_the_server_expects():
    definitions = YAML(typ="safe", pure=True).load(DEPLOYMENTS)["deployments"]
    assert {
        one["work_pool"]["job_variables"]["env"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] for one in definitions
    } == {str(HEARTBEAT)}
    assert crashes.SILENT * crashes.LOOK >= 3 * HEARTBEAT


@pytest.mark.slow  # two servers, a worker each, and three missing heartbeats
@pytest.mark.timeout(600)
@pytest.mark.promise("power-failure")
def test_young_run_that_died_with_its_server_is_resumed_within_two_minutes(tmp_path, toy):
    """As after a power failure.

    The events of a run that is younger than five minutes name others that only the old server has seen.
    """
    home = tmp_path / "home"
    with prefect_server(home) as served:
        served.start_worker()
        run = served.submit(
            "train/train-on-demand",
            toy.root,
            overrides=["train.pause=0.05", "train.steps=1500"],
            promote=False,
        )
        until(lambda: list(toy.state.glob("*/checkpoints/step.json")), 200, "a checkpoint")
        for process in [
            *started_with("PREFECT_HOME", str(home)),
            *started_with(RUN_VARIABLE, next(toy.state.glob("*/")).name),
        ]:
            process.kill()
    with prefect_server(home) as served:
        began = time.monotonic()
        served.start_worker()
        served.wait_for_line(run, "resuming from step", 120)
        print(f"resumed after {time.monotonic() - began:.0f} s")
        assert [state.name for state in served.states(run)].count("Crashed") == 1
        served.cancel(run)
        served.wait(run)
