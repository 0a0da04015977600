"""Flow ``watch``: sends an alert when nothing happens where something should.

No run trained successfully, the model in production is old, or files wait to be scored: none of that is a run that failed, so nothing
else tells of it. That this flow itself does not run is noticed by the server (``conf/notifications.yaml``).
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.orchestration import get_client
from prefect.client.schemas import State
from prefect.states import Completed

from flows.alerts.conditions import Condition, production_old, runs_silent, scoring_behind
from flows.alerts.events import send_if_due, send_if_over
from flows.promotion.registry import Registry
from flows.runs.repository import Repository
from flows.settings import load_settings
from flows.settings.alerts import Alerts
from tuneline.terminal import visible

RESOLVED = "tuneline.alert.resolved"
"""Event after an alert whose reason is over."""


@flow(name="watch", persist_result=False)
def watch() -> State[Any]:
    """Send the alerts that are due. The state is named Alert while there is one, and says what is wrong."""
    repository = Repository.here()
    settings = load_settings(repository.root)
    limits, now = settings.alerts, datetime.now(UTC)
    registry = Registry(repository, settings.promotion.artifact)
    for message in registry.fetch_if_possible():
        get_run_logger().warning(message)
    with get_client(sync_client=True) as client:
        silent = runs_silent(client, limits.runs_silent_hours, now)
    days = limits.production_old_days
    old = production_old(registry, settings.promotion.stage, days and days * 24, now)
    behind = scoring_behind(repository, settings.scoring, limits.scoring_behind_hours, now)
    return _report([silent, old, behind], repository.state / "alerts", limits)


def _report(conditions: list[Condition], records: Path, limits: Alerts) -> State[Any]:
    for one in conditions:
        record, resource = records / f"{one.event}.json", {"prefect.resource.id": one.resource, "tuneline.subject": one.subject}
        payload = {"alert": one.event, "message": visible(one.message), "hours": one.age, "limit_hours": one.limit}
        if one.alert:
            send_if_due(record, one.subject, limits.repeat_hours, event=one.event, resource=resource, payload=payload)
        else:
            send_if_over(record, event=RESOLVED, resource=resource, payload=payload)
    alerts = [one.message for one in conditions if one.alert]
    message = visible("; ".join(alerts or [one.message for one in conditions]))  # not capitalized: it may begin with a file name
    return Completed(name="Alert" if alerts else "Completed", message=message)
