"""Flow ``score``: scores new files with the model in production, and says when they no longer look like its training data."""

import os
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas import State
from prefect.states import Completed, Failed

from flows.promotion.registry import Registry
from flows.runs.line import Line
from flows.runs.locks import BusyError, locked
from flows.runs.processes import ProgramError, Programs, end_with_parent
from flows.runs.repository import GitError, Repository
from flows.scoring.deployed import serve
from flows.scoring.inbox import Outbox, new_files
from flows.scoring.score_files import report_drift, score_file
from flows.settings import Scoring, load_settings


@flow(name="score", persist_result=False)
def score(inbox: Path | None = None, outbox: Path | None = None) -> State[Any]:
    """Scores the files that are new, and reports drift.

    Args:
        inbox: Folder of the new files; that of `conf/flows.yaml` unless given.
        outbox: Folder of the scored ones; that of `conf/flows.yaml` unless given.
    """
    repository = Repository.here()
    settings = load_settings(repository.root)
    if "PREFECT__FLOW_RUN_ID" in os.environ:  # a worker started this process
        end_with_parent()
    changes = {name: folder for name, folder in (("inbox", inbox), ("outbox", outbox)) if folder is not None}
    scoring = settings.scoring.model_copy(update=changes)
    registry = Registry(repository, settings.promotion.artifact)
    repository.state.mkdir(parents=True, exist_ok=True)
    try:
        with locked(repository.state / "scoring.lock", wait=0) as lock:
            return _score(registry, settings.promotion.stage, scoring, lock)
    except BusyError:
        return Completed(name="Skipped", message="Another run is scoring; what is left is for the next.")


def _score(registry: Registry, stage: str, scoring: Scoring, lock: int) -> State[Any]:
    root = registry.repository.root
    outbox = Outbox(root / scoring.outbox)
    waiting = new_files(root / scoring.inbox, outbox, scoring.settle_seconds)
    _learn(registry)
    version = registry.in_stage(stage)
    if version is None:
        return Completed(name="NoModel", message=f"No model is in {stage} yet; {len(waiting)} files wait.")
    if not waiting:
        return Completed(name="NothingNew", message="No new file.")
    outbox.folder.mkdir(parents=True, exist_ok=True)
    refused, seen = {}, 0
    with Programs(root, f"score-{os.getpid()}", lock=lock) as programs:
        line = Line(programs, get_run_logger().info)
        served = serve(registry, version, line)
        for incoming in waiting:
            try:
                seen += score_file(line, served, incoming, outbox, scoring)
            except ProgramError as error:
                refused[incoming.path.name] = error.reason
    drifted = report_drift(served, outbox, scoring.drift, registry.repository.state)
    message = f"{len(waiting) - len(refused)} files, {seen} rows, by {version.name}; {drifted}"
    if refused:
        return Failed(message="\n".join([message, *(f"refused {name}: {reason}" for name, reason in refused.items())]))
    return Completed(message=message)


def _learn(registry: Registry) -> None:
    """What is in production may have been decided elsewhere. Files are scored all the same when nobody can say."""
    try:
        if registry.repository.has_remote():
            registry.fetch()
    except GitError as error:
        get_run_logger().warning("What was promoted or rolled back elsewhere is not known: %s", error)
