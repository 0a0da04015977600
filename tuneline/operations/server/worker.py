"""A worker in production: clones the repository for Prefect's worker, and ends after its runs.

``python -m tuneline.operations.server.worker`` in the root of the project, whose flows it runs. Arguments are
passed to ``prefect worker start``: ``--work-queue gpu`` serves one queue, not all. Environment variables:

- ``PREFECT_API_URL``: the server.
- ``TUNELINE_ORIGIN``: git address that the repository is cloned from and results are pushed to. Without it
  the worker uses the existing repository.
- ``TUNELINE_REPOSITORY``: path of the clone. Workers of one machine may share it.
- ``TUNELINE_DVC_REMOTE``: address of the DVC remote; overrides the repository's default remote.
- ``TUNELINE_MACHINE_LOCKS``: see flows/train.py.
"""

import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console  # noqa: TID251 - the one that Prefect prints with

from tuneline import NO_TELEMETRY
from tuneline.core.repository.git import GitError
from tuneline.core.repository.programs import run_dvc
from tuneline.core.runtime import processes
from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.files import locked, working_directory
from tuneline.core.runtime.terminal import redacted, say, visible
from tuneline.core.settings import load_settings
from tuneline.operations.runs.repository import REPOSITORY_VARIABLE, Repository
from tuneline.operations.server.deploy import POOL, project_folder

ORIGIN = "TUNELINE_ORIGIN"
DVC_REMOTE = "TUNELINE_DVC_REMOTE"
FLOWS = "TUNELINE_FLOWS"
"""Environment variable that a worker sets for its runs: the folder in which it was started."""
HEARTBEAT = 30
"""Seconds between two heartbeats of a run, as in prefect.yaml (see conf/notifications.yaml)."""
RUNS_END_WITHIN = 45.0
"""Seconds that runs have to end after their worker.

They stop their programs within 27 s (tuneline/core/repository/programs.py), and then report.
"""
WORKER_ENDS_WITHIN = 10
"""Seconds that Prefect's worker has to end, before it is killed."""
CLONE_WAIT = 1800.0
"""Seconds to wait for another worker that is cloning."""


def main() -> None:
    """Clone the repository if it is missing, and run the worker."""
    folder = project_folder()
    try:
        repository = prepare_repository()
        # Report invalid settings now, and not at the first scheduled run.
        training = load_settings(repository.root).training
    except Exception as error:
        sys.exit(visible(redacted(f"{type(error).__name__}: {error}")))
    if os.environ.get(ORIGIN) and not training.push:
        say(
            f"Results stay in {repository.root}. To push them, set training.ref and training.push in"
            f" conf/flows.yaml of {ORIGIN}.",
            error=True,
        )

    # the environment of the runs, which use the same flows
    os.environ.update(worker_settings(os.environ))
    python_path = [str(folder)]
    if os.environ.get("PYTHONPATH"):
        python_path.append(os.environ["PYTHONPATH"])
    os.environ["PYTHONPATH"] = os.pathsep.join(python_path)

    start = ["worker", "start", "--pool", POOL, "--type", "process", "--install-policy", "never"]
    # Prefect's worker keeps files of its runs in a folder of one name for all users of the machine.
    with tempfile.TemporaryDirectory(prefix="tuneline-") as temporary:
        os.environ["TMPDIR"] = temporary
        code = run_worker([sys.executable, "-m", "prefect", *start, *sys.argv[1:]])
    sys.exit(code)


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
        # Prefect's worker misses the signal if it cannot print: its terminal may be closed.
        signal.alarm(WORKER_ENDS_WITHIN)

    signal.signal(signal.SIGTERM, stop)
    # Its terminal was closed; under nohup it works on.
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, stop)

    # Wait for the worker, and then for its runs, which are children of this process now.
    code = None
    until = math.inf
    while time.monotonic() < until:
        try:
            ended, status = os.waitpid(-1, 0 if code is None else os.WNOHANG)
        except ChildProcessError:
            break
        if ended == worker.pid:
            code = os.waitstatus_to_exitcode(status)
            until = time.monotonic() + RUNS_END_WITHIN
        elif not ended:
            time.sleep(0.2)
    if code is None or code < 0:
        return 1
    return code


def enter() -> dict[str, str]:
    """Change to the folder of the flows on this machine: the step ``pull`` of each run (``prefect.yaml``).

    Prefect's worker starts a run in a temporary folder.
    """
    folder = os.environ.get(FLOWS)
    if folder is None:
        raise StageError(
            f"{FLOWS} is not set.", "Start the worker with `python -m tuneline.operations.server.worker`."
        )
    os.chdir(folder)
    return {"directory": folder}


def end_with_worker() -> None:
    """Make this process end when the worker that started it has ended, however that ended.

    Without a worker, do nothing. A worker that is killed cannot stop its flows, which would continue beside
    the attempt that replaces them.
    """
    if "PREFECT__FLOW_RUN_ID" not in os.environ:  # set by a worker
        return

    def stay_silent(console: Console) -> None:
        console.quiet = True

    # The worker reads the output of this process. Once it is gone, rich would exit in the middle of a log
    # call, before the signal, and nothing would be reported.
    Console.on_broken_pipe = stay_silent  # type: ignore[assignment, method-assign]
    # Not by the kernel, which would count the end of the worker's thread that started this run.
    processes.end_with_parent(kernel=False)


def worker_settings(env: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    """Return a worker's environment: ``env``, with defaults for what it does not set, and the current folder.

    The defaults are no telemetry, heartbeats, and a look for new runs every second.
    """
    defaults = {
        **NO_TELEMETRY,
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT),
    }
    return {**defaults, **env, FLOWS: str(Path.cwd())}


def prepare_repository() -> Repository:
    """Return the repository of this worker, cloned if it is missing, else updated from its origin.

    Raises:
        GitError: There is no repository.
    """
    repository = Repository.here()
    origin = os.environ.get(ORIGIN)
    if origin:
        if not os.environ.get(REPOSITORY_VARIABLE):
            raise GitError(
                f"{ORIGIN} is set, but {REPOSITORY_VARIABLE} is not. Set it to the path of the clone."
            )
        repository.root.mkdir(parents=True, exist_ok=True)
        with locked(repository.root.with_name(f"{repository.root.name}.lock"), wait=CLONE_WAIT):
            if (repository.root / ".git").exists():
                _update(repository)
            else:
                _clone(repository, origin)
    if not (repository.root / ".dvc").is_dir():
        raise GitError(
            f"{repository.root} is not a DVC repository (no .dvc). Set {ORIGIN} to the git address of one."
        )

    remote = os.environ.get(DVC_REMOTE)
    if remote:
        _set_dvc_remote(repository, remote)
    return repository


def _clone(repository: Repository, origin: str) -> None:
    """Clone into a temporary folder and rename it: an interrupted clone is not taken for a complete one."""
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
    error = run_dvc(repository.root, "remote", "add", "--local", "--default", "--force", "worker", url)
    if error:
        raise GitError(redacted(f"{DVC_REMOTE}: dvc remote add {url}: {error}"))


if __name__ == "__main__":
    main()
