"""Programs in a working tree: the environment they need, and the one way to run what may take long.

Flows and experiments start DVC, trainings and exports with ``running``. They end with this process, however
it ends; a training that is stopped has the time to save a checkpoint.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tuneline.core.paths import SITE_CACHE
from tuneline.core.runtime.processes import supervised
from tuneline.core.runtime.terminal import visible

STOPPED_WITHIN = 27.0
"""Seconds that a stopped program may take to end.

Its supervisor kills what is left of it after 23; Prefect kills a flow after 30.
"""


@contextlib.contextmanager
def running(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    output: IO[Any] | None,
    drained: int,
    locks: Sequence[int],
    leader_last: bool,
    patience: float = STOPPED_WITHIN,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command below a supervisor. After the block, nothing that the command has started is left.

    An exception in the block (Ctrl-C, a cancellation, a timeout) stops the command and its descendants, and
    so does the end of this process, however it ends.

    Args:
        command: The program and its arguments; no shell interprets them.
        cwd: Folder that the command works in.
        env: Its whole environment.
        output: File that it prints to; ``None`` for what this process prints to.
        drained: File descriptor that the supervisor reads to its end if this process is killed: the pipe that
            the command prints to, which nobody else would read then.
        locks: File descriptors of locks, which the supervisor holds until the last process has ended.
        leader_last: True for DVC, which is stopped after its stage, so that ``dvc.lock`` is complete.
        patience: Seconds from an exception in the block until the supervisor is killed.

    Yields:
        The supervisor. Its exit code is the exit code of the command, 128 + N if signal N ended the command,
        and -N if signal N ended the supervisor.
    """
    supervisor = subprocess.Popen(
        supervised(command, drained, leader_last=leader_last),
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=[drained, *locks],
        start_new_session=True,  # Ctrl-C reaches this process only, which stops the others in order
    )
    try:
        yield supervisor
        supervisor.wait()
    except BaseException:
        supervisor.terminate()
        try:
            supervisor.wait(patience)
        except subprocess.TimeoutExpired:
            _kill_group(supervisor)
            supervisor.wait()
        raise
    finally:
        # Nothing may be left of the command, however the block ended.
        code = supervisor.poll()
        if code is not None and code < 0:  # the supervisor was killed, and could not end the others
            _kill_group(supervisor)


def _kill_group(supervisor: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(supervisor.pid, signal.SIGKILL)


def program_environment() -> dict[str, str]:
    """Return the environment of programs in a working tree: this one, with ``python`` as stages expect it.

    ``PYTHONPATH`` is left out: the code of a working tree must not come from the folder that this process
    was started with.
    """
    environment = os.environ | python_first()
    environment.pop("PYTHONPATH", None)
    return environment


def python_first() -> dict[str, str]:
    """Return variables with which ``python`` is the program that runs this process, and prints at once."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "PYTHONUNBUFFERED": "1"}


def site_cache(root: Path) -> dict[str, str]:
    """Return the variable that gives DVC a site cache in the project, and create its folder.

    Only this user may open the folder. DVC would create one for all users of the machine.
    """
    if not (root / ".dvc").is_dir():
        return {}
    folder = root.absolute() / SITE_CACHE
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {"DVC_SITE_CACHE_DIR": str(folder)}


def dvc_command(*arguments: str) -> list[str]:
    """Return the command that runs the DVC of this environment."""
    # -P: the code of the working tree must not come before the installed packages.
    return [sys.executable, "-P", "-m", "dvc", *arguments]


def start_dvc(root: Path, *arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a DVC command in a working tree to its end, or for some seconds."""
    env = {**os.environ, **python_first(), **site_cache(root)}
    return subprocess.run(
        dvc_command(*arguments),
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def run_dvc(root: Path, *arguments: str) -> str | None:
    """Run a DVC command in a working tree, and return the reason if it fails, else ``None``.

    With ``--quiet``, DVC hides the reason.
    """
    done = start_dvc(root, *arguments)
    if done.returncode == 0:
        return None
    return dvc_error(done.stderr) or f"exit code {done.returncode}"


def dvc_error(output: str) -> str:
    """Return the reason in what a DVC command printed: its error, else the last line."""
    lines = output.strip().splitlines()
    for number, line in enumerate(lines):
        if line.startswith("ERROR: "):
            error = "\n".join(lines[number:]).removeprefix("ERROR: ")
            return visible(error.partition("\n\nHaving any troubles?")[0].strip())
    return visible(lines[-1]) if lines else ""
