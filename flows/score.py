"""Flow ``score``: scores new files with the model in production, and reports when they no longer look like its training data."""

import os
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas import State
from prefect.states import Completed, Failed

from flows.promotion.production import fetch_model
from flows.promotion.registry import Registry
from flows.runs.pipeline import Pipeline
from flows.runs.processes import Programs
from flows.runs.repository import Repository
from flows.scoring.drift import report_drift
from flows.scoring.inbox import Archive, Outbox, RescoreSelection, archived_files, new_files, not_files
from flows.scoring.score_files import Results, score_files
from flows.server.worker import end_with_worker
from flows.settings import Scoring, load_settings
from tuneline.core.locks import BusyError, locked
from tuneline.core.terminal import visible

REPORTED = 20
"""Problems in the message of a run; notifications contain it."""
RESCORE_WAIT = 3600.0
"""Seconds that a run which was asked to score files again waits for another run."""


@flow(name="score", persist_result=False)
def score(
    inbox: Path | None = None, outbox: Path | None = None, rescore: list[str] | None = None, rescore_days: float | None = None
) -> State[Any]:
    """Score the new files, and report drift.

    Args:
        inbox: Folder of the new files; default: that of `conf/flows.yaml`.
        outbox: Folder of the scored files; default: that of `conf/flows.yaml`.
        rescore: Names, or patterns of names, of archived files that are scored again if their last result is by another model than the
            one in production: `["*"]`, `["tickets-*.csv"]`.
        rescore_days: Score only those again that were first scored in the last so many days; without `rescore`, all of these.
    """
    repository = Repository.here()
    settings = load_settings(repository.root)
    end_with_worker()
    folders = {name: folder for name, folder in (("inbox", inbox), ("outbox", outbox)) if folder is not None}
    scoring = Scoring.model_validate(settings.scoring.model_dump() | folders)
    registry = Registry(repository, settings.promotion.artifact)
    again = RescoreSelection(tuple(rescore or ["*"]), rescore_days) if rescore or rescore_days is not None else None
    repository.state.mkdir(parents=True, exist_ok=True)
    try:
        with locked(repository.state / "scoring.lock", wait=RESCORE_WAIT if again else 0) as lock:
            return _score(registry, settings.promotion.stage, scoring, lock, again)
    except BusyError:
        if again:  # no later run would do it
            raise
        return Completed(name="Skipped", message="Another run is scoring; the next run scores what it leaves.")


def _score(registry: Registry, stage: str, scoring: Scoring, lock: int, again: RescoreSelection | None) -> State[Any]:
    repository = registry.repository
    inbox, outbox = repository.root / scoring.inbox, Outbox(repository.root / scoring.outbox, repository.state / "scoring")
    archive = Archive(repository.root, scoring.archive)
    problems = archive.complete(inbox, outbox)
    waiting = new_files(inbox, outbox, scoring.settle_seconds)
    for problem in not_files(inbox):
        get_run_logger().warning("Not scored: %s.", visible(problem))
    for message in registry.fetch_if_possible():
        get_run_logger().warning(message)
    version = registry.in_stage(stage)
    if version is None:
        return _ended("NoModel", f"No model is in {stage} yet; {len(waiting)} files wait.", problems)
    if again:
        waiting += archived_files(repository.root, outbox, version.commit, again)
    if not waiting:
        return _ended("NothingNew", "No new file.", problems)
    outbox.prepare()
    pipeline = Pipeline(Programs(repository.root, f"score-{os.getpid()}", locks=[lock]), get_run_logger().info)
    model = fetch_model(registry, version, pipeline)
    results = score_files(pipeline, waiting, Results(model, outbox, archive, scoring))
    drift = report_drift(model, outbox, scoring.drift, repository.state)
    scored_again = f" ({results.again} again)" if results.again else ""
    message = f"{results.files} files{scored_again}, {results.rows} rows, by {version.name}; {drift}"
    return _ended(None, message, [*problems, *results.problems])


def _ended(name: str | None, message: str, problems: list[str]) -> State[Any]:
    """Return the state of a run: Failed if there are problems."""
    if not problems:
        return Completed(name=name or "Completed", message=message)
    for problem in problems:
        get_run_logger().error("%s", visible(problem))
    more = [f"and {len(problems) - REPORTED} more, see the log"] if len(problems) > REPORTED else []
    return Failed(message=visible("\n".join([message, *problems[:REPORTED], *more])))
