"""Flow ``train``: runs the pipeline for a commit in a checkout of its own, and commits the result.

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

# Nothing public tells a cancellation from another SIGTERM.
from prefect._internal.control_listener import get_intent
from prefect.client.orchestration import get_client
from prefect.client.schemas import State
from prefect.exceptions import ObjectNotFound
from prefect.states import Completed
from pydantic import Field

from flows.promotion.outcome import PROMOTION_WAIT, EndedRun, RunOutcome, finish
from flows.promotion.production import fetch_reference, push_versions
from flows.promotion.registry import Registry
from flows.promotion.unpushed import UnpushedResult, forget_unpushed, unpushed_results
from flows.runs.checkout import Checkout, isolated
from flows.runs.checkpoints import SharedCheckpoints
from flows.runs.commits import Run, metrics_summary
from flows.runs.pipeline import UNCACHED, Graph, Pipeline, log_line, stage_task
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import Repository, UnreachableError, safe_name
from flows.server.worker import end_with_worker
from tuneline.repository.dvc import require_remote
from tuneline.runtime.locks import BusyError, lock, unlock
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
    """The right to train on this machine, or on some of its GPUs.

    Attributes:
        files: Descriptors of the open lock files, in the order in which every run locks them, which prevents
            deadlocks; True for a lock that several runs may hold at a time.
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

            # The file names its holder to the runs that wait.
            os.ftruncate(file, 0)
            os.pwrite(file, run.encode(), 0)

        if waited_since is not None:
            minutes = (time.monotonic() - waited_since) / 60
            on_line(f"Trains now, after {minutes:.0f} minutes of waiting.")

    def release(self) -> None:
        """Let the next run train. Without it, that happens when all processes of this run have ended."""
        for file in self.files:
            unlock(file)


@contextlib.contextmanager
def machine_training_lock(one_per: str | None) -> Iterator[TrainingLock]:
    """Open the locks of this machine, without locking them.

    Args:
        one_per: ``training.one_per`` of ``conf/flows.yaml``.

    Raises:
        MachineLockError: A file cannot be opened.
    """
    with contextlib.ExitStack() as open_files:
        files = {}
        try:
            for name, shared in _lock_names(one_per).items():
                _folder().mkdir(mode=0o700, parents=True, exist_ok=True)
                file = os.open(_folder() / name, os.O_RDWR | os.O_CREAT, 0o600)
                open_files.callback(os.close, file)
                files[file] = shared
        except OSError as error:
            raise MachineLockError(error) from None
        yield TrainingLock(files)


def _lock_names(one_per: str | None) -> dict[str, bool]:
    """Return the names of the lock files; True for a lock that runs share."""
    gpus = set()
    for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","):
        gpu = re.sub(r"[^\w-]", "-", name.strip())
        if gpu not in {"", "-1"}:
            gpus.add(gpu)

    if one_per is None:
        return {}
    if one_per == "machine" or not gpus:
        return {"machine": False}
    # Trainings on single GPUs share the machine; a training on the whole machine waits for all of them.
    names = {"machine": True}
    for gpu in sorted(gpus):
        names[f"gpu-{gpu}"] = False
    return names


def _folder() -> Path:
    """Return the folder of the locks, named after the machine: a home folder may be on several machines."""
    folder = os.environ.get(MACHINE_LOCKS)
    if folder:
        return Path(folder)
    return Path.home() / ".cache" / "tuneline" / "locks" / socket.gethostname()


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
    """Wait for the machine and fetch the checkpoints of an earlier attempt; the block trains.

    Checkpoints that are completed in the block are copied to the shared folder.
    """
    machine.acquire(checkout.name, on_line)
    if checkpoints is None:
        yield
        return

    checkpoint = checkpoints.fetch()
    if checkpoint:
        on_line(f"Fetched checkpoint {checkpoint}; training resumes from it.")
    with checkpoints.copied():
        yield


TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w-]*$")]
Days = Annotated[int, Field(ge=1)]
Override = Annotated[str, Field(pattern=r"^(\+{1,2}|~)?[A-Za-z_][\w./@]*(=.*)?$")]


GIVE_UP_DAYS = 14
"""Days after which a result that still cannot be pushed is only left on its branch."""


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
    # settings
    repository = Repository.here(log=lambda message: _warn([message]))
    settings = load_settings(repository.root)
    end_with_worker()
    log_cancellation()

    # what to run
    if push is None:
        push = settings.training.push
    if push:
        require_remote(repository.root)
    parameters: list[str] = []
    if task:
        parameters.append(f"task={task}")
    parameters += overrides or []
    if as_of is not None:
        parameters.append(f"data.as_of={as_of}")
    if last_days is not None:
        parameters.append(f"data.last_days={last_days}")

    name = f"{safe_name(runtime.flow_run.name)}-{runtime.flow_run.id[:8]}"
    with isolated(repository, name, ref or settings.training.ref, tuple(parameters)) as checkout:
        return _run(repository, settings, checkout, push=push, promote=promote)


def _run(
    repository: Repository, settings: Settings, checkout: Checkout, *, push: bool, promote: bool
) -> State[Any]:
    """Run the stages in a checkout, commit and publish the result, and return the state of the run."""
    _log_checkout(checkout)
    registry = Registry(repository, settings.promotion.artifact)
    completed = _refresh(registry, settings, checkout, push=push)

    with machine_training_lock(settings.training.one_per) as machine:
        # Programs inherit the locks: the next training starts when the last of them has ended.
        locks = [checkout.lock, *machine.descriptors]
        programs = Programs(checkout.path, checkout.name, settings.training.environment, locks=locks)
        pipeline = Pipeline(programs, log_line, settings.lock_wait_seconds)
        shared = SharedCheckpoints.open(
            repository, settings.training.checkpoints, checkout, get_run_logger().warning
        )

        for stage in prepare(pipeline, checkout, registry, settings.promotion.stage).stages:
            run_stage = stage_task(stage, settings.policy(stage))
            if stage == STAGE:
                with training(checkout, machine, shared, log_line):
                    run_stage(pipeline)
            else:
                run_stage(pipeline)
        machine.release()

        run = Run(runtime.flow_run.id, safe_name(runtime.flow_run.name))
        try:
            outcome = finish(EndedRun(run, checkout, pipeline, registry, settings, promote, push))
        except BaseException as error:
            # Cancelled: nobody expects the result of a cancelled run in production.
            if not isinstance(error, Exception):
                forget_unpushed(repository, checkout.name)
            raise
        if shared is not None:
            shared.remove()
    return _completed(registry, settings.promotion.stage, checkout, outcome, completed)


def _completed(
    registry: Registry, stage: str, checkout: Checkout, outcome: RunOutcome, completed: list[str]
) -> State[Any]:
    """Return the state of a run that ended well, with its metrics and what became of the results."""
    result, version = outcome
    facts = [metrics_summary(checkout)]
    if version:
        facts.append(f"{version.name} in {stage}")
    facts.append(f"{result.branch or 'nothing new'}, commit {result.commit[:12]}")
    facts += completed
    hold = registry.tags().hold(stage)
    if hold:
        facts.append(hold)

    name = "Completed" if result.branch or version else "NothingNew"
    return Completed(message="; ".join(facts), name=name)


@task(name="prepare", task_run_name="prepare", **UNCACHED)
def prepare(pipeline: Pipeline, checkout: Checkout, registry: Registry, stage: str) -> Graph:
    """Set the parameters, read the graph, restore what the cache has, and fetch production's profile."""
    if checkout.spec.overrides:
        pipeline.compose(checkout.spec.overrides)
    graph = pipeline.graph()
    pipeline.restore(graph.sources)

    version = fetch_reference(pipeline, registry, stage)
    if version:
        reference = f"{registry.artifact} {version.name}, which is in {stage}"
        pipeline.on_line(f"The data will be compared with those of {reference}.")
    return graph


def _refresh(registry: Registry, settings: Settings, checkout: Checkout, *, push: bool) -> list[str]:
    """Fetch the registry, and complete what earlier runs could not push: results, and versions in stages.

    If ``origin`` is away, the run needs it only at its end.

    Returns:
        What was completed, in words.
    """
    # the registry
    try:
        with registry.locked(PROMOTION_WAIT):
            _warn(registry.refresh(push=push))
    except UnreachableError as error:
        _warn([f"Promotions of other machines are unknown: {error}"])
        return []
    if not push:
        return []

    # the versions that the DVC remote lacks
    programs = Programs(checkout.path, checkout.name, locks=[checkout.lock])
    try:
        push_versions(Pipeline(programs, log_line), registry.tags().staged)
    except ProgramError as error:
        _warn([f"What is in production may have no second copy: {error}"])

    return complete_unpushed(registry, settings, besides=checkout.name)


def complete_unpushed(registry: Registry, settings: Settings, *, besides: str) -> list[str]:
    """Complete the results that earlier runs could not push, except the one of the checkout ``besides``.

    What fails is left for the next run.

    Returns:
        What was completed, in words.
    """
    repository = registry.repository
    completed = []
    for unpushed_result in unpushed_results(repository):
        if unpushed_result.checkout == besides:
            continue
        try:
            message = _complete(registry, settings, unpushed_result)
            if message:
                completed.append(message)
        except BusyError:
            continue  # that run is in progress
        except Exception as error:
            too_old = unpushed_result.age_in_days(repository, time.time()) > GIVE_UP_DAYS
            consequence = "It stays on its branch" if too_old else "The next run tries again"
            get_run_logger().error(
                "The result of %s cannot be completed. %s. %s", unpushed_result.run.name, consequence, error
            )
            if too_old:
                forget_unpushed(repository, unpushed_result.checkout)
            # The other results would wait for the same host in vain.
            if isinstance(error.__cause__, UnreachableError):
                break
    return completed


def _complete(registry: Registry, settings: Settings, unpushed_result: UnpushedResult) -> str:
    """Finish the result of an earlier run, and say what became of it; "" if nothing is left to finish."""
    repository = registry.repository
    run = unpushed_result.run
    spec = unpushed_result.spec
    with isolated(repository, unpushed_result.checkout, spec.commit, spec.overrides) as isolated_checkout:
        committed = None
        if unpushed_result in unpushed_results(repository):
            committed = unpushed_result.committed(repository)
        if committed is None:  # a person removed the branch, or another run completed it
            forget_unpushed(repository, unpushed_result.checkout)
            return ""
        get_run_logger().info(
            "Completing the result of %s, %s, which is not pushed.", run.name, committed.name
        )

        # the checkout as the run left it
        checkout = replace(isolated_checkout, spec=spec)
        repository.git("reset", "--hard", "--quiet", committed.commit, cwd=checkout.path)
        programs = Programs(checkout.path, checkout.name, locks=[checkout.lock])
        pipeline = Pipeline(programs, log_line, settings.lock_wait_seconds)
        pipeline.restore(())

        ended_run = EndedRun(run, checkout, pipeline, registry, settings, unpushed_result.promote, push=True)
        result, version = finish(ended_run)
        outcome = result.branch or "nothing new"
        if version:
            outcome = f"{version.name} in {settings.promotion.stage}"
        _say_completed(run, outcome)
        return f"{run.name} completed: {outcome}"


def _say_completed(run: Run, outcome: str) -> None:
    """Complete a run that failed, on the server of this run, if that server knows it."""
    with get_client(sync_client=True) as client, contextlib.suppress(ObjectNotFound):
        state = client.read_flow_run(UUID(run.id)).state
        if state and state.is_failed():
            message = f"Completed by run {runtime.flow_run.name}: {outcome}"
            client.set_flow_run_state(UUID(run.id), Completed(message=message), force=True)


def _log_checkout(checkout: Checkout) -> None:
    logger = get_run_logger()
    logger.info("Commit %s of %s, in %s", checkout.spec.commit[:12], checkout.spec.ref, checkout.path)
    if checkout.resumed:
        logger.info("Resuming an earlier attempt of this run; the stages it finished are not run again.")


def _warn(messages: Iterable[str]) -> None:
    for message in messages:
        get_run_logger().warning(message)


STOPPED = "Stopped, because the run is being cancelled."


class _Cancelled(logging.Filter):
    """Rewrites Prefect's report of a crash where the run is being cancelled."""

    def filter(self, record: logging.LogRecord) -> bool:
        if str(record.msg).startswith("Crash detected!") and get_intent() == "cancel":
            record.msg = STOPPED
            record.args = ()
            record.levelno = logging.INFO
            record.levelname = logging.getLevelName(logging.INFO)
        return True


_CANCELLED = _Cancelled()


def log_cancellation() -> None:
    """Have the tasks of this process log that they were stopped, and not that they crashed."""
    logging.getLogger("prefect.task_runs").addFilter(_CANCELLED)
