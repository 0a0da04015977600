"""Make a server that was down wait for the heartbeats of runs again; a worker runs ``python -m flows.server.heartbeats`` at its start."""

import sys
from datetime import UTC, datetime, timedelta

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events import Event, RelatedResource, Resource
from prefect.settings import get_current_settings

from flows.server.worker import HEARTBEAT

SILENCE = timedelta(seconds=3 * HEARTBEAT)
"""Time without a heartbeat after which a run counts as crashed (flows/server/automations.py)."""
FLOWS = ["train", "score"]
"""Names of the flows whose runs are monitored."""
_ACTIVE = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]


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


def main() -> None:
    """Send the heartbeats and print the runs. If no server answers, do nothing: the worker will report that itself."""
    if get_current_settings().api.url is None:  # Prefect would start a temporary server
        return
    try:
        with get_client(sync_client=True) as client:
            for run in expect_heartbeats(client):
                print(
                    f"The server lists run {run.name} as active. After {SILENCE.seconds} s without a heartbeat it crashed.",
                    flush=True,
                )
    except httpx.HTTPError as error:
        print(f"The server could not be asked for active runs: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
