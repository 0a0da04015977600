"""Flow ``watch``: sends an alert when nothing happens where something should, or when something is about to be lost.

No run trained successfully, the model in production is old or has no second copy, files wait to be scored or
ingested or are never read, a branch was rewritten, or a disk fills up: none of that is a run that failed, so
nothing else tells of it. That this flow itself does not run is noticed by the server
(``conf/notifications.yaml``).
"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
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
from prefect.settings import get_current_settings
from prefect.states import Completed
from pydantic import TypeAdapter, ValidationError
from rich.filesize import decimal
from sqlalchemy import make_url

from flows.alerts import send_if_due, send_if_over
from flows.inbox import Outbox, is_data, unread, unscored
from flows.ingestion.known import ending_of
from flows.promotion.changes import tell_of_changes
from flows.promotion.registry import PATIENCE, Registry
from flows.runs.commits import fetch_branch
from flows.runs.repository import Repository
from tuneline.core.atomic_files import write_json
from tuneline.core.terminal import visible
from tuneline.project.branches import parted, rewritten
from tuneline.project.drop_folder import labelled_files
from tuneline.project.dvc import cache_folder, default_remote, remote_folder
from tuneline.project.repo import why_no_gate, why_not_in_dvc_remote
from tuneline.project.worktrees import GitError
from tuneline.settings import Alerts, Scoring, Settings, load_settings

TRAIN_FLOW = "train"
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
        ahead: The hours are those until something happens: an alert below the limit.
    """

    event: str
    resource: str
    subject: str
    message: str
    age: float | None
    limit: float | None
    ahead: bool = False

    @property
    def alert(self) -> bool:
        """True if the limit is exceeded."""
        if self.age is None or self.limit is None:
            return False
        return self.age < self.limit if self.ahead else self.age > self.limit


def runs_silent(client: SyncPrefectClient, limit: float | None, now: datetime) -> Condition:
    """Return how long ago a run of flow ``train`` last succeeded; since its deployment, if the server knows of none."""
    of_flow = FlowFilter(name=FlowFilterName(any_=[TRAIN_FLOW]))
    succeeded = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.COMPLETED]))
    )
    runs = client.read_flow_runs(
        flow_filter=of_flow, flow_run_filter=succeeded, sort=FlowRunSort.END_TIME_DESC, limit=1
    )
    deployed = [flow.created for flow in client.read_flows(flow_filter=of_flow)]
    if last := next((run.end_time for run in runs if run.end_time), None):
        age = _hours(last, now)
        message = f"the last successful run of flow {TRAIN_FLOW} ended {spell(age)} ago"
    elif created := next((created for created in deployed if created), None):
        age = _hours(created, now)
        message = f"no run of flow {TRAIN_FLOW} has succeeded in the {spell(age)} since its deployment"
    else:
        age, message = None, f"flow {TRAIN_FLOW} is not deployed"
    return Condition("tuneline.runs.silent", f"tuneline.runs.{TRAIN_FLOW}", TRAIN_FLOW, message, age, limit)


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


def production_one_copy(registry: Registry, stage: str, limit: float | None, now: datetime) -> Condition:
    """Return how long the model in production has been without a copy in the DVC remote; of a repository without a remote, nothing."""
    root, version = registry.repository.root, registry.in_stage(stage)
    age, message = None, f"no copy of what is in {stage} is asked for"
    if version and default_remote(root):
        why = why_not_in_dvc_remote(root, registry.artifact, version.commit)
        age = production_old(registry, stage, None, now).age if why else None
        message = (
            f"{registry.artifact} {version.name}, which is in {stage}, has"
            f" {f'no second copy: {why}' if why else 'a second copy'}"
        )
    return Condition(
        "tuneline.production.one_copy", f"tuneline.production.{registry.artifact}", stage, message, age, limit
    )


def stores(root: Path) -> dict[str, Path]:
    """Return what grows with each night and is on a disk of this machine, by what it is."""
    url = get_current_settings().server.database.connection_url
    database = make_url(url.get_secret_value()) if url else None
    file = database.database if database and database.get_backend_name() == "sqlite" else None
    found = {
        "DVC's cache": cache_folder(root),
        "the DVC remote": remote_folder(root),
        "Prefect's database": file and Path(file),
    }
    return {what: path for what, path in found.items() if path and path.exists()}


def folder_size(store: Path) -> int:
    """Return the bytes of the files in a folder, or of a database with the files beside it."""
    size = 0
    for path in store.rglob("*") if store.is_dir() else store.parent.glob(f"{store.name}*"):
        with suppress(FileNotFoundError):  # removed meanwhile
            size += path.lstat().st_size
    return size


DAY = 86400.0
_SIZES = TypeAdapter(dict[float, dict[str, int]])


def weekly_growth(record: Path, sizes: Mapping[str, int], now: float) -> dict[str, float]:
    """Record sizes once a day, and return by how much each grew in the last week, or since it was recorded, but a day at least."""
    known: dict[float, dict[str, int]] = {}
    with suppress(FileNotFoundError, ValidationError):
        known = {
            time: of
            for time, of in _SIZES.validate_json(record.read_bytes()).items()
            if now - 8 * DAY <= time <= now
        }
    if now - max(known, default=0) >= DAY:
        known[now] = dict(sizes)
        write_json(record, {str(time): of for time, of in known.items()})
    since = {
        what: min((time for time, of in known.items() if what in of and now - time >= DAY), default=None)
        for what in sizes
    }
    return {
        what: (sizes[what] - known[time][what]) / (now - time) * 7 * DAY
        for what, time in since.items()
        if time
    }


def disk_filling(repository: Repository, limit: float | None, now: datetime) -> Condition:
    """Return the sizes of what grows, and the hours until the first of its disks is full at the rate of the last week."""
    places = stores(repository.root)
    sizes = {what: folder_size(path) for what, path in places.items()}
    growth = weekly_growth(repository.state / "sizes.json", sizes, now.timestamp())
    disks = {what: path.stat().st_dev for what, path in places.items()}
    rates = {
        what: sum(growth.get(other, 0) for other in places if disks[other] == disks[what]) for what in places
    }
    left = {
        what: shutil.disk_usage(path).free / rates[what] * 7 * 24
        for what, path in places.items()
        if rates[what] > 0
    }
    first = min(left, key=left.__getitem__, default="")
    hours = left.get(first)
    sizes_in_words = (
        f"{what} {decimal(size)}{f' ({growth[what] / 1e6:+,.1f} MB a week)' if what in growth else ''}"
        for what, size in sizes.items()
    )
    when = f"the disk of {first} is full in {spell(hours)} at this rate: " if hours is not None else ""
    return Condition(
        "tuneline.disk.filling",
        "tuneline.disk.stores",
        first,
        f"{when}{', '.join(sizes_in_words)}",
        hours,
        limit,
        ahead=True,
    )


def scoring_behind(repository: Repository, scoring: Scoring, limit: float | None, now: datetime) -> Condition:
    """Return how long the oldest file of the inbox has waited to be scored; a refused file does not wait."""
    event, resource = "tuneline.scoring.behind", "tuneline.scoring.inbox"
    outbox = Outbox(repository.root / scoring.outbox, repository.state / "scoring")
    waiting = unscored(repository.root / scoring.inbox, outbox)
    age, message = _oldest({file.name: file.path for file in waiting}, "has waited to be scored for", now)
    return Condition(event, resource, "inbox", message or "no file waits to be scored", age, limit)


def ingest_behind(repository: Repository, settings: Settings, now: datetime) -> Condition:
    """Return how long the oldest labelled file has waited in a drop folder: no run of ``ingest`` reads it, or its rows are too few."""
    folders = [source.folder for source in settings.ingest.sources if source.folder]
    waiting = {
        f"{folder}/{path.name}": path
        for folder in folders
        for path in labelled_files(repository.root / folder)
    }
    age, message = _oldest(waiting, "has waited to be ingested for", now)
    limit = settings.alerts.ingest_behind_hours
    return Condition(
        "tuneline.ingest.behind",
        "tuneline.ingest.sources",
        "files",
        message or "no labelled file waits",
        age,
        limit,
    )


def branch_conditions(repository: Repository, branch: str, limit: float | None) -> list[Condition]:
    """Return whether the branch that gets new rows was rewritten in ``origin``, and whether that of this clone has parted from it."""
    if repository.has_remote():
        try:
            fetch_branch(replace(repository, patience=PATIENCE), branch)
        except GitError as error:
            get_run_logger().warning("%s of origin is not known: %s", branch, error)
    found = {"rewritten": rewritten(repository.root, branch), "parted": parted(repository.root, branch)}
    usual = {
        "rewritten": f"{branch} of origin has its whole history",
        "parted": f"{branch} is the same in origin, or follows it",
    }
    return [
        Condition(
            f"tuneline.branch.{name}",
            f"tuneline.branch.{branch}",
            branch,
            f"{problem.message}. {problem.hint}" if problem else usual[name],
            problem.age_hours if problem else None,
            limit,
        )
        for name, problem in found.items()
    ]


def files_unread(repository: Repository, settings: Settings, now: datetime) -> Condition:
    """Return how long files, links and others that are never read have been in the inbox and the drop folders."""
    folders: list[tuple[Path, Callable[[str], object]]] = [(settings.scoring.inbox, is_data)]
    folders += [(source.folder, ending_of) for source in settings.ingest.sources if source.folder]
    found = {
        f"{folder}: {what}": path
        for folder, reads in folders
        for path, what in unread(repository.root / folder, reads).items()
    }
    age, message = _oldest(found, "and has been there for", now)
    limit = settings.alerts.scoring_behind_hours
    return Condition(
        "tuneline.inbox.unread",
        "tuneline.scoring.inbox",
        "inbox",
        message or "all files in inboxes are read",
        age,
        limit,
    )


def _oldest(files: Mapping[str, Path], what: str, now: datetime) -> tuple[float | None, str]:
    """Return how long the oldest of some files has been in its folder, and say so; ``None`` and no words if there is none."""
    arrived = {name: since for name, path in files.items() if (since := _arrival(path))}
    if not arrived:
        return None, ""
    oldest = min(arrived, key=lambda name: arrived[name])
    age, more = _hours(arrived[oldest], now), f", and {len(arrived) - 1} more" if len(arrived) > 1 else ""
    return age, f"{oldest} {what} {spell(age)}{more}"


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
    days, stage = limits.production_old_days, settings.promotion.stage
    old = production_old(registry, stage, days and days * 24, now)
    single = production_one_copy(registry, stage, limits.one_copy_hours, now)
    behind = scoring_behind(repository, settings.scoring, limits.scoring_behind_hours, now)
    unread_files = files_unread(repository, settings, now)
    filling = disk_filling(repository, limits.disk_full_days and limits.disk_full_days * 24, now)
    labelled = ingest_behind(repository, settings, now)
    branches = branch_conditions(repository, settings.ingest.branch, limits.branch_hours)
    changed = tell_of_changes(registry, stage)
    conditions = [silent, old, single, behind, unread_files, labelled, *branches, filling]
    state = _report(conditions, repository.state / "alerts", limits)
    ungated, hold = why_no_gate(repository.root, registry.tags(), stage), registry.tags().hold(stage)
    state.message = visible("; ".join(filter(None, [state.message, *changed, ungated, hold])))
    return state


def _report(conditions: list[Condition], records: Path, limits: Alerts) -> State[Any]:
    for condition in conditions:
        record = records / f"{condition.event}.json"
        resource = {"prefect.resource.id": condition.resource, "tuneline.subject": condition.subject}
        payload = {
            "alert": condition.event,
            "message": visible(condition.message),
            "hours": condition.age,
            "limit_hours": condition.limit,
        }
        if condition.alert:
            send_if_due(
                record,
                condition.subject,
                limits.repeat_hours,
                event=condition.event,
                resource=resource,
                payload=payload,
            )
        else:
            send_if_over(record, event=RESOLVED, resource=resource, payload=payload)
    alerts = [condition.message for condition in conditions if condition.alert]
    messages = alerts or [condition.message for condition in conditions]
    message = visible("; ".join(messages))  # not capitalized: it may begin with a file name
    return Completed(name="Alert" if alerts else "Completed", message=message)
