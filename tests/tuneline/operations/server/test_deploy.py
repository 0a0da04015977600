"""What is deployed is independent of the machine that deploys, and of the machines that run it."""

import contextlib
import json
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import pytest
from prefect.blocks.notifications import CustomWebhookNotificationBlock
from prefect.client.schemas.actions import DeploymentUpdate, WorkPoolUpdate
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.states import Completed, Running

from tests.flows.prefect_server import LOGIN, until
from tuneline.core.params.loading import read_yaml
from tuneline.operations.server.deploy import NOTIFICATIONS, POOL, apply_automations, deploy

AUTOMATIONS = [
    "tuneline: train when new rows were committed",
    "tuneline: tell of a run that failed",
]


@pytest.fixture
def deployed(served):
    """The deployments of the server, which are as before after the test."""
    found = {one.name: one for one in served.client.read_deployments()}
    yield found
    for one in served.client.read_deployments():
        served.client.update_deployment(
            one.id, DeploymentUpdate(paused=False, work_queue_name=found[one.name].work_queue_name)
        )
        for schedule in one.schedules:
            served.client.update_deployment_schedule(one.id, schedule.id, active=True)
    served.client.update_work_pool(POOL, WorkPoolUpdate(is_paused=False))
    for name in AUTOMATIONS:
        for automation in served.client.read_automations_by_name(name):
            served.client.delete_automation(automation.id)
    deploy(served.env)


def save_address(served, url: str) -> None:
    content = {"title": "{{subject}}", "message": "{{body}}"}
    block = CustomWebhookNotificationBlock(name="tests", url=url, method="POST", json_data=content)
    with temporary_settings({PREFECT_API_URL: served.api, PREFECT_API_AUTH_STRING: LOGIN}):
        block.save("people", overwrite=True)


def test_what_is_paused_stays_paused(served, deployed):
    save_address(served, "http://127.0.0.1:9")
    deploy(served.env)
    before = {one.name: one for one in served.client.read_deployments()}
    nightly, scoring, cleaning = (before[name] for name in ("train-nightly", "score-hourly", "clean-weekly"))
    served.client.update_deployment_schedule(nightly.id, nightly.schedules[0].id, active=False)
    served.client.update_deployment(scoring.id, DeploymentUpdate(paused=True))
    served.client.update_work_pool(POOL, WorkPoolUpdate(is_paused=True))
    for name in AUTOMATIONS:
        (automation,) = served.client.read_automations_by_name(name)
        served.client.request("PATCH", f"/automations/{automation.id}", json={"enabled": False})

    deploy(served.env)

    after = {one.name: one for one in served.client.read_deployments()}
    assert [
        after[name].schedules[0].active for name in ("train-nightly", "score-hourly", "clean-weekly")
    ] == [False, True, True]
    assert [after[one.name].paused for one in (nightly, scoring, cleaning)] == [False, True, False]
    for name in AUTOMATIONS:
        assert [one.enabled for one in served.client.read_automations_by_name(name)] == [False]
    assert served.client.read_work_pool(POOL).is_paused


def test_messages_go_to_the_address_and_alarm_nobody_by_their_words(served, deployed):
    with receiver() as (url, received):
        save_address(served, url)
        deploy(served.env)
        event = {
            "event": "tuneline.model.rejected",
            "id": str(uuid4()),
            "occurred": datetime.now(UTC).isoformat(),
            "resource": {"prefect.resource.id": "tuneline.model.onnx"},
            "payload": {"version": "v1", "reason": "worse on <!channel>"},
        }
        served.client.request("POST", "/events", json=[event]).raise_for_status()
        message = until(lambda: received, 60, "the message")[0]
    assert message == {"title": "tuneline.model.rejected: v1", "message": "worse on &lt;!channel>"}


SILENCE = {
    "tuneline: tell that no training succeeded": ("train-on-demand", [Completed(name="NothingNew")]),
    "tuneline: tell that nothing is watched": ("score-hourly", [Running(), Completed()]),
}
"""Deployments whose silence is told, with the states of a run that ends it."""


@pytest.mark.promise("no-worker")
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_silence_is_told_before_the_first_run_and_after_the_last(served, deployed):
    entries = [entry for entry in read_yaml(NOTIFICATIONS)["automations"] if entry["name"] in SILENCE]
    for entry in entries:
        entry["trigger"]["within"] = 45
    subjects = {entry["actions"][0]["subject"] for entry in entries}
    with receiver() as (url, received):

        def all_are_told() -> bool:
            return {message["title"] for message in received} == subjects

        save_address(served, url)
        apply_automations(served.client, entries)
        until(all_are_told, 120, "messages before the first run")

        received.clear()
        last = time.monotonic() + 90
        while time.monotonic() < last:
            for name, states in SILENCE.values():
                run = served.client.create_flow_run_from_deployment(deployed[name].id)
                for state in states:
                    served.client.set_flow_run_state(run.id, state, force=True)
            time.sleep(2)
        assert not received
        until(all_are_told, 120, "messages after the last run")


@contextlib.contextmanager
def receiver():
    """Serve a web hook; yield its address and the list of what it gets."""
    received = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as hook:
        threading.Thread(target=hook.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{hook.server_port}", received
        finally:
            hook.shutdown()
