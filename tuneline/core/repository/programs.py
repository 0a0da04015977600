"""Programs in a working tree: their environment, DVC for a moment, and the one way to run what may take long.

Flows and sampled runs start DVC, trainings and exports with ``Programs``. Their output is read line by line,
and they end with this process, however it ends; a training that is stopped has the time to save a checkpoint.
"""

import contextlib
import math
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tuneline.core.paths import SITE_CACHE
from tuneline.core.runtime.processes import supervised
from tuneline.core.runtime.terminal import redacted, visible

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
MAX_LENGTH = 2000
"""Characters of a line that are kept. Prefect rejects log records of a megabyte."""


class OutputLines:
    """Splits a stream of bytes into lines and passes each on when it is complete.

    A progress bar rewrites its line with carriage returns: its last state is kept. ``last`` has the last
    lines, for an error message.
    """

    def __init__(self, on_line: Callable[[str], None], keep: int = 20) -> None:
        self.last: deque[str] = deque(maxlen=keep)
        self._on_line = on_line
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Process more of the stream."""
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        for line in complete:
            self._emit(line)

        if len(self._rest) > 8 * MAX_LENGTH:  # a line that may never end, or a bar
            self._emit(self._rest)
            self._rest = b""

    def close(self) -> None:
        """Pass on what follows the last line end."""
        if self._rest:
            self._emit(self._rest)
            self._rest = b""

    def _emit(self, line: bytes) -> None:
        shown = ""
        for state in ANSI.sub("", line.decode(errors="replace")).split("\r"):
            if state.strip():
                shown = state
        if not shown:
            return
        text = visible(redacted(shown.rstrip()))
        if len(text) > MAX_LENGTH:
            text = text[:MAX_LENGTH] + " [...]"
        self.last.append(text)
        self._on_line(text)


RUN_VARIABLE = "TUNELINE_RUN"
"""Environment variable with the run's name in every process of the run.

Processes that outlive a crash are found by it.
"""


class ProgramError(Exception):
    """A program ended with an error.

    Attributes:
        what: What the program did, such as "Stage 'train'".
        code: Its exit code, or -N after signal N.
        last: The last lines that it printed.
    """

    def __init__(self, what: str, code: int, last: Sequence[str]) -> None:
        if code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        lines = [f"{what} {how}."]
        lines += last
        super().__init__(visible("\n".join(lines)))
        self.what = what
        self.code = code
        self.last = tuple(last)

    @property
    def reason(self) -> str:
        """The line with the error, if the program marks it as DVC and ``tuneline`` do.

        Else the last line, or the message about the signal.
        """
        for line in self.last:
            if line.startswith(("ERROR", "tuneline ")):
                return line
        if self.last and self.code > 0:
            return self.last[-1]
        return str(self).partition("\n")[0]


STOPPED_WITHIN = 27.0
"""Seconds that a stopped program may take to end.

Its supervisor kills what is left of it after 23; Prefect kills a flow after 30.
"""
SUPERVISOR_ENDS_WITHIN = 1.0
"""Seconds that the supervisor has after that, before it is killed."""


class Programs:
    """Runs programs one after the other in a folder; no shell interprets their arguments.

    When ``run`` or ``dvc`` returns, nothing that the program has started is left.

    Anything that interrupts a program first stops the program and its descendants: Ctrl-C; a cancellation,
    which Prefect raises as a ``BaseException``; a timeout; an error in a log handler. So does the end of this
    process, however it ends. The supervisor of the program (``tuneline.core.runtime.processes``) holds the
    locks as well: until the program has ended, if this process is killed.
    """

    def __init__(
        self, cwd: Path, run: str, env: Mapping[str, str] | None = None, *, locks: Sequence[int] = ()
    ) -> None:
        self.cwd = cwd
        self._locks = locks
        self.env = stage_environment() | {RUN_VARIABLE: run}
        self.env |= site_cache(cwd)
        self.env |= env or {}

    def run(self, command: Sequence[str], what: str, on_line: Callable[[str], None]) -> tuple[str, ...]:
        """Run a program to its end, and return the last lines that it printed.

        Args:
            command: The program and its arguments.
            what: The activity, for the error message.
            on_line: Function that gets each line when it is complete.

        Raises:
            ProgramError: Its exit code is not 0.
        """
        return self._run(command, what, on_line)

    def dvc(
        self, *arguments: str, what: str, on_line: Callable[[str], None], keep: int = 20
    ) -> tuple[str, ...]:
        """Run the DVC of this environment, and return the last lines that it printed, at most ``keep``.

        DVC is stopped after its stage, so that ``dvc.lock`` is complete.

        Raises:
            ProgramError: Its exit code is not 0.
        """
        return self._run(_dvc(*arguments), what, on_line, keep, leader_last=True)

    def _run(
        self,
        command: Sequence[str],
        what: str,
        on_line: Callable[[str], None],
        keep: int = 20,
        *,
        leader_last: bool = False,
    ) -> tuple[str, ...]:
        lines = OutputLines(on_line, keep)
        output, printed = os.pipe()
        with (
            os.fdopen(output, "rb"),
            os.fdopen(printed, "wb") as writer,
            self._started(supervised(command, output, leader_last=leader_last), output, writer) as supervisor,
        ):
            writer.close()  # the pipe ends when every process has closed it
            try:
                _read(output, supervisor, lines)
            except BaseException:
                _stop(output, supervisor, on_line)
                raise
        lines.close()

        code = _exit_code(supervisor)
        if code:
            raise ProgramError(what, code, lines.last)
        return tuple(lines.last)

    @contextlib.contextmanager
    def _started(
        self, command: Sequence[str], output: int, writer: IO[Any]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Start a supervisor. After the block, nothing that it has started is left."""
        supervisor = subprocess.Popen(
            command,
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            pass_fds=[output, *self._locks],
            start_new_session=True,  # Ctrl-C reaches this process only, which stops the others in order
        )
        try:
            yield supervisor
            supervisor.wait()
        except BaseException:
            supervisor.terminate()
            try:
                supervisor.wait(SUPERVISOR_ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                _kill_group(supervisor)
                supervisor.wait()
            raise
        finally:
            # Nothing may be left of the command, however the block ended.
            code = supervisor.poll()
            if code is not None and code < 0:  # the supervisor was killed, and could not end the others
                _kill_group(supervisor)


def _read(
    output: int, supervisor: subprocess.Popen[bytes], lines: OutputLines, until: float = math.inf
) -> None:
    """Read what is printed until all processes have ended, or the supervisor was killed."""
    ready = select.poll()
    ready.register(output, select.POLLIN)
    while time.monotonic() < until:
        if ready.poll(1000):  # a second: a timeout that another thread raises here needs Python code to run
            chunk = os.read(output, 65536)
            if not chunk:
                return
            lines.feed(chunk)
        elif supervisor.poll() is not None:
            return


def _stop(output: int, supervisor: subprocess.Popen[bytes], on_line: Callable[[str], None]) -> None:
    """Stop a program; what it still prints ("checkpoint saved", for example) reaches the log."""

    def log(line: str) -> None:
        with contextlib.suppress(Exception):
            on_line(line)

    supervisor.terminate()
    _read(output, supervisor, OutputLines(log), time.monotonic() + STOPPED_WITHIN)


def _exit_code(supervisor: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a program that has ended; -N after signal N."""
    code = supervisor.returncode
    if code - 128 in list(signal.Signals):
        return 128 - code
    return code


def _kill_group(supervisor: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(supervisor.pid, signal.SIGKILL)


SECRETS_OF_THE_WORKER = frozenset({"GIT_TOKEN", "GIT_USERNAME", "TUNELINE_ORIGIN", "TUNELINE_DVC_REMOTE"})
"""Variables that only the worker and git need: an address may contain a password."""


def stage_environment() -> dict[str, str]:
    """Return the environment of stages, and of the DVC that runs them.

    It lacks Prefect's variables, which include the key to its server, and the credentials for git; the
    credentials for data and models (HF_TOKEN, AWS_...) stay. ``PYTHONPATH`` is not in it either: Prefect sets
    it to the folder of the flows, in which ``import train`` would find a flow.
    """
    environment = {}
    for name, value in program_environment().items():
        if not name.startswith("PREFECT_") and name not in SECRETS_OF_THE_WORKER:
            environment[name] = value
    return environment


def program_environment() -> dict[str, str]:
    """Return the environment of programs in a working tree: this one, with ``python`` as stages expect it.

    ``python`` is the program that runs this process, and prints at once. ``PYTHONPATH`` is left out: the code
    of a working tree must not come from the folder that this process was started with.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"}
    environment.pop("PYTHONPATH", None)
    return environment


def site_cache(root: Path) -> dict[str, str]:
    """Return the variable that gives DVC a site cache in the project, and create its folder.

    Only this user may open the folder. DVC would create one for all users of the machine.
    """
    if not (root / ".dvc").is_dir():
        return {}
    folder = root.absolute() / SITE_CACHE
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {"DVC_SITE_CACHE_DIR": str(folder)}


def _dvc(*arguments: str) -> list[str]:
    # -P: the code of the working tree must not come before the installed packages.
    return [sys.executable, "-P", "-m", "dvc", *arguments]


def start_dvc(root: Path, *arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a DVC command in a working tree to its end, or for some seconds."""
    return subprocess.run(
        _dvc(*arguments),
        cwd=root,
        env=program_environment() | site_cache(root),
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
