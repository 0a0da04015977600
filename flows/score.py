"""Flow ``score``: scores new files with the model in production, and reports drift.

Each file is predicted by a process of its own, and has a result, or a reason why not.

Drift is that new rows no longer look like the training data of the model. They are compared with the train
split in ``reports/checks/profile.json`` of the model's commit (``tuneline/operations/drift.py``).
"""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.client.schemas import State

from tuneline.checks.results import Profile
from tuneline.core.repository.programs import Programs
from tuneline.core.repository.promoted_models import ModelRepository
from tuneline.core.runtime.files import BusyError, locked
from tuneline.core.runtime.terminal import visible
from tuneline.core.settings import DriftSettings, Settings, load_settings
from tuneline.operations.alerts import ended, send_if_due
from tuneline.operations.drift import DRIFT_ROWS, drift_criteria
from tuneline.operations.inbox import Outbox, complete_files, unread
from tuneline.operations.promotion.registry import Registry, fetch_profile
from tuneline.operations.runs.repository import Repository
from tuneline.operations.scoring import Scorer, recent_counts
from tuneline.operations.server.worker import end_with_worker

DRIFT_HOURS = 24.0
"""Hours between two events about the same model."""


def report_drift(scorer: Scorer, limits: DriftSettings, state: Path) -> str:
    """Compare the last scored rows with the training data, and return in words if they drifted.

    If they did, emit ``tuneline.data.drifted``.
    """
    version = scorer.version
    if scorer.profile is None:
        return "drift unknown"
    counts = recent_counts(scorer.profile, version.name, scorer.outbox, limits.window_rows)
    if counts.rows < DRIFT_ROWS:
        return f"{counts.rows} rows are too few to detect drift"

    criteria = drift_criteria(scorer.profile, counts, limits)
    drifted = [criterion.name for criterion in criteria if not criterion.met]
    for criterion in criteria:
        get_run_logger().info("%s", criterion)
    measures = list(map(asdict, criteria))
    description = f"The last {counts.rows} rows, against the training data of {version.name}."
    create_table_artifact(measures, key="drift", description=description)
    if not drifted:
        return "no drift"

    # the alert
    message = f"{counts.rows} rows scored by {version.name} no longer look like its training data"
    payload = {
        "message": f"{message}: {', '.join(drifted)}.",
        "version": version.name,
        "rows": counts.rows,
        "measures": measures,
    }
    send_if_due(
        state / "drift.json",
        version.name,
        DRIFT_HOURS,
        event="tuneline.data.drifted",
        resource={"prefect.resource.id": "tuneline.data.inbox", "tuneline.version": version.name},
        payload=payload,
    )
    return f"drifted: {', '.join(drifted)}"


@flow(name="score", persist_result=False)
def score() -> State[Any]:
    """Score the new files, and report drift."""
    repository = Repository.here(get_run_logger().warning)
    settings = load_settings(repository.root)
    end_with_worker()
    repository.state.mkdir(parents=True, exist_ok=True)
    try:
        with locked(repository.state / "scoring.lock", wait=0) as lock:
            return _score(Registry(repository), settings, lock)
    except BusyError:
        return ended("Another run is scoring; the next run scores what it leaves.", name="Skipped")


def _score(registry: Registry, settings: Settings, lock: int) -> State[Any]:
    """Score the files, while this process has the lock of the inbox."""
    root = registry.repository.root
    state = registry.repository.state
    scoring = settings.scoring
    inbox = root / scoring.inbox
    outbox = Outbox(root / scoring.outbox, root / scoring.archive, state / "scoring")
    logger = get_run_logger()

    # the files and the model
    for problem in unread(inbox):
        logger.warning("Not scored: %s.", problem)
    registry.fetch_if_possible()
    version = registry.production()
    if version is None:
        return ended("No model is in production yet.", name="NoModel")
    waiting = []
    for incoming in complete_files(inbox, scoring.settle_seconds):
        if not outbox.refused(incoming) and not outbox.complete(incoming, version.commit):
            waiting.append(incoming)
    if not waiting:
        return ended("No new file.", name="NothingNew")

    # the predictions
    outbox.prepare()
    programs = Programs(root, f"score-{os.getpid()}", locks=[lock])
    profile = None
    profile_file = fetch_profile(root, version)
    if profile_file is not None:
        profile = Profile.read(profile_file)
    with ModelRepository(str(root)).files(version) as model:
        scorer = Scorer(model, version, profile, outbox, scoring, programs, logger.info)
        for incoming in waiting:
            scorer.score(incoming)
    drift = report_drift(scorer, scoring.drift, state)
    for problem in scorer.problems:
        logger.error("%s", visible(problem))
    message = f"{scorer.files} files, {scorer.rows} rows, by {version.name}; {drift}"
    return ended(message, scorer.problems)
