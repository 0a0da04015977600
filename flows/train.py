"""Flow ``train``: runs the pipeline for a commit, unattended, in a checkout of its own, and commits the result.

A model that is better than the one in production replaces it; docs/promotion.md defines "better".
"""

import datetime
from collections.abc import Iterable
from typing import Annotated, Any
from uuid import UUID

from prefect import flow, get_run_logger, runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas import State
from prefect.states import Completed
from pydantic import Field

from flows.promotion.finish import PROMOTION_WAIT, EndedRun, complete_unpushed, finish
from flows.promotion.registry import Registry
from flows.promotion.unpushed import forget
from flows.runs.cancellation import log_cancellation
from flows.runs.checkout import Checkout, isolated
from flows.runs.checkpoints import SharedCheckpoints
from flows.runs.machine import training_lock
from flows.runs.pipeline import Pipeline
from flows.runs.processes import Programs
from flows.runs.repository import Repository, UnreachableError, safe_name
from flows.runs.results import Run, metrics_summary, require_remote
from flows.runs.tasks import prepare, stage_task
from flows.runs.training import TrainingStage
from flows.server.crashes import restarts
from flows.server.worker import end_with_worker
from flows.settings import Settings, load_settings

Ref = Annotated[str, Field(min_length=1, pattern=r"^[^-\s][^\s]*$")]
TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w-]*$")]
Days = Annotated[int, Field(ge=1)]
Override = Annotated[str, Field(pattern=r"^(\+{1,2}|~)?[A-Za-z_][\w./@]*(=.*)?$")]


class CrashedTooOftenError(Exception):
    """A run crashed in each of its attempts and is not restarted again."""


@flow(name="train", persist_result=False)
def train(  # noqa: PLR0917 - Prefect calls it by name
    ref: Ref = "main",
    task: TaskName | None = None,
    overrides: list[Override] | None = None,
    as_of: datetime.date | None = None,
    last_days: Days | None = None,
    push: bool = False,
    promote: bool = True,
) -> State[Any]:
    """Run the pipeline and commit the result.

    Args:
        ref: Branch, tag or commit to run. One of a remote (`origin/main`) is fetched first.
        task: A task of `conf/task/`, as in `dvc exp run -S task=NAME`.
        overrides: Parameters, as after `-S`: `train.learning_rate=1e-3`. Interpolations (`${...}`) are refused.
        as_of: Train on the batches up to this date, as in `data.as_of`: a training of that day is repeated.
        last_days: Train on the batches of the last days, as in `data.last_days`.
        push: Push artifacts to the DVC remote, and the commit and tags to the git remote `origin`.
        promote: Put the model into production if it is better than the one there.
    """
    repository = Repository.here(log=_warn_line)
    settings = load_settings(repository.root)
    _stop_crashing(settings.max_attempts)
    end_with_worker()
    log_cancellation()
    if push:
        require_remote(repository)
    period = {"data.as_of": as_of, "data.last_days": last_days}
    given = [f"{key}={value}" for key, value in period.items() if value is not None]
    parameters = (*([f"task={task}"] if task else []), *(overrides or []), *given)
    with isolated(repository, f"{safe_name(runtime.flow_run.name)}-{runtime.flow_run.id[:8]}", ref, parameters) as checkout:
        return _run(repository, settings, checkout, push=push, promote=promote)


def _run(repository: Repository, settings: Settings, checkout: Checkout, *, push: bool, promote: bool) -> State[Any]:
    _log_checkout(checkout)
    registry = Registry(repository, settings.promotion.artifact)
    completed = _refresh(registry, settings, checkout, push=push)
    with (
        training_lock(settings.training.one_per) as machine,
        Programs(
            checkout.path, checkout.name, settings.training.environment, lock=checkout.lock, more_locks=machine.descriptors
        ) as programs,
    ):
        shared = SharedCheckpoints.open(repository, settings.training.checkpoints, checkout, get_run_logger().warning)
        training = TrainingStage(checkout, machine, shared, _log)
        pipeline = Pipeline(programs, _log, settings.lock_wait_seconds)
        for stage in prepare(pipeline, checkout, registry, settings.promotion.stage).stages:
            with training.around(stage):
                stage_task(stage, settings.policy(stage))(pipeline)
        training.end_stages()
        run = Run(runtime.flow_run.id, safe_name(runtime.flow_run.name))
        try:
            result, version = finish(EndedRun(run, checkout, pipeline, registry, settings, promote), push=push)
        except BaseException as error:
            if not isinstance(error, Exception):  # cancelled: nobody expects the result of a cancelled run in production
                forget(repository, checkout.name)
            raise
        training.end()
    promoted = f"{version.name} in {settings.promotion.stage}; " if version else ""
    message = f"{metrics_summary(checkout)}; {promoted}{result.branch or 'nothing new'}, commit {result.commit[:12]}"
    return Completed(message="; ".join([message, *completed]), name="Completed" if result.branch or version else "NothingNew")


def _refresh(registry: Registry, settings: Settings, checkout: Checkout, *, push: bool) -> list[str]:
    """Fetch the registry, and complete what earlier runs could not push. If ``origin`` is away, the run needs it only at its end."""
    try:
        with registry.locked(PROMOTION_WAIT):
            _warn(registry.refresh(push=push))
    except UnreachableError as error:
        _warn([f"Promotions of other machines are unknown: {error}"])
        return []
    return complete_unpushed(registry, settings, _log, besides=checkout.name) if push else []


def _stop_crashing(attempts: int) -> None:
    """Raise an error in a run that crashed in each of its attempts. A person may start it again as often as they like."""
    if runtime.flow_run.run_count <= attempts:
        return
    with get_client(sync_client=True) as client:
        deaths = restarts(client.read_flow_run_states(UUID(runtime.flow_run.id)))
    if deaths >= attempts:
        raise CrashedTooOftenError(f"This run has crashed {deaths} times; its checkout is kept for inspection.")


def _log_checkout(checkout: Checkout) -> None:
    logger = get_run_logger()
    logger.info("Commit %s of %s, in %s", checkout.spec.commit[:12], checkout.spec.ref, checkout.path)
    if checkout.resumed:
        logger.info("Resuming an earlier attempt of this run; the stages it finished are not run again.")
    _warn(f"{path} cannot be read, so it was renamed; what it described is not resumed." for path in checkout.damaged)
    if checkout.adopted:
        logger.info("Run %s ended early; training resumes from its checkpoints.", checkout.adopted)


def _warn(messages: Iterable[str]) -> None:
    for message in messages:
        get_run_logger().warning(message)


def _warn_line(message: str) -> None:
    _warn([message])


def _log(line: str) -> None:
    """Log a line of output to the task that runs, or to the flow between tasks."""
    get_run_logger().error(line) if line.startswith("ERROR:") else get_run_logger().info(line)
