"""Flow ``score``: scores new files with the model in production, and reports when they no longer look like its training data."""

import os
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.schemas import State
from prefect.states import Completed, Failed

from flows.promotion.registry import Registry
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import BusyError, Repository, locked
from flows.scoring.deployed import DeployedModel, fetch_model
from flows.scoring.inbox import Incoming, Outbox, new_files
from flows.scoring.score_files import RefusedError, report_drift, score_file
from flows.server.worker import end_with_worker
from flows.settings import load_settings
from flows.settings.scoring import Scoring
from tuneline.terminal import visible

REPORTED = 20
"""Problems in the message of a run; notifications contain it."""


@flow(name="score", persist_result=False)
def score(inbox: Path | None = None, outbox: Path | None = None) -> State[Any]:
    """Score the new files, and report drift.

    Args:
        inbox: Folder of the new files; default: that of `conf/flows.yaml`.
        outbox: Folder of the scored files; default: that of `conf/flows.yaml`.
    """
    repository = Repository.here()
    settings = load_settings(repository.root)
    end_with_worker()
    folders = {name: folder for name, folder in (("inbox", inbox), ("outbox", outbox)) if folder is not None}
    scoring = settings.scoring.model_copy(update=folders)
    registry = Registry(repository, settings.promotion.artifact)
    repository.state.mkdir(parents=True, exist_ok=True)
    try:
        with locked(repository.state / "scoring.lock", wait=0) as lock:
            return _score_new_files(registry, settings.promotion.stage, scoring, lock)
    except BusyError:
        return Completed(name="Skipped", message="Another run is scoring; the next run scores what it leaves.")


def _score_new_files(registry: Registry, stage: str, scoring: Scoring, lock: int) -> State[Any]:
    repository = registry.repository
    outbox = Outbox(repository.root / scoring.outbox, repository.state / "scoring")
    waiting = new_files(repository.root / scoring.inbox, outbox, scoring.settle_seconds)
    for message in registry.fetch_if_possible():
        get_run_logger().warning(message)
    version = registry.in_stage(stage)
    if version is None:
        return Completed(name="NoModel", message=f"No model is in {stage} yet; {len(waiting)} files wait.")
    if not waiting:
        return Completed(name="NothingNew", message="No new file.")
    outbox.prepare()
    with Programs(repository.root, f"score-{os.getpid()}", lock=lock) as programs:
        pipeline = Pipeline(programs, get_run_logger().info)
        model = fetch_model(registry, version, pipeline)
        rows, problems = _score_files(pipeline, model, waiting, outbox, scoring)
    drift = report_drift(model, outbox, scoring.drift, repository.state)
    message = f"{len(waiting) - len(problems)} files, {rows} rows, by {version.name}; {drift}"
    if len(problems) > REPORTED:
        problems[REPORTED:] = [f"and {len(problems) - REPORTED} more, see the log"]
    return Failed(message=visible("\n".join([message, *problems]))) if problems else Completed(message=message)


def _score_files(
    pipeline: Pipeline, model: DeployedModel, waiting: list[Incoming], outbox: Outbox, scoring: Scoring
) -> tuple[int, list[str]]:
    """Score every file, whatever happens to the others; return the number of rows and the problems."""
    rows, problems = 0, []
    for incoming in waiting:
        try:
            rows += score_file(pipeline, model, incoming, outbox, scoring)
        except RefusedError as error:
            problems.append(f"refused {incoming.name}: {error}")
        except Exception as error:
            reason = error.reason if isinstance(error, ProgramError) else f"{type(error).__name__}: {error}"
            problems.append(f"not scored {incoming.name}, the next run tries again: {reason}")
    return rows, problems
