"""Runs that crashed are started again, by one process beside the server.

It is ``python -m tuneline.operations.server.crashes``; ``make schedule`` does the same itself. Prefect's
automations in ``conf/notifications.yaml`` mark a run as crashed whose heartbeats have stopped; a worker or
the run itself reports other crashes. A run of a deployment that was started so often without an end has
failed.
"""

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterEndTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.states import AwaitingRetry, Failed, Running

from tuneline.core.runtime.terminal import say, visible

LOOK = 10.0
"""Seconds between two looks."""
SETTLED = timedelta(seconds=60)
"""A crash is left alone for so long.

Prefect's worker reports some of them twice, the second time late. A run whose machine was asleep sends
heartbeats again.
"""
FORGOTTEN = timedelta(days=30)
"""Runs that crashed before are left alone."""
CLOCKS = timedelta(days=1)
"""Largest difference of the clocks of two machines."""
ATTEMPTS = 4
"""Attempts of a run, the first one included."""
RESTARTED = "Restarted after a crash."
ALIVE = "It was asleep, and not dead: it sends heartbeats again."


def main() -> None:
    """Look until ended, at the server of ``PREFECT_API_URL``."""
    with get_client(sync_client=True) as client:
        while True:
            restart_crashed_runs(client)
            time.sleep(LOOK)


def restart_crashed_runs(client: SyncPrefectClient) -> None:
    """Start each crashed run again, or let it fail. A server that does not answer is asked again later."""
    now = datetime.now(UTC)
    crashed = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CRASHED])),
        deployment_id=FlowRunFilterDeploymentId(is_null_=False),
        end_time=FlowRunFilterEndTime(after_=now - FORGOTTEN),
    )
    try:
        for run in client.read_flow_runs(flow_run_filter=crashed):
            if run.state is None or now - run.state.timestamp < SETTLED:
                continue
            if _is_alive(client, run.id, run.state.timestamp):
                client.set_flow_run_state(run.id, Running(message=ALIVE), force=True)
                continue
            history = client.read_flow_run_states(run.id)
            restarts = sum(state.message == RESTARTED for state in history)
            if restarts + 1 < ATTEMPTS:
                client.set_flow_run_state(run.id, AwaitingRetry(message=RESTARTED))
            else:
                # Failed, and not crashed: people are told of a run that failed.
                message = f"It crashed {ATTEMPTS} times. {run.state.message or ''}"
                client.set_flow_run_state(run.id, Failed(message=message), force=True)
    except Exception as error:
        say(visible(f"Crashed runs cannot be looked for: {type(error).__name__}: {error}"), error=True)


def _is_alive(client: SyncPrefectClient, run: UUID, crash: datetime) -> bool:
    """Return True if a run has sent a heartbeat since it was marked as crashed."""
    last_heartbeat = {
        "event": {"name": ["prefect.flow-run.heartbeat"]},
        "resource": {"id": [f"prefect.flow-run.{run}"]},
        # Its clock may be another.
        "occurred": {"since": str(crash - CLOCKS), "until": str(crash + CLOCKS)},
    }
    body = {"filter": last_heartbeat, "limit": 1}
    answer = client.request("POST", "/events/filter", json=body).raise_for_status()
    received = [datetime.fromisoformat(event["received"]) for event in answer.json()["events"]]
    return bool(received) and received[0] > crash


if __name__ == "__main__":
    main()
