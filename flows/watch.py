"""Flow ``watch``: sends an alert when nothing happens where something should.

No run trained successfully, the model in production is old, or files wait to be scored or are never read: none of that is a run that
failed, so nothing else tells of it. That this flow itself does not run is noticed by the server (``conf/notifications.yaml``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas import State
from prefect.client.schemas.filters import FlowFilter, FlowFilterName, FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.sorting import FlowRunSort
from prefect.states import Completed

from flows.alerts import send_if_due, send_if_over
from flows.inbox import Outbox, is_data, unread, unscored
from flows.ingestion.known import ending_of
from flows.promotion.registry import Registry
from flows.runs.repository import Repository
from flows.settings import Alerts, Scoring, Settings, load_settings
from tuneline.core.terminal import visible

TRAIN = "train"
"""Name of the flow whose silence is an alert."""


@dataclass(frozen=True)
class Condition:
    """The state of one thing that is watched.

    Attributes:
        resource: Id of the event's resource.
        subject: What the alert is about: another subject is another alert.
        message: The state in words, for people.
        age: Hours to compare with the limit; ``None`` if nothing can be too old.
        limit: Hours beyond which it is an alert; ``None`` for no alert.
    """

    event: str
    resource: str
    subject: str
    message: str
    age: float | None
    limit: float | None

    @property
    def alert(self) -> bool:
        """True if the limit is exceeded."""
        return self.age is not None and self.limit is not None and self.age > self.limit


def runs_silent(client: SyncPrefectClient, limit: float | None, now: datetime) -> Condition:
    """Return how long ago a run of flow ``train`` last succeeded; since its deployment, if the server knows of none."""
    of_flow = FlowFilter(name=FlowFilterName(any_=[TRAIN]))
    succeeded = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.COMPLETED])))
    runs = client.read_flow_runs(flow_filter=of_flow, flow_run_filter=succeeded, sort=FlowRunSort.END_TIME_DESC, limit=1)
    deployed = [flow.created for flow in client.read_flows(flow_filter=of_flow)]
    if last := next((run.end_time for run in runs if run.end_time), None):
        age = _hours(last, now)
        message = f"the last successful run of flow {TRAIN} ended {spell(age)} ago"
    elif created := next((created for created in deployed if created), None):
        age = _hours(created, now)
        message = f"no run of flow {TRAIN} has succeeded in the {spell(age)} since its deployment"
    else:
        age, message = None, f"flow {TRAIN} is not deployed"
    return Condition("tuneline.runs.silent", f"tuneline.runs.{TRAIN}", TRAIN, message, age, limit)


def production_old(registry: Registry, stage: str, limit: float | None, now: datetime) -> Condition:
    """Return the age of the model in production, since the commit of the run that trained it.

    The date of its promotion would make a model that a rollback brought back a new one.
    """
    event, resource = "tuneline.production.old", f"tuneline.production.{registry.artifact}"
    version = registry.in_stage(stage)
    if version is None:
        return Condition(event, resource, "", f"no model is in {stage}", None, limit)
    trained = int(registry.repository.git("show", "--no-patch", "--format=%ct", version.commit))
    age = _hours(datetime.fromtimestamp(trained, UTC), now)
    message = f"{registry.artifact} {version.name}, which is in {stage}, was trained {spell(age)} ago"
    return Condition(event, resource, version.name, message, age, limit)


def scoring_behind(repository: Repository, scoring: Scoring, limit: float | None, now: datetime) -> Condition:
    """Return how long the oldest file of the inbox has waited to be scored; a refused file does not wait."""
    event, resource = "tuneline.scoring.behind", "tuneline.scoring.inbox"
    outbox = Outbox(repository.root / scoring.outbox, repository.state / "scoring")
    waiting = unscored(repository.root / scoring.inbox, outbox)
    arrived = {one.name: since for one in waiting if (since := _arrival(one.path))}
    if not arrived:
        return Condition(event, resource, "inbox", "no file waits to be scored", None, limit)
    oldest = min(arrived, key=lambda name: arrived[name])
    age = _hours(arrived[oldest], now)
    more = f", and {len(arrived) - 1} more" if len(arrived) > 1 else ""
    return Condition(event, resource, "inbox", f"{oldest} has waited to be scored for {spell(age)}{more}", age, limit)


def files_unread(repository: Repository, settings: Settings, now: datetime) -> Condition:
    """Return how long files, links and others that are never read have been in the inbox and the drop folders."""
    event, resource = "tuneline.inbox.unread", "tuneline.scoring.inbox"
    sources = {source.folder: ending_of for source in settings.ingest.sources if source.folder}
    folders: dict[Path, Callable[[str], object]] = {settings.scoring.inbox: is_data, **sources}
    found = {
        f"{folder}: {problem}": since
        for folder, reads in folders.items()
        for path, problem in unread(repository.root / folder, reads).items()
        if (since := _arrival(path))
    }
    age, limit = max((_hours(since, now) for since in found.values()), default=None), settings.alerts.scoring_behind_hours
    if not found:
        return Condition(event, resource, "inbox", "the inboxes have only files that are read", None, limit)
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return Condition(event, resource, "inbox", f"{min(found, key=lambda one: found[one])}, so it is never read{more}", age, limit)


def _arrival(path: Path) -> datetime | None:
    """Return when a file came into its folder; ``None`` if it is gone.

    Its modification time may be that of a copied original, so the later change of its inode counts.
    """
    try:
        return datetime.fromtimestamp(path.lstat().st_ctime, UTC)
    except OSError:
        return None


def _hours(since: datetime, now: datetime) -> float:
    return (now - since).total_seconds() / 3600


def spell(hours: float) -> str:
    """Return a time in words: hours up to three days, then days."""
    if hours < 1:
        return "less than an hour"
    number, unit = (int(hours), "hour") if hours < 72 else (int(hours / 24), "day")
    return f"{number} {unit}{'' if number == 1 else 's'}"


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
    unread_files = files_unread(repository, settings, now)
    return _report([silent, old, behind, unread_files], repository.state / "alerts", limits)


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
