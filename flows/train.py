"""Flow ``train``: runs the pipeline for a commit, unattended, in a checkout of its own, and commits the result.

A model that is better than the one in production replaces it; docs/promotion.md defines "better".

One training runs at a time on a machine or a GPU, across deployments, workers and clones. Its locks are files
of the machine that the operating system locks. The supervisor of each program of the run inherits them: the
next training starts when the last process of the one before has ended, however it ended.
"""

import contextlib
import datetime
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from prefect import flow, get_run_logger, runtime, task
from prefect._internal.control_listener import (
    get_intent,
)  # nothing public tells a cancellation from another SIGTERM
from prefect.client.orchestration import get_client
from prefect.client.schemas import State
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed
from pydantic import Field

from flows.promotion.outcome import PROMOTION_WAIT, EndedRun, finish
from flows.promotion.production import fetch_reference, push_versions
from flows.promotion.registry import Registry
from flows.promotion.unpushed import UnpushedResult, forget_unpushed, unpushed_results
from flows.runs.checkout import Checkout, isolated
from flows.runs.checkpoints import SharedCheckpoints
from flows.runs.commits import Run, metrics_summary
from flows.runs.pipeline import UNCACHED, Graph, Pipeline, log_line, stage_task
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository, UnreachableError, safe_name
from flows.server.crashes import restarts
from flows.server.worker import end_with_worker
from tuneline.core.locks import BusyError, lock, unlock
from tuneline.project.dvc import require_remote
from tuneline.settings import Ref, Settings, load_settings

STAGE = "train"
"""The stage that trains. From it on a run has the machine to itself: later stages measure speed."""
MACHINE_LOCKS = "TUNELINE_MACHINE_LOCKS"
"""Environment variable with the folder of the locks. It must be the same for all workers of a machine."""
LOOK_EVERY = 1.0
"""Seconds between two looks at a lock that another run holds."""


class MachineLockError(Exception):
    """The locks of this machine cannot be used."""

    def __init__(self, error: OSError) -> None:
        remedy = f"Set {MACHINE_LOCKS} to a folder on a local disk, the same for all workers of the machine."
        super().__init__(
            f"The locks of this machine in {_folder()} cannot be used ({error.strerror}). {remedy}"
        )


@dataclass(frozen=True)
class TrainingLock:
    """The right to train on this machine, or on some of its GPUs: open lock files, in the order in which every run locks them.

    ``files`` has True for one that runs share.
    """

    files: Mapping[int, bool]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """File descriptors of the locks, for processes that must end before the next training starts."""
        return tuple(self.files)

    def acquire(self, run: str, on_line: Callable[[str], None]) -> None:
        """Wait until no other run trains here, and say when that begins and ends.

        A signal whose handler raises ends the wait.
        """
        waited_since = None
        for file, shared in self.files.items():
            while not _try_lock(file, shared=shared):
                if waited_since is None:
                    waited_since = time.monotonic()
                    holder = os.pread(file, 200, 0).decode(errors="replace") or "another run"
                    on_line(f"Waits for run {holder}, which trains on this machine.")
                time.sleep(LOOK_EVERY)
            os.ftruncate(file, 0)
            os.pwrite(file, run.encode(), 0)
        if waited_since is not None:
            on_line(f"Trains now, after {(time.monotonic() - waited_since) / 60:.0f} minutes of waiting.")

    def release(self) -> None:
        """Let the next run train. Without it, that happens when all processes of this run have ended."""
        for file in self.files:
            unlock(file)


@contextlib.contextmanager
def machine_training_lock(one_per: str | None) -> Iterator[TrainingLock]:
    """Open the locks of this machine, without locking them, else a ``MachineLockError``; ``one_per`` as in ``conf/flows.yaml``."""
    gpus = sorted(
        {
            re.sub(r"[^\w-]", "-", name.strip())
            for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        }
        - {"", "-1"}
    )
    if one_per is None:
        names = {}
    elif one_per == "machine" or not gpus:
        names = {"machine": False}
    else:  # trainings on single GPUs share the machine
        names = {"machine": True, **{f"gpu-{gpu}": False for gpu in gpus}}
    with contextlib.ExitStack() as opened:
        files = {}
        try:
            for name, shared in names.items():
                _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
                file = os.open(_folder() / name, os.O_RDWR | os.O_CREAT, 0o600)
                opened.callback(os.close, file)
                files[file] = shared
        except OSError as error:
            raise MachineLockError(error) from None
        yield TrainingLock(files)


def _folder() -> Path:
    """Return the folder of the locks. A home folder may be on several machines."""
    folder = os.environ.get(MACHINE_LOCKS)
    return Path(folder) if folder else Path.home() / ".cache" / "tuneline" / "locks" / socket.gethostname()


def _try_lock(file: int, *, shared: bool) -> bool:
    try:
        lock(file, wait=0, shared=shared)
    except BusyError:
        return False
    except OSError as error:  # NFS without a lock service, for example
        raise MachineLockError(error) from None
    return True


@contextlib.contextmanager
def training(
    checkout: Checkout,
    machine: TrainingLock,
    checkpoints: SharedCheckpoints | None,
    on_line: Callable[[str], None],
) -> Iterator[None]:
    """Wait for the machine and fetch the checkpoints of an earlier attempt; copy those that are completed in the block."""
    machine.acquire(checkout.name, on_line)
    if checkpoints is None:
        yield
        return
    if fetched := checkpoints.fetch(checkout.path):
        on_line(f"Fetched checkpoint {fetched}; training resumes from it.")
    with checkpoints.copied(checkout.path):
        yield


TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w-]*$")]
Days = Annotated[int, Field(ge=1)]
Override = Annotated[str, Field(pattern=r"^(\+{1,2}|~)?[A-Za-z_][\w./@]*(=.*)?$")]


GIVE_UP_DAYS = 14
"""Days after which a result that still cannot be pushed is only left on its branch."""


class CrashedTooOftenError(Exception):
    """A run crashed in each of its attempts and is not restarted again."""


@flow(name="train", persist_result=False)
def train(  # noqa: PLR0917 - Prefect calls it by name
    ref: Ref | None = None,
    task: TaskName | None = None,
    overrides: list[Override] | None = None,
    as_of: datetime.date | None = None,
    last_days: Days | None = None,
    push: bool | None = None,
    promote: bool = True,
) -> State[Any]:
    """Run the pipeline and commit the result.

    Args:
        ref: Branch, tag or commit to run; default: `training.ref`. One of a remote (`origin/main`) is fetched
            first.
        task: A task of `conf/task/`, as in `dvc exp run -S task=NAME`.
        overrides: Parameters, as after `-S`: `train.learning_rate=1e-3`. Interpolations (`${...}`) are
            refused.
        as_of: Train on the batches up to this date, as in `data.as_of`: a training of that day is repeated.
        last_days: Train on the batches of the last days, as in `data.last_days`.
        push: Push the result (weights: if promoted) to the DVC remote, commit and tags to git remote
            `origin`; default: `training.push`.
        promote: Put the model into production if it is better than the one there.
    """
    repository = Repository.here(log=lambda message: _warn([message]))
    settings = load_settings(repository.root)
    _stop_crashing(settings.max_attempts)
    end_with_worker()
    log_cancellation()
    ref, push = ref or settings.training.ref, settings.training.push if push is None else push
    if push:
        require_remote(repository.root)
    period = {"data.as_of": as_of, "data.last_days": last_days}
    given = [f"{key}={value}" for key, value in period.items() if value is not None]
    parameters = (*([f"task={task}"] if task else []), *(overrides or []), *given)
    with isolated(
        repository, f"{safe_name(runtime.flow_run.name)}-{runtime.flow_run.id[:8]}", ref, parameters
    ) as checkout:
        return _run(repository, settings, checkout, push=push, promote=promote)


def _run(
    repository: Repository, settings: Settings, checkout: Checkout, *, push: bool, promote: bool
) -> State[Any]:
    _log_checkout(checkout)
    registry = Registry(repository, settings.promotion.artifact)
    completed = _refresh(registry, settings, checkout, push=push)
    with machine_training_lock(settings.training.one_per) as machine:
        locks = [checkout.lock, *machine.descriptors]
        programs = Programs(checkout.path, checkout.name, settings.training.environment, locks=locks)
        shared = SharedCheckpoints.open(
            repository, settings.training.checkpoints, checkout, get_run_logger().warning
        )
        pipeline = Pipeline(programs, log_line, settings.lock_wait_seconds)
        for stage in prepare(pipeline, checkout, registry, settings.promotion.stage).stages:
            with (
                training(checkout, machine, shared, log_line) if stage == STAGE else contextlib.nullcontext()
            ):
                stage_task(stage, settings.policy(stage))(pipeline)
        machine.release()
        run = Run(runtime.flow_run.id, safe_name(runtime.flow_run.name))
        try:
            result, version = finish(EndedRun(run, checkout, pipeline, registry, settings, promote, push))
        except BaseException as error:
            if not isinstance(
                error, Exception
            ):  # cancelled: nobody expects the result of a cancelled run in production
                forget_unpushed(repository, checkout.name)
            raise
        if shared is not None:
            shared.remove()
    promoted = f"{version.name} in {settings.promotion.stage}; " if version else ""
    message = (
        f"{metrics_summary(checkout)}; {promoted}{result.branch or 'nothing new'}, commit"
        f" {result.commit[:12]}"
    )
    held = filter(None, [registry.tags().hold(settings.promotion.stage)])
    return Completed(
        message="; ".join([message, *completed, *held]),
        name="Completed" if result.branch or version else "NothingNew",
    )


@task(name="prepare", task_run_name="prepare", **UNCACHED)
def prepare(pipeline: Pipeline, checkout: Checkout, registry: Registry, stage: str) -> Graph:
    """Set the parameters, read the graph, restore what the cache has, and fetch the profile of production's data."""
    if checkout.spec.overrides:
        pipeline.compose(checkout.spec.overrides)
    graph = pipeline.graph()
    pipeline.restore(graph.sources)
    if version := fetch_reference(pipeline, registry, stage):
        pipeline.on_line(
            f"The data will be compared with those of {registry.artifact} {version.name}, which is in"
            f" {stage}."
        )
    return graph


def _refresh(registry: Registry, settings: Settings, checkout: Checkout, *, push: bool) -> list[str]:
    """Fetch the registry, and complete what earlier runs could not push, and what the DVC remote lacks of the versions in stages.

    If ``origin`` is away, the run needs it only at its end.
    """
    try:
        with registry.locked(PROMOTION_WAIT):
            _warn(registry.refresh(push=push))
    except UnreachableError as error:
        _warn([f"Promotions of other machines are unknown: {error}"])
        return []
    if not push:
        return []
    try:
        push_versions(
            Pipeline(Programs(checkout.path, checkout.name, locks=[checkout.lock]), log_line),
            registry.tags().staged,
        )
    except ProgramError as error:
        _warn([f"What is in production may have no second copy: {error}"])
    return complete_unpushed(registry, settings, besides=checkout.name)


def complete_unpushed(registry: Registry, settings: Settings, *, besides: str) -> list[str]:
    """Complete the results that earlier runs could not push, ``besides`` that of a checkout, and return what was completed, in words.

    What fails is left for the next run.
    """
    repository, done = registry.repository, []
    for unpushed_result in unpushed_results(repository):
        if unpushed_result.checkout == besides:
            continue
        try:
            done.append(_complete(registry, settings, unpushed_result))
        except BusyError:
            continue  # that run is in progress
        except Exception as error:
            too_old = unpushed_result.age_in_days(repository, time.time()) > GIVE_UP_DAYS
            left = "It stays on its branch" if too_old else "The next run tries again"
            get_run_logger().error(
                "The result of %s cannot be completed. %s. %s", unpushed_result.run.name, left, error
            )
            if too_old:
                forget_unpushed(repository, unpushed_result.checkout)
            if isinstance(error.__cause__, UnreachableError):
                break
    return [message for message in done if message]


def _complete(registry: Registry, settings: Settings, unpushed_result: UnpushedResult) -> str:
    repository = registry.repository
    with isolated(
        repository, unpushed_result.checkout, unpushed_result.spec.commit, unpushed_result.spec.overrides
    ) as isolated_checkout:
        kept = (
            unpushed_result.committed(repository) if unpushed_result in unpushed_results(repository) else None
        )
        if kept is None:  # a person removed the branch, or another run completed it
            forget_unpushed(repository, unpushed_result.checkout)
            return ""
        get_run_logger().info(
            "Completing the result of %s, %s, which is not pushed.", unpushed_result.run.name, kept.name
        )
        checkout = replace(isolated_checkout, spec=unpushed_result.spec)
        repository.git("reset", "--hard", "--quiet", kept.commit, cwd=checkout.path)
        programs = Programs(checkout.path, checkout.name, locks=[checkout.lock])
        pipeline = Pipeline(programs, log_line, settings.lock_wait_seconds)
        pipeline.restore(())
        result, version = finish(
            EndedRun(
                unpushed_result.run,
                checkout,
                pipeline,
                registry,
                settings,
                unpushed_result.promote,
                push=True,
            )
        )
        came_to = (
            f"{version.name} in {settings.promotion.stage}" if version else result.branch or "nothing new"
        )
        _say_completed(unpushed_result.run, came_to)
        return f"{unpushed_result.run.name} completed: {came_to}"


def _say_completed(run: Run, came_to: str) -> None:
    """Complete a run that failed, on the server that this run is of, if it knows it."""
    with get_client(sync_client=True) as client, contextlib.suppress(ObjectNotFound):
        state = client.read_flow_run(UUID(run.id)).state
        if state and state.is_failed():
            message = f"Completed by run {runtime.flow_run.name}: {came_to}"
            client.set_flow_run_state(UUID(run.id), Completed(message=message), force=True)


def _stop_crashing(attempts: int) -> None:
    """Raise an error in a run that crashed in each of its attempts.

    A person may start it again as often as they like.
    """
    if runtime.flow_run.run_count <= attempts:
        return
    with get_client(sync_client=True) as client:
        deaths = restarts(client.read_flow_run_states(UUID(runtime.flow_run.id)))
    if deaths >= attempts:
        raise CrashedTooOftenError(
            f"This run has crashed {deaths} times; its checkout is kept for inspection."
        )


def _log_checkout(checkout: Checkout) -> None:
    logger = get_run_logger()
    logger.info("Commit %s of %s, in %s", checkout.spec.commit[:12], checkout.spec.ref, checkout.path)
    if checkout.resumed:
        logger.info("Resuming an earlier attempt of this run; the stages it finished are not run again.")
    if checkout.adopted:
        logger.info("Run %s ended early; training resumes from its checkpoints.", checkout.adopted)


def _warn(messages: Iterable[str]) -> None:
    for message in messages:
        get_run_logger().warning(message)


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
