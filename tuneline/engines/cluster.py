"""The Ray cluster: the one that ``RAY_ADDRESS`` names, or one that is started on this machine and ends with the work."""

import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from tuneline.engines.liveness import server_at, wait_for, watched
from tuneline.errors import ParamsError, StageError
from tuneline.machine import available_cores, threads
from tuneline.terminal import phase

OBJECT_STORE = 100 * 1024**2
"""Bytes of shared memory of a cluster that is started here. Results are small: tasks write files."""
LONGEST_TEMPORARY = 40
"""Characters of the folder in which Ray may create its sockets: their paths are 60 longer, and Linux allows 107."""


@contextmanager
def ray_cluster(workers: int | None, tasks: int | None = None) -> Iterator[int]:
    """Connect to Ray while the block runs; within a block that is connected already, use that cluster.

    Args:
        workers: Tasks at a time on a cluster that is started here; ``None`` for one per core.
        tasks: Number of tasks, if it is known: more workers are not started.

    Yields:
        Threads that a task may compute with: the cores of this machine divided by its workers, or one on a cluster of others.

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
            _connect(ray, "local", num_cpus=workers, object_store_memory=OBJECT_STORE, include_dashboard=False, _temp_dir=folder)
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

    A cluster that is started here gets one of its own, which is in no file; Ray would write one to the home folder. One that is joined
    has that of ``ray get-auth-token``; ``ray start`` uses it wherever it exists, but a program that joins does not.
    """
    if address is None:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    elif {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys() or (Path.home() / ".ray/auth_token").exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def import_ray() -> ModuleType:
    """Import Ray without its notices.

    Raises:
        ParamsError: It is not installed.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # without it, Ray prints a notice about GPUs
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")  # its pages about a killed worker; `_finished` says it in one line
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ParamsError(f"run.engine is ray: {error}.", "Install Ray with `pip install '.[ray]'`, or set run.engine to local.") from None
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
    except (ConnectionError, RuntimeError, ValueError) as error:  # ValueError: not an address; RuntimeError: another version of Ray
        what = "Ray cannot be started" if settings else f"The Ray cluster RAY_ADDRESS={address} cannot be joined"
        hint = "`ray status` shows a cluster on its machines. Without RAY_ADDRESS, Ray is started on this machine."
        raise StageError(f"{what}: {str(error).strip().splitlines()[0]}", None if settings else hint) from None


def _end(started: Sequence[psutil.Process]) -> None:
    """End the processes of Ray that outlive their cluster, as its agents do if its head was killed."""
    for process in started:
        with suppress(psutil.Error):  # it has ended
            if process.name().startswith("ray::"):
                process.kill()


def _temporary_folder() -> str:
    """Return a new folder that only this user can read, whose path is short enough for the sockets of Ray."""
    place = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="ray-", dir=place if len(place) <= LONGEST_TEMPORARY - len("/ray-12345678") else "/tmp")  # noqa: S108
