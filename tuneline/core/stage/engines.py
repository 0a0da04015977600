"""Where work on shards is done: in this process, or on the workers of a Ray cluster (``run.engine``).

The engine is no parameter of the data. A task depends on nothing but its argument and on files, writes a
large result to a file of its own (``replace_file``), and returns a small one. So the files and the results
are the same wherever, in whatever order, and however often a task is run.
"""

import logging
import os
import pickle
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from tuneline.core.runtime.errors import ParamsError, StageError
from tuneline.core.runtime.terminal import phase, progress
from tuneline.core.stage.machine import available_cores, threads

if TYPE_CHECKING:
    from tuneline.core.params.train import RunParams

T = TypeVar("T")
R = TypeVar("R")
OBJECT_STORE = 100 * 1024**2
"""Bytes of shared memory of a cluster that is started here. Results are small: tasks write files."""


def map_tasks(function: Callable[[T], R], tasks: Sequence[T], run: "RunParams", *, name: str) -> Iterator[R]:
    """Run a function on tasks, and yield the results in the order of the tasks.

    Args:
        function: Function of a module (not of ``__main__``), which a worker imports. What is costly to load
            and the same for all tasks, such as a model, it keeps in a ``functools.cache``: a worker runs many
            tasks.
        tasks: Picklable. Paths in them are relative to the current folder, which is that of the workers, too.
        run: Engine and number of workers.
        name: What is shown as the title of the progress, for example ``tokenize``.

    Yields:
        What the function returns: small and picklable.

    Raises:
        StageError: A task failed, the first one in the order of the tasks; or Ray is not installed or cannot
            be reached.
    """
    if run.engine == "local" or not tasks:
        yield from map(function, tasks)
        return
    with progress(name, len(tasks), "tasks") as step, engine(run):
        for result in _map_on_ray(function, tasks, run.workers):
            yield result
            step.advance(1)


@contextmanager
def engine(run: "RunParams") -> Iterator[None]:
    """Keep the engine for all calls of ``map_tasks`` in the block.

    Without it, each of them starts a cluster of its own, unless ``RAY_ADDRESS`` names one.
    """
    if run.engine == "local":
        yield
        return
    address = os.environ.get("RAY_ADDRESS")
    ray = _import_ray(address)
    if ray.is_initialized():
        yield
        return
    settings: dict[str, Any] = {"address": address}
    if address is None:
        settings = {
            "address": "local",
            "num_cpus": run.workers or available_cores(),
            "object_store_memory": OBJECT_STORE,
            "include_dashboard": False,
        }
    phase("connecting to Ray" if address else "starting Ray")
    try:
        ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise StageError(
            f"Ray cannot be used: {str(error).strip().splitlines()[0]}",
            "`ray status` shows the cluster of RAY_ADDRESS. Without it, Ray is started on this machine.",
        ) from None
    phase("")
    try:
        yield
    finally:
        ray.shutdown()


def _import_ray(address: str | None) -> ModuleType:
    """Import Ray, which reads its token then.

    A cluster that is started here gets a token of its own, without which nobody can use it. One that is
    joined has that of ``ray get-auth-token``.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray prints a notice about GPUs
    if address is None:
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    if "RAY_AUTH_TOKEN" in os.environ or (Path.home() / ".ray/auth_token").exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
    except ImportError as error:
        raise ParamsError(
            f"run.engine is ray: {error}.",
            "Install Ray with `pip install '.[ray]'`, or set run.engine to local.",
        ) from None
    return ray


def _map_on_ray(function: Callable[[T], R], tasks: Sequence[T], workers: int | None) -> Iterator[R]:
    """Yield the results of tasks on the cluster, at most ``workers`` of them at a time."""
    ray = _import_ray(os.environ.get("RAY_ADDRESS"))
    task_threads = 1 if "RAY_ADDRESS" in os.environ else threads(workers or available_cores())
    entry = ray.remote(num_cpus=1)(_entry(str(Path.cwd()), task_threads))
    waiting = deque(pickle.dumps((function, task)) for task in tasks)
    running: deque[Any] = deque()
    try:
        while waiting or running:
            while waiting and len(running) < (workers or len(tasks)):
                running.append(entry.remote(waiting.popleft()))
            yield ray.get(running.popleft())
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise StageError(
            f"Ray cannot go on: {error}", "The tasks that have ended are kept. Run the command again."
        ) from None


def _entry(folder: str, task_threads: int) -> Callable[[bytes], Any]:
    """Return the function that runs on the workers.

    It is sent by value, since a worker may not find the project's code.
    """

    def entry(task: bytes) -> Any:
        import os
        import pickle
        import sys

        os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = str(task_threads)
        os.chdir(folder)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        function, argument = pickle.loads(task)  # noqa: S301 - sent by the process that started this work
        return function(argument)

    return entry
