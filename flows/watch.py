"""Flow ``watch``: sends an alert when something does not happen, or is about to be lost.

No run trained successfully, the model in production is old or has no second copy, files wait to be scored or
ingested or are never read, a branch was rewritten, or a disk fills up: none of that is a run that failed, so
nothing else tells of it. That this flow itself does not run is noticed by the server
(``conf/notifications.yaml``).
"""

import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from prefect import flow, get_run_logger
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas import State
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterEndTime,
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
from tuneline.labels.drop_folder import labelled_files
from tuneline.messages import ServerError, messages
from tuneline.repository.branches import BranchProblem, parted, rewritten
from tuneline.repository.dvc import cache_folder, default_remote, remote_folder
from tuneline.repository.git import why_no_gate, why_not_in_dvc_remote
from tuneline.repository.worktrees import GitError
from tuneline.runtime.atomic_files import write_json
from tuneline.runtime.terminal import visible
from tuneline.settings import Alerts, Scoring, Settings, load_settings

SERVER_PATIENCE = 60.0
"""Seconds to wait for the server's answer about itself; it writes to its database first."""
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
        ahead: The age is the time until something happens: an alert below the limit.
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
        if self.ahead:
            return self.age < self.limit
        return self.age > self.limit


def runs_silent(client: SyncPrefectClient, limit: float | None, now: datetime) -> Condition:
    """Return how long ago a run of flow ``train`` last succeeded, or the flow was deployed, if none has."""
    of_flow = FlowFilter(name=FlowFilterName(any_=[TRAIN_FLOW]))
    succeeded = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.COMPLETED])),
        # A run that ended later than now ended while the clock was ahead: nobody knows when.
        end_time=FlowRunFilterEndTime(before_=now),
    )
    runs = client.read_flow_runs(
        flow_filter=of_flow, flow_run_filter=succeeded, sort=FlowRunSort.END_TIME_DESC, limit=1
    )
    ended = [run.end_time for run in runs if run.end_time]
    deployed = [flow.created for flow in client.read_flows(flow_filter=of_flow) if flow.created]

    age = None
    if ended:
        age = _hours(ended[0], now)
        message = f"the last successful run of flow {TRAIN_FLOW} ended {spell(age)} ago"
    elif deployed:
        age = _hours(deployed[0], now)
        message = f"no run of flow {TRAIN_FLOW} has succeeded in the {spell(age)} since its deployment"
    else:
        message = f"flow {TRAIN_FLOW} is not deployed"
    return Condition("tuneline.runs.silent", f"tuneline.runs.{TRAIN_FLOW}", TRAIN_FLOW, message, age, limit)


def server_unready(api: str) -> Condition:
    """Return what the server says about itself (flows/server/ready.py)."""
    hours = None
    try:
        answer = httpx.get(f"{api}/ready", timeout=SERVER_PATIENCE)
    except httpx.HTTPError as error:
        message = f"the server does not say if it is ready: {type(error).__name__}"
    else:
        message = "the server is ready"
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            message = f"the server is not ready: {answer.json()['message']}"
            hours = SERVER_PATIENCE / 3600
    return Condition("tuneline.server.unready", "tuneline.server.ready", "server", message, hours, limit=0.0)


def nobody_told() -> str | None:
    """Return why messages may reach nobody; ``None`` if the last one arrived."""
    api = get_current_settings().api
    password = api.auth_string.get_secret_value() if api.auth_string else None
    try:
        known = messages(api.url or "", password)
    except ServerError as error:
        return str(error)
    return f"{known.text} ({known.remedy})" if known.remedy else None


def production_old(registry: Registry, stage: str, limit: float | None, now: datetime) -> Condition:
    """Return the age of the model in production, since the commit of the run that trained it.

    The date of its promotion would make a model that a rollback brought back a new one.
    """
    event = "tuneline.production.old"
    resource = f"tuneline.production.{registry.artifact}"
    version = registry.in_stage(stage)
    if version is None:
        return Condition(event, resource, "", f"no model is in {stage}", None, limit)

    trained = int(registry.repository.git("show", "--no-patch", "--format=%ct", version.commit))
    age = _hours(datetime.fromtimestamp(trained, UTC), now)
    message = f"{registry.artifact} {version.name}, which is in {stage}, was trained {spell(age)} ago"
    return Condition(event, resource, version.name, message, age, limit)


def production_one_copy(registry: Registry, stage: str, limit: float | None, now: datetime) -> Condition:
    """Return how long the model in production has been without a copy in the DVC remote.

    In a repository without a DVC remote, no copy is expected.
    """
    root = registry.repository.root
    version = registry.in_stage(stage)
    age = None
    message = f"no copy of what is in {stage} is asked for"
    if version and default_remote(root):
        copy = "a second copy"
        reason = why_not_in_dvc_remote(root, registry.artifact, version.commit)
        if reason:
            copy = f"no second copy: {reason}"
            age = production_old(registry, stage, None, now).age
        message = f"{registry.artifact} {version.name}, which is in {stage}, has {copy}"
    return Condition(
        "tuneline.production.one_copy", f"tuneline.production.{registry.artifact}", stage, message, age, limit
    )


def stores(root: Path) -> dict[str, Path]:
    """Return what grows with each night and is on a disk of this machine, by what it is."""
    places = {
        "DVC's cache": cache_folder(root),
        "the DVC remote": remote_folder(root),
        "Prefect's database": _database_file(),
    }
    return {store: path for store, path in places.items() if path and path.exists()}


def _database_file() -> Path | None:
    """Return the file of Prefect's database; ``None`` if that is no SQLite database."""
    url = get_current_settings().server.database.connection_url
    if not url:
        return None
    database = make_url(url.get_secret_value())
    if database.get_backend_name() != "sqlite" or not database.database:
        return None
    return Path(database.database)


def folder_size(store: Path) -> int:
    """Return the bytes of the files in a folder, or of a database with the files beside it."""
    paths = store.rglob("*") if store.is_dir() else store.parent.glob(f"{store.name}*")
    size = 0
    for path in paths:
        with suppress(FileNotFoundError):  # removed meanwhile
            size += path.lstat().st_size
    return size


DAY = 86400.0
_SIZES = TypeAdapter(dict[float, dict[str, int]])


def weekly_growth(record: Path, sizes: Mapping[str, int], now: float) -> dict[str, float]:
    """Record sizes once a day, and return by how many bytes a week each of them grows.

    It is the growth since the oldest record of the last eight days that is at least a day old. A size without
    such a record is left out.
    """
    # the sizes of the last days
    history: dict[float, dict[str, int]] = {}
    with suppress(FileNotFoundError, ValidationError):
        for time, past_sizes in _SIZES.validate_json(record.read_bytes()).items():
            # A time in the future was recorded before the clock was set back.
            if now - 8 * DAY <= time <= now:
                history[time] = past_sizes
    if now - max(history, default=0) >= DAY:
        history[now] = dict(sizes)
        write_json(record, {str(time): past_sizes for time, past_sizes in history.items()})

    growth = {}
    for store, size in sizes.items():
        times = [time for time in history if store in history[time] and now - time >= DAY]
        if times:
            oldest = min(times)
            growth[store] = (size - history[oldest][store]) / (now - oldest) * 7 * DAY
    return growth


def disk_filling(repository: Repository, limit: float | None, now: datetime) -> Condition:
    """Return the sizes of what grows, and the hours until a disk is full at the rate of the last week."""
    places = stores(repository.root)
    sizes = {store: folder_size(path) for store, path in places.items()}
    growth = weekly_growth(repository.state / "sizes.json", sizes, now.timestamp())

    # the growth of each disk, in bytes a week, by its device number
    rates: defaultdict[int, float] = defaultdict(float)
    for store, path in places.items():
        rates[path.stat().st_dev] += growth.get(store, 0)

    # the hours until each store has no room
    left = {}
    for store, path in places.items():
        rate = rates[path.stat().st_dev]
        if rate > 0:
            left[store] = shutil.disk_usage(path).free / rate * 7 * 24
    first = min(left, key=left.__getitem__, default="")
    hours = left.get(first)

    stores_in_words = []
    for store, size in sizes.items():
        words = f"{store} {decimal(size)}"
        if store in growth:
            words += f" ({growth[store] / 1e6:+,.1f} MB a week)"
        stores_in_words.append(words)
    message = ", ".join(stores_in_words)
    if hours is not None:
        message = f"the disk of {first} is full in {spell(hours)} at this rate: {message}"
    return Condition(
        "tuneline.disk.filling", "tuneline.disk.stores", first, message, hours, limit, ahead=True
    )


def scoring_behind(repository: Repository, scoring: Scoring, limit: float | None, now: datetime) -> Condition:
    """Return how long the oldest file of the inbox has waited to be scored; a refused file does not wait."""
    outbox = Outbox(repository.root / scoring.outbox, repository.state / "scoring")
    waiting = {file.name: file.path for file in unscored(repository.root / scoring.inbox, outbox)}
    age, message = _oldest(waiting, "has waited to be scored for", now)
    return Condition(
        "tuneline.scoring.behind",
        "tuneline.scoring.inbox",
        "inbox",
        message or "no file waits to be scored",
        age,
        limit,
    )


def ingest_behind(repository: Repository, settings: Settings, now: datetime) -> Condition:
    """Return how long the oldest labelled file has waited in a drop folder.

    It waits if no run of ``ingest`` reads it, or if its rows are too few.
    """
    waiting = {}
    for source in settings.ingest.sources:
        if source.folder:
            for path in labelled_files(repository.root / source.folder):
                waiting[f"{source.folder}/{path.name}"] = path
    age, message = _oldest(waiting, "has waited to be ingested for", now)
    return Condition(
        "tuneline.ingest.behind",
        "tuneline.ingest.sources",
        "files",
        message or "no labelled file waits",
        age,
        settings.alerts.ingest_behind_hours,
    )


def branch_conditions(repository: Repository, branch: str, limit: float | None) -> list[Condition]:
    """Return two conditions of the branch that gets new rows.

    It may have been rewritten in ``origin``, and the branch of this clone may have parted from it.
    """
    if repository.has_remote():
        try:
            fetch_branch(replace(repository, patience=PATIENCE), branch)
        except GitError as error:
            get_run_logger().warning("%s of origin is not known: %s", branch, error)

    rewriting = rewritten(repository.root, branch)
    parting = parted(repository.root, branch)
    return [
        _branch_condition("rewritten", branch, rewriting, f"{branch} of origin has its whole history", limit),
        _branch_condition("parted", branch, parting, f"{branch} is the same in origin, or follows it", limit),
    ]


def _branch_condition(
    name: str, branch: str, problem: BranchProblem | None, usual: str, limit: float | None
) -> Condition:
    """Return the condition of a branch, with the ``usual`` message if there is no problem."""
    event = f"tuneline.branch.{name}"
    resource = f"tuneline.branch.{branch}"
    if problem is None:
        return Condition(event, resource, branch, usual, None, limit)
    message = f"{problem.message}. {problem.hint}"
    return Condition(event, resource, branch, message, problem.age_hours, limit)


def files_unread(repository: Repository, settings: Settings, now: datetime) -> Condition:
    """Return how long files and links that are never read have been in the inbox and the drop folders."""
    folders: list[tuple[Path, Callable[[str], object]]] = [(settings.scoring.inbox, is_data)]
    for source in settings.ingest.sources:
        if source.folder:
            folders.append((source.folder, ending_of))

    unread_files = {}
    for folder, reads in folders:
        for path, problem in unread(repository.root / folder, reads).items():
            unread_files[f"{folder}: {problem}"] = path
    age, message = _oldest(unread_files, "and has been there for", now)
    return Condition(
        "tuneline.inbox.unread",
        "tuneline.scoring.inbox",
        "inbox",
        message or "all files in inboxes are read",
        age,
        settings.alerts.scoring_behind_hours,
    )


def _oldest(files: Mapping[str, Path], what: str, now: datetime) -> tuple[float | None, str]:
    """Return how many hours the oldest file has been in its folder, and a sentence; ``None`` and ""."""
    arrivals = {}
    for name, path in files.items():
        arrival = _arrival(path)
        if arrival:
            arrivals[name] = arrival
    if not arrivals:
        return None, ""

    oldest = min(arrivals, key=lambda name: arrivals[name])
    age = _hours(arrivals[oldest], now)
    message = f"{oldest} {what} {spell(age)}"
    if len(arrivals) > 1:
        message += f", and {len(arrivals) - 1} more"
    return age, message


def _arrival(path: Path) -> datetime | None:
    """Return when a file came into its folder; ``None`` if it is gone.

    A copy may have the modification time of its original, so the later change of its inode counts.
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
    number = int(hours)
    unit = "hour"
    if hours >= 72:
        number = int(hours / 24)
        unit = "day"
    if number != 1:
        unit += "s"
    return f"{number} {unit}"


RESOLVED = "tuneline.alert.resolved"
"""Event after an alert whose reason is over."""


@flow(name="watch", persist_result=False)
def watch() -> State[Any]:
    """Send the alerts that are due. The state is named Alert while there is one, and says what is wrong."""
    # settings
    repository = Repository.here()
    settings = load_settings(repository.root)
    limits = settings.alerts
    stage = settings.promotion.stage
    now = datetime.now(UTC)

    # the present state of origin
    registry = Registry(repository, settings.promotion.artifact)
    for message in registry.fetch_if_possible():
        get_run_logger().warning(message)

    # before the conditions that read git: the sizes are recorded also where one of these fails
    filling = disk_filling(repository, _in_hours(limits.disk_full_days), now)

    # the conditions
    with get_client(sync_client=True) as client:
        silent = runs_silent(client, limits.runs_silent_hours, now)
    conditions = [
        silent,
        server_unready(get_current_settings().api.url or ""),
        production_old(registry, stage, _in_hours(limits.production_old_days), now),
        production_one_copy(registry, stage, limits.one_copy_hours, now),
        scoring_behind(repository, settings.scoring, limits.scoring_behind_hours, now),
        files_unread(repository, settings, now),
        ingest_behind(repository, settings, now),
        *branch_conditions(repository, settings.ingest.branch, limits.branch_hours),
        filling,
    ]

    # the alerts
    changes = tell_of_changes(registry, stage)
    state = _report(conditions, repository.state / "alerts", limits)
    ungated = why_no_gate(repository.root, registry.tags(), stage)
    hold = registry.tags().hold(stage)
    untold = nobody_told()
    state.message = visible("; ".join(filter(None, [state.message, *changes, ungated, hold, untold])))
    return state


def _in_hours(days: float | None) -> float | None:
    if days is None:
        return None
    return days * 24


def _report(conditions: list[Condition], records: Path, limits: Alerts) -> State[Any]:
    """Send the events that are due, and return the state of the run."""
    alerts = []
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
            alerts.append(condition.message)
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

    name = "Alert"
    messages = alerts
    if not alerts:
        name = "Completed"
        messages = [condition.message for condition in conditions]
    # Not capitalized: a message may begin with a file name.
    return Completed(name=name, message=visible("; ".join(messages)))
