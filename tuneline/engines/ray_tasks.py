"""Tasks on Ray Data: one block per task.

The workers take them in any order; the results come in the order of the tasks.
"""

import functools
import importlib.metadata
import logging
import os
import pickle
import platform
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import psutil
import pyarrow as pa

from tuneline.core.machine import available_cores, threads
from tuneline.core.pipeline_code import CODE, ROOT, code_hash
from tuneline.runtime.errors import ParamsError, StageError
from tuneline.runtime.terminal import phase, progress, say

T = TypeVar("T")
R = TypeVar("R")
Server = tuple[str, int]
"""Host and port."""

BLOCK = 1024**2
"""Bytes that Ray reserves for the result of a task before it has seen one.

By default it reserves so many that one task would run at a time.
"""
LIBRARIES = ("numpy", "onnxruntime", "pyarrow", "tokenizers", "torch", "transformers")
"""Libraries that the bytes of the results depend on."""
ATTEMPTS = 4
"""How often a task is run whose worker is killed.

Ray would run one that needs more memory than there is for ever.
"""
OBJECT_STORE = 100 * 1024**2
"""Bytes of shared memory of a cluster that is started here. Results are small: tasks write files."""
LONGEST_TEMPORARY = 40
"""Most characters of the folder of Ray's sockets: their paths are 60 longer, and Linux allows 107."""
SECONDS = 2.0
"""Time between two questions to the servers."""
CONNECT_SECONDS = 5.0
"""Seconds that a server may take to answer."""


@dataclass(frozen=True)
class Failure:
    """A task that ended with an error, instead of its result."""

    error: Exception


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
                    raise StageError(
                        row["unready"],
                        "All machines need the project's folder, code and libraries at the same paths.",
                    )
                if row["attempt"] > 1:
                    say(
                        f"{name}: the worker of task {row['number'] + 1} was killed; the task was run again.",
                        error=True,
                    )
                yield row["number"], pickle.loads(row["result"])  # noqa: S301 - written by a worker of this run
    except ray.exceptions.RayError as error:
        raise StageError(
            f"Ray cannot go on: {error}", "The tasks that have ended are kept. Run the command again."
        ) from None


def _entry(folder: str, code: str, threads: int, expected: dict[str, str]) -> Callable[[pa.Table], pa.Table]:
    """Return the function that runs on the workers.

    It is sent by value, since a worker may not find the project's code.
    """

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
            from tuneline.engines.ray_tasks import run_task

            unready, result = run_task(batch["task"][0].as_py(), expected, attempt)
        except (OSError, ImportError) as error:
            unready = str(error)
        if unready:
            unready = f"The Ray worker on {platform.node()} cannot work: {unready}."
        unready_, result_ = pa.array([unready], pa.string()), pa.array([result], pa.binary())
        return pa.table(
            {"number": batch["number"], "attempt": [attempt], "unready": unready_, "result": result_}
        )

    return entry


@functools.cache
def versions() -> dict[str, str]:
    """Return what results depend on besides tasks: versions of Python and the libraries, hash of the code."""
    libraries = {name: importlib.metadata.version(name).partition("+")[0] for name in LIBRARIES}
    code = code_hash(ROOT, [name for name in CODE if (ROOT / name).exists()])
    return {
        "Python": platform.python_version().rpartition(".")[0],
        **libraries,
        "the project's code": code[:12],
    }


def run_task(task: bytes, expected: dict[str, str], attempt: int) -> tuple[str | None, bytes | None]:
    """Run a pickled function and argument, unless this worker would give another result than the sender.

    Return the reason not to run it, or the pickled result, which is a ``Failure`` after an error. ``attempt``
    is more than 1 if the worker was killed.
    """
    here = versions()
    differences = []
    for name, value in expected.items():
        if here.get(name) != value:
            differences.append(f"{name} is {here.get(name)} there and {value} here")
    if differences:
        return "; ".join(differences), None

    function, argument = pickle.loads(task)  # noqa: S301 - sent by the process that started this work
    if attempt > ATTEMPTS:
        problem = f"{argument}: the worker of Ray was killed {ATTEMPTS} times in this task."
        hint = "If its memory is too small: set run.workers or data.shard_rows lower."
        return None, pickle.dumps(Failure(StageError(problem, hint)))

    try:
        return None, pickle.dumps(function(argument))
    except StageError as error:
        return None, pickle.dumps(Failure(error))
    except Exception as error:
        return None, pickle.dumps(Failure(_portable(error)))


def _portable(error: Exception) -> Exception:
    """Return an unexpected error as it can be sent, with the traceback of the worker."""
    trace = traceback.format_exc()
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"On the Ray worker of {platform.node()}:\n{trace}")
    return error


@contextmanager
def ray_cluster(workers: int | None, tasks: int | None = None) -> Iterator[int]:
    """Connect to Ray while the block runs; within a block that is connected already, use that cluster.

    A cluster that is started here has as many workers as there are cores or tasks, at most. Yield the threads
    that a task may compute with: the cores of this machine divided by its workers, or one on a cluster of
    others.

    Raises:
        ParamsError: Ray is not installed.
        StageError: The cluster cannot be started or joined, or ends while the block runs.
    """
    address = os.environ.get("RAY_ADDRESS")
    _authenticate(address)
    ray = import_ray()
    workers = min(workers or available_cores(), tasks or sys.maxsize)
    task_threads = 1 if address else threads(workers)
    if ray.is_initialized():
        yield task_threads
        return
    phase("connecting to Ray" if address else "starting Ray")
    folder = None if address else _temporary_folder()
    try:
        if folder is None:
            _connect(ray, str(address))
        else:
            _connect(
                ray,
                "local",
                num_cpus=workers,
                object_store_memory=OBJECT_STORE,
                include_dashboard=False,
                _temp_dir=folder,
            )
        phase("")
        with watched(ray, tolerated=5 if address else 0):  # 10 seconds, for a network that fails for a moment
            yield task_threads
    finally:
        started = [] if folder is None else psutil.Process().children(recursive=True)
        ray.shutdown()
        _end(started)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _authenticate(address: str | None) -> None:
    """Set what Ray reads when it is imported: the token without which nobody can use the cluster.

    A cluster that is started here gets one of its own, which is in no file; Ray would write one to the home
    folder. One that is joined has that of ``ray get-auth-token``; ``ray start`` uses it wherever it exists,
    but a program that joins does not.
    """
    if address is None:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    elif {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys() or (
        Path.home() / ".ray/auth_token"
    ).exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def import_ray() -> ModuleType:
    """Import Ray without its notices; a ``ParamsError`` if it is not installed."""
    # Without this, Ray prints a notice about GPUs.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Without this, it prints pages about a killed worker, which `_finished` says in one line.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ParamsError(
            f"run.engine is ray: {error}.",
            "Install Ray with `pip install '.[ray]'`, or set run.engine to local.",
        ) from None
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    return ray


def _connect(ray: ModuleType, address: str, **settings: Any) -> None:
    if address.startswith("ray://"):
        hint = "Run the command on a machine (in a pod) of the cluster, with RAY_ADDRESS=auto."
        raise StageError(f"RAY_ADDRESS is {address}: Ray Data does not work through Ray Client.", hint)
    try:
        if ":" in address:
            wait_for(server_at(address))  # Ray itself waits for minutes
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **settings)
    # ValueError: not an address; RuntimeError: another version of Ray
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        if settings:
            raise StageError(f"Ray cannot be started: {reason}", None) from None
        hint = (
            "`ray status` shows a cluster on its machines. Without RAY_ADDRESS, Ray is started on this"
            " machine."
        )
        raise StageError(f"The Ray cluster RAY_ADDRESS={address} cannot be joined: {reason}", hint) from None


def _end(started: Sequence[psutil.Process]) -> None:
    """End the processes of Ray that outlive their cluster, as its agents do if its head was killed."""
    for process in started:
        with suppress(psutil.Error):  # it has ended
            if process.name().startswith("ray::"):
                process.kill()


def _temporary_folder() -> str:
    """Return a new folder that only this user can read, whose path is short enough for the sockets of Ray."""
    folder = tempfile.gettempdir()
    if len(folder) > LONGEST_TEMPORARY - len("/ray-12345678"):
        folder = "/tmp"  # noqa: S108 - mkdtemp makes a new folder in it
    return tempfile.mkdtemp(prefix="ray-", dir=folder)


@contextmanager
def watched(ray: ModuleType, tolerated: int) -> Iterator[None]:
    """Interrupt the block, as Ctrl-C does, when the cluster's head or the node of this process has ended.

    It is for the main thread.

    They may fail to answer as many times in succession as is ``tolerated``.

    Raises:
        StageError: One of them has ended.
    """
    lost = threading.Event()
    ended = threading.Event()
    main = threading.get_ident()
    watched_servers = servers(ray)

    def watch() -> None:
        silences = 0
        while not ended.wait(SECONDS):
            silences += 1
            if all(map(answers, watched_servers)):
                silences = 0
            if silences > tolerated and not ended.is_set():
                lost.set()
                signal.pthread_kill(main, signal.SIGUSR1)
                return

    # not SIGINT, which background jobs of a shell ignore
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        if not lost.is_set():
            raise
        hint = (
            "The tasks that have ended are kept. Run the command again, with a lower run.workers if memory is"
            " short."
        )
        raise StageError(
            "The Ray cluster has ended: its servers were killed or cannot be reached.", hint
        ) from None
    finally:
        ended.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def servers(ray: ModuleType) -> Sequence[Server]:
    """Return host and port of the cluster's head (GCS) and of the node of this process (raylet)."""
    context = ray.get_runtime_context()
    own = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    return server_at(context.gcs_address), (own["NodeManagerAddress"], own["NodeManagerPort"])


def server_at(address: str) -> Server:
    """Return host and port of an address such as ``10.0.0.1:6379``."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def wait_for(server: Server) -> None:
    """Return when a server accepts connections: a cluster may be starting.

    Raises:
        ConnectionError: It does not within 20 seconds.
    """
    deadline = time.monotonic() + 20
    while not answers(server):
        if time.monotonic() > deadline:
            raise ConnectionError("nothing answers there.")
        time.sleep(1)


def answers(server: Server) -> bool:
    """Return True if a server accepts connections."""
    try:
        socket.create_connection(server, CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
