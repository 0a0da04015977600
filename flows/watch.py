"""Flow ``watch``: sends an alert when something does not happen, or is about to be lost.

No run trained successfully, or the model in production has no second copy: neither is a run that failed, so
nothing else tells of it. Drift is noticed by flow ``score``, and that this flow itself does not run by the
server (``conf/notifications.yaml``).
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas import State
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Completed

from tuneline.core.repository.dvc import default_remote
from tuneline.core.repository.worktrees import why_not_in_dvc_remote
from tuneline.core.runtime.terminal import visible
from tuneline.core.settings import load_settings
from tuneline.operations.alerts import send_if_due
from tuneline.operations.promotion.registry import Registry
from tuneline.operations.runs.repository import Repository

TRAIN_FLOW = "train"
"""Name of the flow whose silence is an alert."""
COPIED_WITHIN = timedelta(hours=1)
"""A model that is younger may still be pushed."""


def runs_silent(client: SyncPrefectClient, hours: float, now: datetime) -> str | None:
    """Return that no run of flow ``train`` has succeeded for so long, or since it was deployed; else None."""
    train = FlowFilter(name=FlowFilterName(any_=[TRAIN_FLOW]))
    succeeded = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.COMPLETED]))
    )
    runs = client.read_flow_runs(
        flow_filter=train, flow_run_filter=succeeded, sort=FlowRunSort.END_TIME_DESC, limit=1
    )
    times = [run.end_time for run in runs if run.end_time]
    if not times:
        times = [deployed.created for deployed in client.read_flows(flow_filter=train) if deployed.created]
    if not times or now - times[0] < timedelta(hours=hours):
        return None
    return f"no run of flow {TRAIN_FLOW} has succeeded since {times[0]:%Y-%m-%d %H:%M} UTC"


def production_without_copy(registry: Registry, now: datetime) -> str | None:
    """Return why the DVC remote cannot restore the model in production; ``None`` without a DVC remote."""
    root = registry.repository.root
    version = registry.production()
    if version is None or not default_remote(root):
        return None
    trained = int(registry.repository.git("show", "--no-patch", "--format=%ct", version.commit))
    if now - datetime.fromtimestamp(trained, UTC) < COPIED_WITHIN:
        return None
    reason = why_not_in_dvc_remote(root, version.commit)
    if reason is None:
        return None
    return f"{version.name}, which is in production, has no second copy: {reason}"


@flow(name="watch", persist_result=False)
def watch() -> State[Any]:
    """Send the alerts that are due. The state is named Alert while there is one, and says what is wrong."""
    # settings
    repository = Repository.here(get_run_logger().warning)
    settings = load_settings(repository.root)
    limits = settings.alerts
    now = datetime.now(UTC)

    # the present state of origin
    registry = Registry(repository)
    registry.fetch_if_possible()

    # the alerts
    with get_client(sync_client=True) as client:
        alerts = {
            "runs-silent": runs_silent(client, limits.runs_silent_hours, now),
            "production-without-copy": production_without_copy(registry, now),
        }
    messages = []
    for name, alert in alerts.items():
        record = repository.state / "alerts" / f"{name}.json"
        if alert is None:
            record.unlink(missing_ok=True)
            continue
        messages.append(alert)
        send_if_due(
            record,
            name,
            limits.repeat_hours,
            event="tuneline.watch.alert",
            resource={"prefect.resource.id": f"tuneline.watch.{name}"},
            payload={"alert": name, "message": visible(alert)},
        )

    name = "Alert" if messages else "Completed"
    hold = registry.on_hold()
    if hold:
        messages.append(hold)
    return Completed(name=name, message=visible("; ".join(messages)) or "Nothing is wrong.")
