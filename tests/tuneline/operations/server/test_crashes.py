"""Runs of a real server, brought into their states by hand, that are started again."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.states import Cancelled, Completed, Crashed, Pending, Running

from flows.train import train
from tests.flows.prefect_server import Prefect, heartbeats, until
from tuneline.core.params.loading import read_yaml
from tuneline.operations.server import crashes
from tuneline.operations.server.crashes import ATTEMPTS, RESTARTED, restart_crashed_runs
from tuneline.operations.server.deploy import NOTIFICATIONS, apply_automations


@pytest.fixture
def runs(served):
    """Return a function that makes a run of a deployment in a state."""
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


def names(client: SyncPrefectClient, *runs: UUID) -> list[str]:
    return [client.read_flow_run(run).state.name for run in runs]


def test_crashed_run_is_started_again_until_it_has_crashed_too_often(served, runs, monkeypatch):
    crashed, cancelled = runs(Running(), Crashed()), runs(Running(), Cancelled())
    by_hand = served.client.create_flow_run(train, state=Crashed()).id

    restart_crashed_runs(served.client)
    assert names(served.client, crashed) == ["Crashed"], "its worker may report the crash again"

    monkeypatch.setattr(crashes, "SETTLED", timedelta(0))
    for _ in range(ATTEMPTS - 1):
        restart_crashed_runs(served.client)
        assert names(served.client, crashed, cancelled, by_hand) == ["AwaitingRetry", "Cancelled", "Crashed"]
        served.client.set_flow_run_state(crashed, Crashed(), force=True)
    restart_crashed_runs(served.client)
    assert names(served.client, crashed) == ["Failed"]
    assert [state.message for state in served.states(crashed)].count(RESTARTED) == ATTEMPTS - 1


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


def test_run_that_was_asleep_is_not_started_a_second_time(served, runs, monkeypatch):
    asleep = runs(Running(), Crashed())
    beat(served, asleep)
    monkeypatch.setattr(crashes, "SETTLED", timedelta(0))
    restart_crashed_runs(served.client)
    assert names(served.client, asleep) == ["Running"]


@pytest.mark.promise("killed-worker")
def test_run_whose_heartbeats_stop_crashes(served, runs):
    entries = read_yaml(NOTIFICATIONS)["automations"]
    (automation,) = [
        entry for entry in entries if "prefect.flow-run.heartbeat" in entry["trigger"].get("after", [])
    ]
    patience = automation["trigger"]["within"]
    automation["trigger"]["within"] = 10
    apply_automations(served.client, [automation])
    try:
        silent, alive, ended = (runs(Pending(), Running()) for _ in range(3))
        for run in (silent, alive, ended):
            beat(served, run)
        served.client.set_flow_run_state(ended, Completed(), force=True)

        def crashed() -> bool:
            beat(served, alive)
            return names(served.client, silent) == ["Crashed"]

        until(crashed, 60, "the silent run to crash")
        assert names(served.client, alive, ended) == ["Running", "Completed"]
    finally:
        automation["trigger"]["within"] = patience
        apply_automations(served.client, [automation])
