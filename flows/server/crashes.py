"""Runs that died: a run without heartbeats has crashed, and a run that crashed is started again.

The server looks at the states it has (``flows.server.api`` starts this), and reacts to no event. An event can
be lost, and a new server holds one back for a quarter of an hour if it follows another that only the old
server has seen. What counts are looks and not times: a server that was away or asleep, a busy database and
clocks that differ only make it wait longer.

Only runs of a deployment are watched: nobody could start another again. Their deployments have them send
heartbeats (prefect.yaml).
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas import filters
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.states import AwaitingRetry, Crashed, Failed

from tuneline.runtime.terminal import say

FLOWS = ["train", "score", "ingest", "watch", "clean"]
"""Names of the flows whose runs are started again after a crash."""
LOOK = 10.0
"""Seconds between two looks."""
SILENT = 9
"""Looks without change until a running run counts as crashed: three heartbeats."""
STARTING = 30
"""Looks without change until a pending run counts as crashed: a worker needs a while to start it."""
REPORTING = 3
"""Looks without change until a crashed run is started again.

Prefect's worker reports some crashes twice, the second time late.
"""
FORGOTTEN = timedelta(days=30)
"""Runs that crashed before are left alone."""
RESTARTS = 20
"""Restarts of one run, at most.

The flow ends itself sooner (``max_attempts``), if it can still be started.
"""
NO_HEARTBEAT = "No heartbeat: the machine of this run is gone."
RESTARTED = "Restarted after a crash."
_PATIENCE = {StateType.RUNNING: SILENT, StateType.PENDING: STARTING, StateType.CRASHED: REPORTING}


class _Sighting(NamedTuple):
    """What was seen of a run: its sign of life, and for how many looks that has been the same."""

    sign: tuple[UUID, ...]
    unchanged: int


class Watch:
    """What was seen of the runs so far."""

    def __init__(self, client: PrefectClient) -> None:
        self._client = client
        self._seen: dict[UUID, _Sighting] = {}

    async def look(self) -> None:
        """Look once: count for how many looks each run has been unchanged, and act where that is too long."""
        recently = filters.FlowRunFilterEndTime(after_=datetime.now(UTC) - FORGOTTEN)
        runs = await self._runs(StateType.RUNNING, StateType.PENDING)
        runs += await self._runs(StateType.CRASHED, ended=recently)

        seen = {}
        for run, state in runs:
            sign = await self._sign_of_life(run, state)
            before = self._seen.get(run.id)
            unchanged = 0
            if before is not None and before.sign == sign:
                unchanged = before.unchanged + 1
            seen[run.id] = _Sighting(sign, unchanged)
            if unchanged >= _PATIENCE[state.type]:
                await self._act(run, state)
        self._seen = seen

    async def _runs(
        self, *states: StateType, ended: filters.FlowRunFilterEndTime | None = None
    ) -> list[tuple[FlowRun, State]]:
        """Return the runs of deployments in one of some states."""
        flow_filter = filters.FlowFilter(name=filters.FlowFilterName(any_=FLOWS))
        flow_run_filter = filters.FlowRunFilter(
            state=filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=list(states))),
            deployment_id=filters.FlowRunFilterDeploymentId(is_null_=False),
            end_time=ended,
        )
        runs = await self._client.read_flow_runs(flow_filter=flow_filter, flow_run_filter=flow_run_filter)
        return [(run, run.state) for run in runs if run.state]

    async def _sign_of_life(self, run: FlowRun, state: State) -> tuple[UUID, ...]:
        """Return what changes while a run is alive: the ids of its state and of its last heartbeat.

        The heartbeat may be an earlier attempt's.
        """
        if not state.is_running():
            return (state.id,)
        now = datetime.now(UTC)
        last_heartbeat = {
            "event": {"name": ["prefect.flow-run.heartbeat"]},
            "resource": {"id": [f"prefect.flow-run.{run.id}"]},
            # Its clock may be another. The count that comes with the answer must stay short.
            "occurred": {"since": str(now - timedelta(days=1)), "until": str(now + timedelta(days=1))},
        }
        body = {"filter": last_heartbeat, "limit": 1}
        answer = await self._client.request("POST", "/events/filter", json=body)
        events = answer.raise_for_status().json()["events"]
        signs = [state.id]
        for event in events:
            signs.append(UUID(event["id"]))
        return tuple(signs)

    async def _act(self, run: FlowRun, state: State) -> None:
        """Start a run again, or give it up."""
        if not state.is_crashed():
            await self._client.set_flow_run_state(run.id, Crashed(message=NO_HEARTBEAT))
        history = await self._client.read_flow_run_states(run.id)
        if is_given_up(history, reported=state.is_crashed() and state.message != NO_HEARTBEAT):
            # Failed, and not crashed: people are told of a run that failed.
            message = f"Not started again, because it would crash again. {state.message or ''}"
            await self._client.set_flow_run_state(run.id, Failed(message=message), force=True)
        else:
            await self._client.set_flow_run_state(run.id, AwaitingRetry(message=RESTARTED))


def is_given_up(history: Sequence[State], *, reported: bool) -> bool:
    """Return True if a run that crashed is not started again: it would crash again.

    ``reported``: A worker or the run itself reported the crash. If the run never ran, it cannot be started.
    """
    ran = any(state.is_running() for state in history)
    return (reported and not ran) or restarts(history) >= RESTARTS


def restarts(history: Sequence[State]) -> int:
    """Return how often a run was started again after a crash.

    It is started once for each death, however often that was reported.
    """
    return sum(state.message == RESTARTED for state in history)


async def watch(client: PrefectClient) -> None:
    """Look until cancelled. A look that fails is not counted."""
    runs = Watch(client)
    while True:
        await asyncio.sleep(LOOK)
        try:
            await runs.look()
        except Exception as error:
            say(f"The server could not look at its runs: {type(error).__name__}: {error}", error=True)
