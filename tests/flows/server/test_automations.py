from datetime import timedelta

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Completed, Pending, Running
from ruamel.yaml import YAML

from flows.server import automations
from flows.settings import load_settings
from tests.conftest import ROOT
from tests.flows.prefect_server import prefect_server, until

STAGES = YAML(typ="safe", pure=True).load(ROOT / "dvc.yaml")["stages"]


@pytest.fixture
def runs(served):
    """Runs of a deployment, each brought into a state by hand: none of them sends a heartbeat of its own."""
    deployment = served.client.read_deployment_by_name("train/train-nightly")
    made = []

    def make(*states):
        run = served.client.create_flow_run_from_deployment(deployment.id)
        made.append(run.id)
        for state in states:
            served.client.set_flow_run_state(run.id, state, force=True)
        return served.run(run.id)

    yield make
    for run in made:
        served.client.set_flow_run_state(run, Completed(), force=True)


def test_longest_possible_run_is_restarted_after_a_crash():
    settings = load_settings(ROOT)
    assert timedelta(minutes=sum(settings.policy(stage).timeout_minutes for stage in STAGES)) < automations.LONGEST_RUN


def heartbeats_of(served, run) -> list:
    wanted = {"filter": {"event": {"name": ["prefect.flow-run.heartbeat"]}, "resource": {"id": [f"prefect.flow-run.{run.id}"]}}}
    return served.client.request("POST", "/events/filter", json=wanted).json()["events"]


def test_heartbeats_are_sent_for_active_runs_only(served, runs, monkeypatch):
    monkeypatch.setattr(automations, "SILENCE", timedelta(0))
    going, waiting, over = runs(Pending(), Running()), runs(), runs(Running(), Completed())
    expected = {run.id for run in automations.expect_heartbeats(served.client)}
    assert going.id in expected
    assert not expected & {waiting.id, over.id}
    [event] = until(lambda: heartbeats_of(served, going), 60, "the heartbeat")
    assert event["related"][0]["prefect.resource.name"] == "train"


def test_recently_started_run_gets_no_heartbeat(served, runs):
    fresh = runs(Pending(), Running())
    assert fresh.id not in {run.id for run in automations.expect_heartbeats(served.client)}


def test_unreachable_server_is_reported_without_an_error(monkeypatch, capsys):
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        automations.print_expected_heartbeats()
    assert "The server could not be asked" in capsys.readouterr().err


@pytest.mark.slow  # a server of its own, and three heartbeats
@pytest.mark.timeout(400)
def test_silent_run_crashes_and_is_restarted(tmp_path, homes, bytecode, monkeypatch):
    """The server that the tests share forgets what it waits for too soon to notice silence."""
    monkeypatch.setattr(automations, "SILENCE", timedelta(0))
    with prefect_server(tmp_path / "home", PREFECT_SERVER_EVENTS_EXPIRED_BUCKET_BUFFER="PT60S") as served:
        deployment = served.client.read_deployment_by_name("train/train-nightly")
        run = served.client.create_flow_run_from_deployment(deployment.id).id
        for state in (Pending(), Running()):
            served.client.set_flow_run_state(run, state, force=True)
        automations.expect_heartbeats(served.client)
        for name in ("Crashed", "AwaitingRetry"):
            until(lambda name=name: [state for state in served.states(run) if state.name == name], 200, name)
