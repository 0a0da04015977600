"""Makes a server that was away wait again for the heartbeats of runs; ``python -m flows.server.heartbeats`` at a worker's start."""

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
"""After so much of it a run has crashed (flows/server/automations.py)."""
FLOWS = ["train", "score"]
"""Names of the flows whose runs are watched."""
_UNDER_WAY = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]


def expect_heartbeats(client: SyncPrefectClient) -> list[FlowRun]:
    """Makes the server wait for a heartbeat of every run that it takes to be under way, and returns them.

    A server that was away for longer than it would have waited forgets that it did. A run that ended with it would be Running
    for ever, and the deployment, which runs one at a time, would never run again. So each run is given one heartbeat here; those
    that are alive send the next themselves.
    """
    of_flows = FlowFilter(name=FlowFilterName(any_=FLOWS))
    under_way = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_UNDER_WAY)))
    runs = client.read_flow_runs(flow_filter=of_flows, flow_run_filter=under_way)
    silent = [run for run in runs if run.state is not None and datetime.now(UTC) - run.state.timestamp > SILENCE]
    names = {flow.id: flow.name for flow in client.read_flows(flow_filter=of_flows)}
    events = [_heartbeat(run, names[run.flow_id]).model_dump(mode="json") for run in silent]
    client.request("POST", "/events", json=events).raise_for_status()
    return silent


def _heartbeat(run: FlowRun, flow: str) -> Event:
    """As the run itself sends it."""
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
    """Does it, and says for which runs. Where no server answers nothing is done: the worker will say so itself."""
    if get_current_settings().api.url is None:  # Prefect would start a server of its own to ask it
        return
    try:
        with get_client(sync_client=True) as client:
            for run in expect_heartbeats(client):
                print(
                    f"The server takes run {run.name} to be under way. Without a heartbeat in {SILENCE.seconds} s it crashed.", flush=True
                )
    except httpx.HTTPError as error:
        print(f"The server was not asked for runs that are under way: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
