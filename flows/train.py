"""Flow ``train``: runs the line for a commit, unattended, in a checkout of its own, and keeps what came out as a commit.

A model that is better than the one in production takes its place; docs/promotion.md says what better means.
"""

import os
from typing import Annotated, Any

from prefect import flow, get_run_logger, runtime
from prefect.client.schemas import State
from prefect.states import Completed
from pydantic import Field

from flows.promotion.promote import conclude
from flows.promotion.registry import Registry
from flows.runs import results
from flows.runs.checkout import Checkout, isolated
from flows.runs.line import Line
from flows.runs.locks import locked
from flows.runs.processes import Programs, end_with_parent
from flows.runs.repository import Repository
from flows.runs.tasks import prepare, push_artifacts, stage_task
from flows.settings import Settings, load_settings

Ref = Annotated[str, Field(min_length=1, pattern=r"^[^-\s][^\s]*$")]
TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w-]*$")]
Override = Annotated[str, Field(pattern=r"^(\+{1,2}|~)?[A-Za-z_][\w./@]*(=.*)?$")]

PROMOTION_WAIT = 900.0
"""Seconds to wait for another run that is being promoted: each is compared with the one before it."""


class CrashedTooOftenError(Exception):
    """A run that crashes again and again is not picked up for ever."""


@flow(name="train", persist_result=False)
def train(
    ref: Ref = "main",
    task: TaskName | None = None,
    overrides: list[Override] | None = None,
    push: bool = False,
    promote: bool = True,
) -> State[Any]:
    """Runs the line and keeps the result.

    Args:
        ref: Branch, tag or commit to run. One of a remote (`origin/main`) is fetched first.
        task: A task of `conf/task/`, as in `dvc exp run -S task=NAME`.
        overrides: Parameters, as after `-S`: `train.learning_rate=1e-3`.
        push: Whether artifacts go to the DVC remote, and the commit and tags to the git remote `origin`.
        promote: Whether the model may take the place of the one in production, if it is better.
    """
    repository = Repository.here()
    settings = load_settings(repository.root)
    if runtime.flow_run.run_count > settings.max_attempts:
        raise CrashedTooOftenError(f"This run has crashed {settings.max_attempts} times; its checkout stays for inspection.")
    if "PREFECT__FLOW_RUN_ID" in os.environ:  # a worker started this process
        end_with_parent()
    if push:
        results.require_remote(repository)
    wanted = (*([f"task={task}"] if task else []), *(overrides or []))
    with isolated(repository, f"{runtime.flow_run.name}-{runtime.flow_run.id[:8]}", ref, wanted) as checkout:
        return _run(repository, settings, checkout, push=push, promote=promote)


def _run(repository: Repository, settings: Settings, checkout: Checkout, *, push: bool, promote: bool) -> State[Any]:
    _announce(checkout)
    site = {"DVC_SITE_CACHE_DIR": str(checkout.path / ".dvc" / "tmp" / "site")}  # goes away with the checkout
    with Programs(checkout.path, checkout.name, site, lock=checkout.lock) as programs:
        line = Line(programs, _log, settings.lock_wait_seconds)
        registry = Registry(repository, settings.promotion.artifact)
        if push and repository.has_remote():
            registry.fetch()
        for stage in prepare(line, checkout, registry, settings.promotion.stage).stages:
            stage_task(stage, settings.policy(stage))(line)
        if push:
            push_artifacts(line)
        with locked(repository.state / "promotion.lock", wait=PROMOTION_WAIT):
            policy = settings.promotion if promote else None
            result, version = conclude(line, checkout, registry, policy, push=push)
    where = f"{version.name} in {settings.promotion.stage}; " if version else ""
    return Completed(message=f"{results.headline(checkout)}; {where}{result.branch or 'nothing new'}, commit {result.commit[:12]}")


def _announce(checkout: Checkout) -> None:
    logger = get_run_logger()
    logger.info("Commit %s of %s, in %s", checkout.work.commit[:12], checkout.work.ref, checkout.path)
    if checkout.resumed:
        logger.info("An earlier attempt of this run began it; what that finished stands.")
    if checkout.adopted:
        logger.info("Run %s ended early; its checkpoints are taken over.", checkout.adopted)


def _log(line: str) -> None:
    """To the task that runs, and to the flow between tasks."""
    get_run_logger().error(line) if line.startswith("ERROR:") else get_run_logger().info(line)
