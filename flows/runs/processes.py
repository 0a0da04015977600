"""Programs that a flow starts: their output is read line by line, and they end with the flow."""

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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tuneline.core.processes import supervised
from tuneline.core.terminal import visible
from tuneline.project.worktrees import python_first, site_cache
from tuneline.readers.files import redacted

ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
MAX_LENGTH = 2000
"""Characters of a line that are kept. Prefect rejects log records of a megabyte."""


class OutputLines:
    """Splits a stream of bytes into lines and passes each on when it is complete.

    A progress bar rewrites its line with carriage returns. The last state of each line is kept, and a line
    that is being rewritten is passed on at most every ``bar_every`` seconds: hours of training appear in the
    log without flooding it. ``last`` has the last lines, for an error message.
    """

    def __init__(self, on_line: Callable[[str], None], keep: int = 20, bar_every: float = 30.0) -> None:
        self.last: deque[str] = deque(maxlen=keep)
        self._on_line = on_line
        self._bar_every = bar_every
        self._bar_due = time.monotonic() + bar_every
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        """Process more of the stream."""
        *complete, self._rest = (self._rest + chunk).split(b"\n")
        for line in complete:
            self._emit(line)
        bar, separator, rest = self._rest.rpartition(b"\r")
        if separator and time.monotonic() >= self._bar_due:
            self._emit(bar if not rest else self._rest)
            self._rest = b""
        elif separator:
            self._rest = bar.rpartition(b"\r")[2] + separator + rest  # one state is enough to remember
        if len(self._rest) > 8 * MAX_LENGTH:
            self._emit(self._rest)
            self._rest = b""

    def close(self) -> None:
        """Pass on what follows the last line end."""
        if self._rest:
            self._emit(self._rest)
            self._rest = b""

    def _emit(self, line: bytes) -> None:
        states = [state for state in ANSI.sub("", line.decode(errors="replace")).split("\r") if state.strip()]
        if not states:
            return
        text = visible(redacted(states[-1].rstrip()))
        text = text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + " [...]"
        self._bar_due = time.monotonic() + self._bar_every
        self.last.append(text)
        self._on_line(text)


STOPPED_WITHIN = 27.0
"""Seconds a stopped command may take to end.

Its supervisor kills after 23; Prefect kills the flow after 30.
"""
RUN_VARIABLE = "TUNELINE_RUN"
"""Environment variable with the run's name in every process of the run: processes that outlive a crash are found by it."""


class ProgramError(Exception):
    """A program, which did ``what``, ended with an exit code, or -N by signal N, after it printed the ``last`` lines."""

    def __init__(self, what: str, code: int, last: Sequence[str]) -> None:
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        super().__init__(visible("\n".join([f"{what} {how}.", *last])))
        self.what, self.code, self.last = what, code, tuple(last)

    @property
    def reason(self) -> str:
        """The line with the error, if the program marks it as DVC and ``tuneline`` do; else the signal that ended it or its last line."""
        marked = (line for line in self.last if line.startswith(("ERROR", "tuneline ")))
        return next(marked, self.last[-1] if self.last and self.code > 0 else str(self).partition("\n")[0])


class Programs:
    """Runs programs one after the other in a folder, each below a supervisor: when ``run`` returns, nothing that it has started is left.

    Anything that interrupts a program (a cancellation, which Prefect raises as a ``BaseException``; a
    timeout; an error in a log handler) first stops the program and its descendants. So does the end of this
    process, however it ends. The supervisor holds the locks as well: until the program has ended, if this
    process is killed.
    """

    def __init__(
        self, cwd: Path, run: str, env: Mapping[str, str] | None = None, *, locks: Sequence[int] = ()
    ) -> None:
        self.cwd = cwd
        self._locks = locks
        self.env = {**stage_environment(), RUN_VARIABLE: run, **site_cache(cwd), **(env or {})}

    def run(
        self,
        command: Sequence[str],
        what: str,
        on_line: Callable[[str], None],
        keep: int = 20,
        env: Mapping[str, str] | None = None,
    ) -> tuple[str, ...]:
        """Run a program to its end, and return the last lines (``keep``) it printed; ``what`` is the activity, for the error message.

        ``dvc`` is that of this environment, and is stopped after its stage. ``env`` is a whole environment.

        Raises:
            ProgramError: Its exit code is not 0.
        """
        lines, is_dvc = OutputLines(on_line, keep), command[0] == "dvc"
        program = [sys.executable, "-P", "-m", *command] if is_dvc else command
        output, printed = os.pipe()
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, output)
            try:
                supervisor = subprocess.Popen(
                    supervised(program, output, leader_last=is_dvc),
                    cwd=self.cwd,
                    env=dict(self.env if env is None else env),
                    stdin=subprocess.DEVNULL,
                    stdout=printed,
                    stderr=printed,
                    pass_fds=[output, *self._locks],
                    start_new_session=True,
                )
            finally:
                os.close(printed)
            try:
                _read(output, supervisor, lines)
            except BaseException:
                _stop(output, supervisor, on_line)
                raise
            finally:
                code = _wait(supervisor)
        lines.close()
        if code:
            raise ProgramError(what, code, lines.last)
        return tuple(lines.last)


def _read(
    output: int, supervisor: subprocess.Popen[bytes], lines: OutputLines, until: float = math.inf
) -> None:
    """Read what is printed until all processes have ended, or the supervisor was killed."""
    ready = select.poll()
    ready.register(output, select.POLLIN)
    while time.monotonic() < until:
        if ready.poll(1000):  # a second: a timeout that another thread raises here needs Python code to run
            if not (chunk := os.read(output, 65536)):
                return
            lines.feed(chunk)
        elif supervisor.poll() is not None:
            return


def _stop(output: int, supervisor: subprocess.Popen[bytes], on_line: Callable[[str], None]) -> None:
    """Stop a program; what it still prints ("checkpoint saved", for example) reaches the log."""

    def log(line: str) -> None:
        with contextlib.suppress(Exception):
            on_line(line)

    try:
        supervisor.terminate()
        _read(output, supervisor, OutputLines(log), time.monotonic() + STOPPED_WITHIN)
    finally:
        try:
            supervisor.wait(1)
        except subprocess.TimeoutExpired:
            _kill_group(supervisor)


def _wait(supervisor: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a program; -N after signal N.

    If its supervisor was killed, kill what it has left.
    """
    code = supervisor.wait()
    if code < 0:
        _kill_group(supervisor)
    return 128 - code if code - 128 in list(signal.Signals) else code


def _kill_group(supervisor: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(supervisor.pid, signal.SIGKILL)


def stage_environment() -> dict[str, str]:
    """Return the environment of stages: this one without Prefect's variables, which include the key to its server.

    Prefect sets ``PYTHONPATH`` to the folder of the flows, in which ``import train`` would find a flow.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not name.startswith("PREFECT_")
    }
    return {**kept, **python_first()}


SECRETS_OF_THE_WORKER = frozenset(
    {"GIT_TOKEN", "GIT_USERNAME", "TUNELINE_ORIGIN", "TUNELINE_DVC_REMOTE", "TUNELINE_NOTIFY"}
)
"""Variables that only the worker, git and DVC need: an address may contain a password."""
# Hydra resolves ${oc.env:NAME} from the environment into params.yaml, which is committed.
_WITHOUT_SECRETS = re.compile(
    r"PATH|HOME|LANG|LANGUAGE|LC_\w+|TMPDIR|TZ|VIRTUAL_ENV|LD_LIBRARY_PATH|PYTHON\w+|TUNELINE_RUN|DVC_SITE_CACHE_DIR|DVC_NO_ANALYTICS|DO_NOT_TRACK"
)


def for_stages(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a stage: without the credentials for git.

    Those for data and models (HF_TOKEN, AWS_...) stay.
    """
    return {name: value for name, value in env.items() if name not in SECRETS_OF_THE_WORKER}


def for_composition(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the composition of ``params.yaml``: only variables that are known to contain no secret."""
    return {name: value for name, value in env.items() if _WITHOUT_SECRETS.fullmatch(name)}
