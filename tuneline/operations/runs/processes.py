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

from tuneline.core.repository.programs import STOPPED_WITHIN, program_environment, running, site_cache
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


class Programs:
    """Runs programs one after the other in a folder.

    When ``run`` returns, nothing that it has started is left.

    Anything that interrupts a program first stops the program and its descendants: a cancellation, which
    Prefect raises as a ``BaseException``; a timeout; an error in a log handler. So does the end of this
    process, however it ends. The supervisor of the program (``running``) holds the locks as well: until the
    program has ended, if this process is killed.
    """

    def __init__(
        self, cwd: Path, run: str, env: Mapping[str, str] | None = None, *, locks: Sequence[int] = ()
    ) -> None:
        self.cwd = cwd
        self._locks = locks
        self.env = stage_environment() | {RUN_VARIABLE: run}
        self.env |= site_cache(cwd)
        self.env |= env or {}

    def run(
        self, command: Sequence[str], what: str, on_line: Callable[[str], None], keep: int = 20
    ) -> tuple[str, ...]:
        """Run a program to its end, and return the last lines that it printed.

        Args:
            command: The program and its arguments. ``dvc`` is the DVC of this environment.
            what: The activity, for the error message.
            on_line: Function that gets each line when it is complete.
            keep: Number of lines that are returned.

        Raises:
            ProgramError: Its exit code is not 0.
        """
        # DVC is a module of this environment.
        lines = OutputLines(on_line, keep)
        is_dvc = command[0] == "dvc"
        program = list(command)
        if is_dvc:
            program = [sys.executable, "-P", "-m", *command]

        # run, and read what is printed until all processes have ended
        output, printed = os.pipe()
        with (
            os.fdopen(output, "rb"),
            os.fdopen(printed, "wb") as writer,
            running(
                program,
                cwd=self.cwd,
                env=self.env,
                output=writer,
                drained=output,
                locks=self._locks,
                leader_last=is_dvc,
                patience=1,  # after the time that _stop gives it
            ) as supervisor,
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
