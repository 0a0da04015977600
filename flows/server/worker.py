"""A worker in production: gives Prefect's worker a clone of the line's repository, and time to its runs when it is stopped.

``python -m flows.server.worker``. Arguments go to ``prefect worker start``. The environment says the rest:

- ``PREFECT_API_URL``: the server.
- ``TUNELINE_ORIGIN``: git address that the line's repository is cloned from and results are pushed to. Without it the worker
  uses the repository that is there.
- ``TUNELINE_REPOSITORY``: where the clone goes. Workers of one machine may share it.
- ``TUNELINE_DVC_REMOTE``: address of the DVC remote, over the default one that the repository names.
"""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from flows.runs.guardian import adopt_orphans
from flows.runs.locks import locked
from flows.runs.repository import PLACE, GitError, Repository
from flows.server.deploy import POOL
from flows.settings import load_settings

ORIGIN, DVC_REMOTE = "TUNELINE_ORIGIN", "TUNELINE_DVC_REMOTE"
HEARTBEAT = 30
"""Seconds between two heartbeats of a run (see flows/server/automations.py)."""
RUNS_END_WITHIN = 45.0
"""Seconds that runs have after their worker ended: they stop what they started within 27 (flows/runs/processes.py), then report."""
CLONE_WAIT = 1800.0
"""Seconds to wait for another worker that makes the clone."""


def main() -> None:
    """Makes the clone where it is missing, and runs the worker."""
    try:
        repository = prepare()
        load_settings(repository.root)  # a fault in them is told now, not at two in the morning
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
    os.environ.update(worker_settings(os.environ))
    subprocess.run([sys.executable, "-m", "flows.server.heartbeats"], check=False)
    fixed = ["--pool", POOL, "--type", "process", "--install-policy", "never"]
    sys.exit(stay([sys.executable, "-m", "prefect", "worker", "start", *fixed, *sys.argv[1:]]))


def stay(command: Sequence[str]) -> int:
    """Runs the worker, and waits for the runs it leaves when it is stopped.

    Prefect's worker ends at once; its runs notice, save a checkpoint and report. A container would end with its first
    process, before they can.

    Returns:
        The worker's exit code.
    """
    adopt_orphans()
    # The terminal sends SIGINT to the worker, too. Set before it starts: what a script starts in the background ignores SIGINT, and
    # so would Prefect's worker, which ends itself by one; a handler is not inherited.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    worker = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda number, _frame: worker.send_signal(number))
    code, until = None, math.inf
    while time.monotonic() < until:
        try:
            ended, status = os.waitpid(-1, 0 if code is None else os.WNOHANG)
        except ChildProcessError:
            break
        if ended == worker.pid:
            code, until = os.waitstatus_to_exitcode(status), time.monotonic() + RUNS_END_WITHIN
        elif not ended:
            time.sleep(0.2)
    return code if code is not None and code >= 0 else 1


def worker_settings(env: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """What a worker's environment needs, where nobody said otherwise: no telemetry, heartbeats."""
    quiet = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_CLI_PROMPT": "false"}
    return {**quiet, "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT), **env}


def prepare() -> Repository:
    """The repository of this worker: cloned where it is missing, else brought up to date with its origin.

    Raises:
        GitError: There is none, and none can be cloned.
    """
    repository, origin = Repository.here(), os.environ.get(ORIGIN)
    if origin:
        if not os.environ.get(PLACE):
            raise GitError(f"{ORIGIN} is set: say with {PLACE} where the clone goes.")
        repository.root.mkdir(parents=True, exist_ok=True)
        with locked(repository.root.with_name(f"{repository.root.name}.lock"), wait=CLONE_WAIT):
            _update(repository) if (repository.root / ".git").exists() else _clone(repository, origin)
    if not (repository.root / ".dvc").is_dir():
        raise GitError(f"{repository.root} holds no line (no .dvc). Name the git address of one with {ORIGIN}.")
    if remote := os.environ.get(DVC_REMOTE):
        _set_dvc_remote(repository, remote)
    return repository


def _clone(repository: Repository, origin: str) -> None:
    """Beside, then renamed: a clone that was cut off does not look like one."""
    if any(repository.root.iterdir()):
        raise GitError(f"{repository.root} is neither a clone nor empty. Move away what is in it, or name another folder with {PLACE}.")
    partial = repository.root.with_name(f".{repository.root.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    print(f"Cloning {repository.root} from {ORIGIN}", flush=True)
    repository.git("clone", "--quiet", "--", origin, str(partial), cwd=repository.root.parent)
    repository.root.rmdir()
    partial.rename(repository.root)


def _update(repository: Repository) -> None:
    """The working tree holds what runs go by (conf/flows.yaml). What cannot be had now is had at the next start."""
    try:
        repository.git("pull", "--quiet", "--ff-only", "--tags")
    except GitError as error:
        print(f"Going on with the clone as it is. {error}", file=sys.stderr, flush=True)


def _set_dvc_remote(repository: Repository, url: str) -> None:
    """In the clone's own settings, which git does not keep."""
    command = [sys.executable, "-m", "dvc", "remote", "add", "--quiet", "--local", "--default", "--force", "worker", url]
    subprocess.run(command, cwd=repository.root, check=True)


if __name__ == "__main__":
    main()
