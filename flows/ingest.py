"""Flow ``ingest``: commits new labelled rows to a branch, after the data checks, so that the next training trains on them."""

from collections.abc import Callable
from functools import partial
from typing import Any

from prefect import flow, get_run_logger, runtime
from prefect.client.schemas import State
from prefect.states import Completed, Failed

from flows.ingestion.attempt import DONE, INGESTED, REFUSED, REFUSED_EVENT, IngestAttempt, committed_by, put_away, send
from flows.ingestion.checks import RefusedDataError, set_aside
from flows.ingestion.harvest import NewRows
from flows.runs.checkout import Checkout, isolated
from flows.runs.pipeline import Pipeline
from flows.runs.processes import Programs
from flows.runs.repository import Repository
from flows.runs.results import NotFastForwardError, fast_forward, require_remote
from flows.server.worker import end_with_worker
from flows.settings import IngestSource, Name, Settings, load_settings
from tuneline.core.errors import ParamsError
from tuneline.core.locks import BusyError, locked
from tuneline.core.terminal import visible

ATTEMPTS = 5
"""Times that a run starts again if the branch has moved in the meantime."""
REPORTED = 20
"""Problems in the message of a run; notifications contain it."""


@flow(name="ingest", persist_result=False)
def ingest(source: Name | None = None, push: bool | None = None, dry_run: bool = False) -> State[Any]:
    """Commit the new rows of the sources in `conf/flows.yaml`.

    Args:
        source: Name of one source; default: all.
        push: Push the rows to the DVC remote and the branch to `origin`; default: `ingest.push`.
        dry_run: Run the checks and say what would be committed; change nothing.
    """
    repository = Repository.here(lambda line: get_run_logger().warning(line))
    settings = load_settings(repository.root)
    end_with_worker()
    sources = _chosen(settings, source)
    if not sources:
        return Completed(name="NothingNew", message="There are no sources: ingest.sources in conf/flows.yaml is empty.")
    push = settings.ingest.push if push is None else push
    if push:
        require_remote(repository)
    repository.state.mkdir(parents=True, exist_ok=True)
    try:
        with locked(repository.state / "ingest.lock", wait=0):
            return _ingest(repository, partial(_attempt, repository, settings, sources, push=push, dry_run=dry_run), settings, push=push)
    except BusyError as error:
        return Completed(name="Skipped", message=f"Another run is ingesting; the next run reads what it leaves. {error}")


def _chosen(settings: Settings, name: str | None) -> list[IngestSource]:
    chosen = [one for one in settings.ingest.sources if name in (None, one.name)]
    if name is not None and not chosen:
        known = ", ".join(one.name for one in settings.ingest.sources) or "none"
        raise ParamsError(f"source: {name!r} is not in ingest.sources of conf/flows.yaml.", f"There is {known}.")
    return chosen


def _ingest(repository: Repository, attempt: Callable[[Checkout], State[Any] | None], settings: Settings, *, push: bool) -> State[Any]:
    """Try until the branch has not moved in between. What a killed attempt left is discarded: its rows are on the branch, or read again."""
    branch = settings.ingest.branch
    ref = f"origin/{branch}" if push and repository.has_remote() else branch
    for _ in range(ATTEMPTS):
        with isolated(repository, f"ingest-{runtime.flow_run.id[:8]}", ref, trains=False) as checkout:
            state = None if checkout.resumed else attempt(checkout)
        if state is not None:
            return state
    raise NotFastForwardError(f"{branch} moved during each of {ATTEMPTS} attempts; the next run tries again.")


def _attempt(
    repository: Repository, settings: Settings, sources: list[IngestSource], checkout: Checkout, *, push: bool, dry_run: bool
) -> State[Any] | None:
    """Collect, check and commit; ``None`` if the branch has moved."""
    branch, run_id = settings.ingest.branch, str(runtime.flow_run.id)
    programs = Programs(checkout.path, checkout.name, locks=[checkout.lock])
    attempt = IngestAttempt(repository, settings, checkout, Pipeline(programs, _log, settings.lock_wait_seconds))
    new = attempt.collect(sources)
    if not attempt.is_enough(new):
        committed = committed_by(repository, checkout.spec.commit, run_id)
        return _nothing_new(new, attempt.required, branch, committed, dry_run=dry_run)
    try:
        attempt.check(new)
    except RefusedDataError as error:
        return _refused(repository, checkout, new, error, dry_run=dry_run)
    if dry_run:
        return _ended(new, f"Would commit to {branch}: {new.summary}", "DryRun")
    commit = attempt.commit(new, run_id, push=push)
    try:
        fast_forward(repository, branch, commit, push=push)
    except NotFastForwardError as error:
        get_run_logger().warning("%s The run starts again from there.", error)
        return None
    put_away(new.done, DONE)
    message = f"{new.rows:,} rows to {branch}, commit {commit[:12]}: {new.summary}"
    send(INGESTED, new.names, message, branch=branch, commit=commit, rows=new.rows)
    return _ended(new, message)


def _nothing_new(new: NewRows, required: int, branch: str, committed: tuple[str, int] | None, *, dry_run: bool) -> State[Any]:
    if 0 < new.rows < required:
        message = f"{new.rows:,} new rows wait until there are {required:,} (ingest.min_rows): {new.summary}"
        return _ended(new, message, "NothingNew")
    if not dry_run:
        put_away(new.done, DONE)
    if committed is None or dry_run:
        return _ended(new, new.summary or "Nothing new.", "NothingNew")
    commit, rows = committed  # by an attempt that was killed afterwards, maybe before its event
    message = f"{rows:,} rows to {branch}, commit {commit[:12]}, by an earlier attempt of this run"
    send(INGESTED, new.names, message, branch=branch, commit=commit, rows=rows)
    return _ended(new, message)


def _refused(repository: Repository, checkout: Checkout, new: NewRows, error: RefusedDataError, *, dry_run: bool) -> State[Any]:
    if dry_run:
        return Failed(message=visible(f"The data checks would refuse {new.summary}:\n{error}"))
    folder = set_aside(repository, checkout, new.batches)
    put_away(new.files, REFUSED)
    message = f"The data checks refused {new.summary}; nothing was committed. Kept in {folder}.\n{error}"
    send(REFUSED_EVENT, new.names, message, rows=new.rows, checks=str(error).splitlines(), folder=str(folder))
    return Failed(message=visible(message))


def _ended(new: NewRows, message: str, name: str = "Completed") -> State[Any]:
    if problems := new.problems:
        more = [f"and {len(problems) - REPORTED} more, see the log"] if len(problems) > REPORTED else []
        return Failed(message=visible("\n".join([message, *problems[:REPORTED], *more])))
    return Completed(name=name, message=visible(message))


def _log(line: str) -> None:
    """Log a line of output to the task that runs, or to the flow between tasks."""
    get_run_logger().error(line) if line.startswith("ERROR:") else get_run_logger().info(line)
