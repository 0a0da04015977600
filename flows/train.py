"""Flow ``train``: runs the pipeline for a commit, unattended, in a checkout of its own, and commits the result.

A model that is better than the one in production replaces it; docs/promotion.md defines "better".
"""

import datetime
import logging
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Annotated, Any
from uuid import UUID

from prefect import flow, get_run_logger, runtime, task
from prefect._internal.control_listener import get_intent  # nothing public tells a cancellation from another SIGTERM
from prefect.client.orchestration import get_client
from prefect.client.schemas import State
from prefect.states import Completed
from pydantic import Field

from flows.promotion.decide import PROMOTION_WAIT, EndedRun, complete_unpushed, finish, forget_unpushed
from flows.promotion.production import fetch_reference
from flows.promotion.registry import Registry
from flows.runs.checkout import Checkout, isolated
from flows.runs.checkpoints import SharedCheckpoints
from flows.runs.machine import STAGE, training, training_lock
from flows.runs.pipeline import UNCACHED, Graph, Pipeline, stage_task
from flows.runs.processes import Programs
from flows.runs.repository import Repository, UnreachableError, safe_name
from flows.runs.results import Run, metrics_summary, require_remote
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
    with training_lock(settings.training.one_per) as machine:
        locks = [checkout.lock, *machine.descriptors]
        programs = Programs(checkout.path, checkout.name, settings.training.environment, locks=locks)
        shared = SharedCheckpoints.open(repository, settings.training.checkpoints, checkout, get_run_logger().warning)
        pipeline = Pipeline(programs, _log, settings.lock_wait_seconds)
        for stage in prepare(pipeline, checkout, registry, settings.promotion.stage).stages:
            with training(checkout, machine, shared, _log) if stage == STAGE else nullcontext():
                stage_task(stage, settings.policy(stage))(pipeline)
        machine.release()
        run = Run(runtime.flow_run.id, safe_name(runtime.flow_run.name))
        try:
            result, version = finish(EndedRun(run, checkout, pipeline, registry, settings, promote, push))
        except BaseException as error:
            if not isinstance(error, Exception):  # cancelled: nobody expects the result of a cancelled run in production
                forget_unpushed(repository, checkout.name)
            raise
        if shared is not None:
            shared.remove()
    promoted = f"{version.name} in {settings.promotion.stage}; " if version else ""
    message = f"{metrics_summary(checkout)}; {promoted}{result.branch or 'nothing new'}, commit {result.commit[:12]}"
    return Completed(message="; ".join([message, *completed]), name="Completed" if result.branch or version else "NothingNew")


@task(name="prepare", task_run_name="prepare", **UNCACHED)
def prepare(pipeline: Pipeline, checkout: Checkout, registry: Registry, stage: str) -> Graph:
    """Set the parameters, read the graph, restore what the cache has, and fetch the profile of production's data."""
    if checkout.spec.overrides:
        pipeline.compose(checkout.spec.overrides)
    graph = pipeline.graph()
    pipeline.restore(graph.sources)
    if version := fetch_reference(pipeline, registry, stage):
        pipeline.on_line(f"The data will be compared with those of {registry.artifact} {version.name}, which is in {stage}.")
    return graph


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


STOPPED = "Stopped, because the run is being cancelled."


class _Cancelled(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if str(record.msg).startswith("Crash detected!") and get_intent() == "cancel":
            record.msg, record.args = STOPPED, ()
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
        return True


_CANCELLED = _Cancelled()


def log_cancellation() -> None:
    """Have the tasks of this process log that they were stopped, and not that they crashed."""
    logging.getLogger("prefect.task_runs").addFilter(_CANCELLED)
