"""Flow ``clean``: removes what runs leave behind and nobody needs any more, as ``retention`` in ``conf/flows.yaml`` says.

Every step can be killed and run again. What a live run uses stays. Prefect's server removes its own old runs (flows/server/api.py).
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.client.schemas import State
from prefect.states import Completed, Failed

from flows.cleaning.cache import clean_cache
from flows.cleaning.removals import (
    Cleaning,
    Removed,
    as_markdown,
    clean_branches,
    clean_checkouts,
    clean_leftovers,
    clean_models,
    clean_refused_batches,
    clean_scored,
    summary,
)
from flows.promotion.registry import Registry
from flows.runs.repository import Repository
from flows.server.worker import end_with_worker
from flows.settings import Settings, load_settings
from tuneline.core.locks import BusyError, locked
from tuneline.core.terminal import visible


@flow(name="clean", persist_result=False)
def clean(dry_run: bool = False, push: bool = False) -> State[Any]:
    """Remove what is older than the settings allow.

    Args:
        dry_run: Only report what would be removed.
        push: Remove the old branches of runs from the git remote `origin`, too.
    """
    repository = Repository.here(get_run_logger().warning)
    settings = load_settings(repository.root)
    end_with_worker()
    repository.state.mkdir(parents=True, exist_ok=True)
    registry = Registry(repository, settings.promotion.artifact)
    try:
        with locked(repository.state / "clean.lock", wait=0):
            cleaning = Cleaning(registry, settings.retention, time.time(), get_run_logger().info, dry_run, push)
            rows, problems = clean_all(cleaning, settings)
    except BusyError:
        return Completed(name="Skipped", message="Another run is cleaning.")
    create_markdown_artifact(as_markdown(rows, dry_run=dry_run), key="clean", description=summary(rows))
    message = visible("\n".join([f"{'Would free' if dry_run else 'Freed'} {summary(rows)}", *problems]))
    return Failed(message=message) if problems else Completed(message=message, name="DryRun" if dry_run else "Completed")


def clean_all(cleaning: Cleaning, settings: Settings) -> tuple[list[Removed], list[str]]:
    """Clean one kind after the other, whatever happens to the others; return what was removed, and the problems.

    The cache comes last: only then is known what names its objects.
    """
    rows: list[Removed] = []
    problems: list[str] = []

    def step(what: str, function: Callable[[], Removed | Sequence[Removed]]) -> None:
        try:
            found = function()
        except Exception as error:
            problems.append(f"{what} are not cleaned, the next run tries again: {error}")
            return
        for row in [found] if isinstance(found, Removed) else found:
            cleaning.log(str(row))
            rows.append(row)

    step("branches", lambda: clean_branches(cleaning))
    step("checkouts", lambda: clean_checkouts(cleaning))
    step("fetched models", lambda: clean_models(cleaning))
    step("scored files", lambda: clean_scored(cleaning, settings.scoring))
    step("refused batches", lambda: clean_refused_batches(cleaning))
    step("leftovers", lambda: clean_leftovers(cleaning, settings.scoring))
    removed = {name for row in rows for name in row.names}
    step("objects of DVC's cache", lambda: clean_cache(cleaning, removed))
    return rows, problems
