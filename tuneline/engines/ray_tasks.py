"""Tasks on Ray Data: one block per task, worked on by the workers in any order, with the results in the order of the tasks."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from tuneline.engines.cluster import import_ray, ray_cluster
from tuneline.engines.worker import Failure, versions
from tuneline.errors import StageError
from tuneline.records.provenance import ROOT
from tuneline.terminal import progress, say

BLOCK = 1024**2
"""Bytes that Ray reserves for the result of a task before it has seen one; by default so many that one task would run at a time."""

T = TypeVar("T")
R = TypeVar("R")


def map_on_ray(function: Callable[[T], R], tasks: Sequence[T], workers: int | None, name: str) -> Iterator[R]:
    """Do what ``map_tasks`` says on Ray."""
    with progress(name, len(tasks), "tasks") as step, ray_cluster(workers, len(tasks)) as threads:
        finished: dict[int, Any] = {}
        following = 0
        for number, result in _finished(function, tasks, workers, threads, name):
            step.advance(1)
            finished[number] = result
            while following in finished:
                if isinstance(result := finished.pop(following), Failure):
                    raise result.error
                yield result
                following += 1


def _finished(
    function: Callable[[T], R], tasks: Sequence[T], workers: int | None, threads: int, name: str
) -> Iterator[tuple[int, R | Failure]]:
    """Yield number and result of each task when it ends."""
    ray = import_ray()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size = BLOCK
    context.execution_no_progress_timeout_s = -1  # a task may take an hour
    items = [{"number": number, "task": pickle.dumps((function, task))} for number, task in enumerate(tasks)]
    dataset = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        _entry(str(Path.cwd()), str(ROOT), threads, versions()),
        batch_size=1,
        batch_format="pyarrow",
        concurrency=workers,
        num_cpus=1,
    )
    try:
        for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            for row in batch.to_pylist():
                if row["unready"]:
                    raise StageError(row["unready"], "All machines need the project's folder, code and libraries at the same paths.")
                if row["attempt"] > 1:
                    say(f"{name}: the worker of task {row['number'] + 1} was killed; the task was run again.", error=True)
                yield row["number"], pickle.loads(row["result"])  # noqa: S301 - written by a worker of this run
    except ray.exceptions.RayError as error:
        raise StageError(f"Ray cannot go on: {error}", "The tasks that have ended are kept. Run the command again.") from None


def _entry(folder: str, code: str, threads: int, expected: dict[str, str]) -> Callable[[pa.Table], pa.Table]:
    """Return the function that runs on the workers. It is sent by value, since a worker may not find the project's code."""

    def entry(batch: pa.Table) -> pa.Table:
        import os
        import platform
        import sys

        import ray

        result, unready = None, None
        attempt = ray.get_runtime_context().worker.core_worker.get_current_task_attempt_number() + 1
        try:
            os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = str(threads)
            os.chdir(folder)
            if code not in sys.path:
                sys.path.insert(0, code)
            from tuneline.engines.worker import run_task

            unready, result = run_task(batch["task"][0].as_py(), expected, attempt)
        except (OSError, ImportError) as error:
            unready = str(error)
        if unready:
            unready = f"The Ray worker on {platform.node()} cannot work: {unready}."
        unready_, result_ = pa.array([unready], pa.string()), pa.array([result], pa.binary())
        return pa.table({"number": batch["number"], "attempt": [attempt], "unready": unready_, "result": result_})

    return entry
