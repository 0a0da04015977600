"""Flow ``train``: runs the pipeline for a commit in a checkout of its own, and commits the result.

A model that is better than the one in production replaces it; docs/promotion.md defines "better".

One training runs at a time on a machine, across deployments, workers and clones. Its lock is a file of the
machine that the operating system locks. The supervisor of each program of the run inherits it: the next
training starts when the last process of the one before has ended, however it ended.
"""

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, runtime, task
from prefect.client.schemas import State
from prefect.states import Completed

from tuneline.core.repository.dvc import require_remote
from tuneline.core.repository.programs import Programs
from tuneline.core.runtime.files import BusyError, lock, unlock
from tuneline.core.settings import Ref, Settings, load_settings
from tuneline.operations.promotion.outcome import EndedRun, finish
from tuneline.operations.promotion.registry import Registry, fetch_reference
from tuneline.operations.runs.checkout import Checkout, isolated
from tuneline.operations.runs.commits import Run, metrics_summary
from tuneline.operations.runs.pipeline import UNCACHED, Graph, Pipeline, log_line, stage_task
from tuneline.operations.runs.repository import Repository, safe_name
from tuneline.operations.server.worker import end_with_worker

STAGE = "train"
"""The stage that trains. From it on a run has the machine to itself: later stages measure speed."""
MACHINE_LOCKS = "TUNELINE_MACHINE_LOCKS"
"""Environment variable with the folder of the lock: workers with the same folder train one at a time."""


@dataclass(frozen=True)
class TrainingLock:
    """The right to train on this machine.

    Attributes:
        descriptor: File descriptor of the lock, for processes that must end before the next training starts.
    """

    descriptor: int

    def acquire(self, run: str, on_line: Callable[[str], None]) -> None:
        """Wait until no other run trains here, and say when that begins and ends.

        A signal whose handler raises ends the wait.
        """
        try:
            lock(self.descriptor, wait=0)
        except BusyError:
            holder = os.pread(self.descriptor, 200, 0).decode(errors="replace") or "another run"
            on_line(f"Waits for run {holder}, which trains on this machine.")
            lock(self.descriptor)
            on_line("Trains now.")

        # The file names its holder to the runs that wait.
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, run.encode(), 0)

    def release(self) -> None:
        """Let the next run train. Without it, that happens when all processes of this run have ended."""
        unlock(self.descriptor)


@contextlib.contextmanager
def machine_training_lock() -> Iterator[TrainingLock]:
    """Open the lock of this machine, without locking it."""
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(folder / "machine", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield TrainingLock(file)
    finally:
        os.close(file)


def _folder() -> Path:
    """Return the folder of the lock, named after the machine: a home folder may be on several machines."""
    folder = os.environ.get(MACHINE_LOCKS)
    if folder:
        return Path(folder)
    return Path.home() / ".cache" / "tuneline" / "locks" / socket.gethostname()


@flow(name="train", persist_result=False)
def train(
    ref: Ref | None = None,
    push: bool | None = None,
    promote: bool = True,
) -> State[Any]:
    """Run the pipeline and commit the result.

    Args:
        ref: Branch, tag or commit to run; default: `training.ref`. One of a remote (`origin/main`) is fetched
            first.
        push: Push the result (weights: if promoted) to the DVC remote, commit and tags to git remote
            `origin`; default: `training.push`.
        promote: Put the model into production if it is better than the one there.
    """
    # settings
    repository = Repository.here(log=get_run_logger().warning)
    settings = load_settings(repository.root)
    end_with_worker()

    # what to run
    if push is None:
        push = settings.training.push
    if push:
        require_remote(repository.root)
    name = f"{safe_name(runtime.flow_run.name)}-{runtime.flow_run.id[:8]}"
    with isolated(repository, name, ref or settings.training.ref) as checkout:
        return _run(repository, settings, checkout, push=push, promote=promote)


def _run(
    repository: Repository, settings: Settings, checkout: Checkout, *, push: bool, promote: bool
) -> State[Any]:
    """Run the stages in a checkout, commit and publish the result, and return the state of the run."""
    _log_checkout(checkout)
    registry = Registry(repository)
    if push:
        registry.fetch_if_possible()  # the run needs origin only at its end

    with machine_training_lock() as machine:
        # Programs inherit the lock: the next training starts when the last of them has ended.
        programs = Programs(checkout.path, checkout.name, locks=[checkout.lock, machine.descriptor])
        pipeline = Pipeline(programs, log_line, settings.lock_wait_seconds)
        for stage in prepare(pipeline, registry).stages:
            if stage == STAGE:
                machine.acquire(checkout.name, log_line)
            stage_task(stage, settings.policy(stage))(pipeline)
        machine.release()

        run = Run(runtime.flow_run.id, safe_name(runtime.flow_run.name))
        result, version = finish(EndedRun(run, checkout, pipeline, registry, settings, promote, push))

    # how the run ended, with its metrics
    facts = [metrics_summary(checkout)]
    if version:
        facts.append(f"{version.name} in production")
    facts.append(f"{result.branch or 'nothing new'}, commit {result.commit[:12]}")
    hold = registry.on_hold()
    if hold:
        facts.append(hold)
    name = "Completed" if result.branch or version else "NothingNew"
    return Completed(message="; ".join(facts), name=name)


@task(name="prepare", task_run_name="prepare", **UNCACHED)
def prepare(pipeline: Pipeline, registry: Registry) -> Graph:
    """Read the graph, restore what the cache has, and fetch production's profile."""
    graph = pipeline.graph()
    pipeline.restore(graph.sources)

    version = fetch_reference(pipeline.programs.cwd, registry)
    if version:
        pipeline.on_line(f"The data will be compared with those of {version.name}, which is in production.")
    return graph


def _log_checkout(checkout: Checkout) -> None:
    logger = get_run_logger()
    logger.info("Commit %s of %s, in %s", checkout.commit[:12], checkout.ref, checkout.path)
    if checkout.resumed:
        logger.info("Resuming an earlier attempt of this run; the stages it finished are not run again.")
