"""The automations of the flows: a run that crashed resumes, and a run without heartbeats has crashed.

``python -m flows.server.automations`` creates or updates them by name. A worker runs it with ``--expect-heartbeats`` at its start, so
that a server that was down waits for the heartbeats of runs again. The automation that trains on drift is in ``prefect.yaml``, with
the deployment that it starts.
"""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events import Event, RelatedResource, Resource
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.settings import get_current_settings

from flows.server.worker import HEARTBEAT
from tuneline.terminal import say

LONGEST_RUN = timedelta(days=30)
"""Longest run that is restarted after a crash. A server forgets what an automation waits for one minute after this time; without
a limit, one minute after the run began."""
SILENCE = timedelta(seconds=3 * HEARTBEAT)
"""Time without a heartbeat after which a run counts as crashed."""
FLOWS = ["train", "score", "watch"]
"""Names of the flows whose runs are monitored."""
_RUNS: dict[str, Any] = {
    "match": {"prefect.resource.id": "prefect.flow-run.*"},
    "match_related": {"prefect.resource.role": "flow", "prefect.resource.name": FLOWS},
    "for_each": {"prefect.resource.id"},
    "threshold": 1,
}
_ENDED = ["Completed", "Failed", "Cancelled", "Crashed", "TimedOut"]
_ACTIVE = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m flows.server.automations", description=__doc__)
    parser.add_argument("--expect-heartbeats", action="store_true", help="only make the server wait for heartbeats of active runs")
    if parser.parse_args().expect_heartbeats:
        print_expected_heartbeats()
        return
    with get_client(sync_client=True) as client:
        say("\n".join(apply(client, automations())))


def automations() -> list[AutomationCore]:
    """Return the automations that the server should have."""
    crashed = EventTrigger(
        **_RUNS,
        after={"prefect.flow-run.Running"},  # a run that crashes before it is running would crash again
        expect={"prefect.flow-run.Crashed"},
        posture=Posture.Reactive,
        within=LONGEST_RUN,
    )
    silent = EventTrigger(
        **_RUNS,
        after={"prefect.flow-run.heartbeat"},
        expect={"prefect.flow-run.heartbeat", *(f"prefect.flow-run.{state}" for state in _ENDED)},
        posture=Posture.Proactive,
        within=SILENCE,
    )
    return [
        AutomationCore(
            name="tuneline: pick up a crashed run",
            description="A run that crashed (its worker was killed, for example) resumes. Flow `train` limits the number of attempts.",
            trigger=crashed,
            actions=[ChangeFlowRunState(state=StateType.SCHEDULED, name="AwaitingRetry", message="Restarted after a crash.")],
        ),
        AutomationCore(
            name="tuneline: notice a run whose machine is gone",
            description="A run without three heartbeats has crashed, and neither it nor its worker can report that.",
            trigger=silent,
            actions=[ChangeFlowRunState(state=StateType.CRASHED, message="No heartbeat: the machine of this run is gone.")],
        ),
    ]


def apply(client: SyncPrefectClient, wanted: Sequence[AutomationCore]) -> list[str]:
    """Create the automations, replace those whose content differs, and return their names.

    An automation that is up to date is left alone: it knows for which runs it waits.
    """
    for automation in wanted:
        existing = client.read_automations_by_name(automation.name)
        same = [one for one in existing if _content(one) == _content(automation)]
        for outdated in existing:
            if outdated not in same[:1]:
                client.delete_automation(outdated.id)
        if not same:
            client.create_automation(automation)
    return [automation.name for automation in wanted]


def _content(automation: AutomationCore) -> dict[str, Any]:
    """Return the content to compare, without the ids that the server adds."""
    content = automation.model_dump(mode="json", include=set(AutomationCore.model_fields))
    return {**content, "trigger": _comparable(content["trigger"])}


def _comparable(trigger: dict[str, Any]) -> dict[str, Any]:
    sets: dict[str, Any] = {key: sorted(trigger[key]) for key in ("after", "expect", "for_each") if key in trigger}  # their order varies
    nested = {"triggers": [_comparable(one) for one in trigger["triggers"]]} if "triggers" in trigger else {}
    return {**trigger, **sets, **nested, "id": None}


def expect_heartbeats(client: SyncPrefectClient) -> list[FlowRun]:
    """Make the server wait for a heartbeat of every run that it lists as active, and return those runs.

    A server that was down for longer than ``SILENCE`` no longer waits for heartbeats. A run that ended meanwhile would be Running
    for ever, and its deployment, which runs one at a time, would never run again. So one heartbeat is sent for each run; runs that
    are alive send the next themselves.
    """
    of_flows = FlowFilter(name=FlowFilterName(any_=FLOWS))
    active = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_ACTIVE)))
    runs = client.read_flow_runs(flow_filter=of_flows, flow_run_filter=active)
    silent = [run for run in runs if run.state is not None and datetime.now(UTC) - run.state.timestamp > SILENCE]
    names = {flow.id: flow.name for flow in client.read_flows(flow_filter=of_flows)}
    events = [_heartbeat(run, names[run.flow_id]).model_dump(mode="json") for run in silent]
    client.request("POST", "/events", json=events).raise_for_status()
    return silent


def _heartbeat(run: FlowRun, flow: str) -> Event:
    """Return the event that the run itself would send."""
    return Event(
        event="prefect.flow-run.heartbeat",
        resource=Resource({"prefect.resource.id": f"prefect.flow-run.{run.id}", "prefect.resource.name": run.name}),
        related=[
            RelatedResource(
                {"prefect.resource.id": f"prefect.flow.{run.flow_id}", "prefect.resource.role": "flow", "prefect.resource.name": flow}
            )
        ],
    )


def print_expected_heartbeats() -> None:
    """Send the heartbeats and print the runs. If no server answers, print that: the worker reports it as well."""
    if get_current_settings().api.url is None:  # Prefect would start a temporary server
        return
    try:
        with get_client(sync_client=True) as client:
            for run in expect_heartbeats(client):
                say(f"The server lists run {run.name} as active. It crashes after {SILENCE.seconds} s without a heartbeat.")
    except httpx.HTTPError as error:
        say(f"The server could not be asked for active runs: {error}", error=True)


if __name__ == "__main__":
    main()
