"""A worker in production: clones the repository for Prefect's worker; its runs end when it ends, and it waits for them.

``python -m flows.server.worker``. Arguments are passed to ``prefect worker start``: ``--work-queue gpu``
serves one queue, not all. Environment variables:

- ``PREFECT_API_URL``: the server.
- ``TUNELINE_ORIGIN``: git address that the repository is cloned from and results are pushed to. Without it
  the worker uses the existing repository.
- ``TUNELINE_REPOSITORY``: path of the clone. Workers of one machine may share it.
- ``TUNELINE_DVC_REMOTE``: address of the DVC remote; overrides the repository's default remote.
- ``TUNELINE_MACHINE_LOCKS``, ``CUDA_VISIBLE_DEVICES``: see flows/train.py.
"""

import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence

from rich.console import Console  # noqa: TID251 - the one that Prefect prints with

from flows.runs.repository import REPOSITORY_VARIABLE, Repository
from flows.server.deploy import POOL, ROOT
from tuneline import NO_TELEMETRY
from tuneline.core import processes
from tuneline.core.atomic_files import working_directory
from tuneline.core.locks import locked
from tuneline.core.terminal import say, visible
from tuneline.project.programs import run_dvc
from tuneline.project.worktrees import GitError
from tuneline.readers.files import redacted
from tuneline.settings import load_settings

ORIGIN, DVC_REMOTE = "TUNELINE_ORIGIN", "TUNELINE_DVC_REMOTE"
HEARTBEAT = 30
"""Seconds between two heartbeats of a run, as in prefect.yaml (see flows/server/crashes.py)."""
RUNS_END_WITHIN = 45.0
"""Seconds that runs have to end after their worker: they stop their programs within 27 (flows/runs/processes.py), then report."""
WORKER_ENDS_WITHIN = 10
"""Seconds that Prefect's worker has to end, before it is killed."""
CLONE_WAIT = 1800.0
"""Seconds to wait for another worker that is cloning."""


class RemoteError(Exception):
    """The DVC remote cannot be set; the message is DVC's, without the password of the address."""


def main() -> None:
    """Clone the repository if it is missing, and run the worker."""
    try:
        repository = prepare_repository()
        training = load_settings(
            repository.root
        ).training  # report invalid settings now, not at the first scheduled run
    except Exception as error:
        sys.exit(visible(redacted(f"{type(error).__name__}: {error}")))
    if os.environ.get(ORIGIN) and not training.push:
        say(
            f"Results stay in {repository.root}. To push them, set training.ref and training.push in"
            f" conf/flows.yaml of {ORIGIN}.",
            error=True,
        )
    os.environ.update(worker_settings(os.environ))
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )  # runs use the same flows
    fixed = ["--pool", POOL, "--type", "process", "--install-policy", "never"]
    with tempfile.TemporaryDirectory(
        prefix="tuneline-"
    ) as results:  # Prefect writes the exception of each failed run, which nobody reads
        os.environ.setdefault("PREFECT_LOCAL_STORAGE_PATH", results)
        sys.exit(
            run_worker(
                [
                    sys.executable,
                    "-m",
                    "flows.server.prefect_worker",
                    "worker",
                    "start",
                    *fixed,
                    *sys.argv[1:],
                ]
            )
        )


def run_worker(command: Sequence[str]) -> int:
    """Run the worker; when it is stopped, wait until its runs have ended. Return its exit code.

    Prefect's worker ends at once; its runs notice, save a checkpoint and report. A container ends with its
    first process, so this process must outlive them.
    """
    processes.adopt_orphans()
    # The terminal sends SIGINT to the worker as well. Set before the worker starts: a script's background
    # process ignores SIGINT, and so would Prefect's worker, which ends itself by SIGINT; a handler is not
    # inherited.
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    # If this process is killed, Prefect's worker must not take more runs. Its runs notice, and save.
    worker = processes.start(command, orphaned=signal.SIGKILL)
    signal.signal(signal.SIGALRM, lambda _number, _frame: worker.kill())

    def stop(_number: int, _frame: object) -> None:
        worker.send_signal(signal.SIGTERM)
        signal.alarm(
            WORKER_ENDS_WITHIN
        )  # Prefect's worker misses the signal if it cannot print: its terminal may be closed

    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # its terminal was closed; under nohup it works on
        signal.signal(signal.SIGHUP, stop)
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


def enter() -> dict[str, str]:
    """Change to the folder of the flows, wherever it is on this machine: the step ``pull`` in ``prefect.yaml`` of each run."""
    os.chdir(ROOT)
    return {"directory": str(ROOT)}


def end_with_worker() -> None:
    """Make this process end when the worker that started it has ended, however that ended.

    Without a worker, do nothing.

    A worker that is killed cannot stop its flows. They would continue beside the attempt that replaces them.
    """
    if "PREFECT__FLOW_RUN_ID" not in os.environ:  # set by a worker
        return

    def stay_silent(console: Console) -> None:
        console.quiet = True

    # The worker reads the output of this process. Once it is gone, rich would exit in the middle of a log
    # call, before the signal, and nothing would be reported.
    Console.on_broken_pipe = stay_silent  # type: ignore[assignment, method-assign]
    processes.end_with_parent(
        kernel=False
    )  # which would count the end of the worker's thread that started this run


def worker_settings(env: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """Return a worker's environment: no telemetry, heartbeats, a look for new runs every second, unless ``env`` sets them."""
    polling = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT)}
    return {**NO_TELEMETRY, "PREFECT_CLI_PROMPT": "false", **polling, **env}


def prepare_repository() -> Repository:
    """Return the repository of this worker, cloned if it is missing, else updated from its origin; a ``GitError`` if there is none."""
    repository, origin = Repository.here(), os.environ.get(ORIGIN)
    if origin:
        if not os.environ.get(REPOSITORY_VARIABLE):
            raise GitError(
                f"{ORIGIN} is set, but {REPOSITORY_VARIABLE} is not. Set it to the path of the clone."
            )
        repository.root.mkdir(parents=True, exist_ok=True)
        with locked(repository.root.with_name(f"{repository.root.name}.lock"), wait=CLONE_WAIT):
            _update(repository) if (repository.root / ".git").exists() else _clone(repository, origin)
    if not (repository.root / ".dvc").is_dir():
        raise GitError(
            f"{repository.root} is not a DVC repository (no .dvc). Set {ORIGIN} to the git address of one."
        )
    if remote := os.environ.get(DVC_REMOTE):
        _set_dvc_remote(repository, remote)
    return repository


def _clone(repository: Repository, origin: str) -> None:
    """Clone into a temporary folder and rename it, so that an interrupted clone is not taken for a complete one."""
    if any(repository.root.iterdir()):
        raise GitError(
            f"{repository.root} is neither a clone nor empty. Empty it, or set {REPOSITORY_VARIABLE} to"
            " another folder."
        )
    say(f"Cloning {repository.root} from {ORIGIN}")
    with working_directory(repository.root) as partial:
        repository.git("clone", "--quiet", "--", origin, str(partial), cwd=repository.root.parent)
        repository.root.rmdir()
        partial.rename(repository.root)


def _update(repository: Repository) -> None:
    """Update the working tree, which has the settings of runs (conf/flows.yaml).

    If that fails, continue until the next start.
    """
    try:
        repository.git("pull", "--ff-only")
    except GitError as error:
        say(f"Continuing with the clone as it is. {error}", error=True)


def _set_dvc_remote(repository: Repository, url: str) -> None:
    """Write the DVC remote to the clone's local settings, which are not in git."""
    if reason := run_dvc(repository.root, "remote", "add", "--local", "--default", "--force", "worker", url):
        raise RemoteError(redacted(f"{DVC_REMOTE}: dvc remote add {url}: {reason}"))


if __name__ == "__main__":
    main()
