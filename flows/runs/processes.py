"""Programs that a flow starts: their output is read line by line, and they end with the flow (see ``flows/runs/guardian.py``)."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from flows.runs.output import OutputLines
from tuneline.paths import SITE_CACHE
from tuneline.terminal import visible

GUARDIAN = Path(__file__).with_name("guardian.py")
STOPPED_WITHIN = 27.0
"""Seconds a stopped command may take to end. The guardian kills after 23; Prefect kills the flow after 30."""
RUN_VARIABLE = "TUNELINE_RUN"
"""Environment variable with the run's name in every process of the run: processes that outlive a crash are found by it."""


class ProgramError(Exception):
    """A program ended with an error.

    Args:
        what: The activity, for the message: "Fetching the model".
        code: The program's exit code; -N if signal N ended it.
        last: The last lines it printed.
    """

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
    """Runs programs one after the other in a folder. The guardian, a process between the flow and the programs, starts and ends them.

    A context manager: when it exits, no process that it started is left. Anything that interrupts a command (a cancellation, which
    Prefect raises as a ``BaseException``; a timeout; an error in a log handler) first stops the command and its descendants.

    Args:
        cwd: Working directory of the programs.
        run: Name of the run, in the environment of every process.
        env: Variables added to the environment.
        lock: File descriptor of a lock. The guardian holds it as well, until the last program has ended if this process is killed.
        more_locks: File descriptors of files that are locked later, if at all; the guardian holds them in the same way.
        preload: Import DVC in the guardian; pays off from the second DVC command on.
    """

    def __init__(
        self,
        cwd: Path,
        run: str,
        env: Mapping[str, str] | None = None,
        *,
        lock: int | None = None,
        more_locks: Sequence[int] = (),
        preload: bool = True,
    ) -> None:
        self.cwd = cwd
        self._preload = preload
        self._locks = [*([] if lock is None else [lock]), *more_locks]
        self.env = {**environment(), RUN_VARIABLE: run, **_site_cache(cwd), **(env or {})}
        self._answers = b""

    def __enter__(self) -> Self:
        output, printed = os.pipe()
        control, answered = os.pipe()
        os.set_blocking(output, False)
        os.set_blocking(control, False)
        self._output, self._control = output, control
        options = {"control": answered, "output": output, "locks": self._locks, "preload": self._preload}
        self._guardian = subprocess.Popen(
            [sys.executable, "-P", str(GUARDIAN), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=printed,
            pass_fds=[answered, output, *self._locks],
            start_new_session=True,
            env=self.env,
            bufsize=0,
        )
        os.close(printed)
        os.close(answered)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._guardian.stdin.close()  # type: ignore[union-attr]
        try:
            self._guardian.wait(STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            self._guardian.kill()
            self._guardian.wait()
        for descriptor in (self._output, self._control):
            os.close(descriptor)

    def run(
        self, command: Sequence[str], what: str, on_line: Callable[[str], None], keep: int = 20, env: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Run a program to its end.

        Args:
            command: Program and arguments; no shell. ``dvc`` runs in a fork of the guardian, without the cost of its imports.
            what: The activity, for the error message.
            on_line: Called with each line of standard output and error.
            keep: Number of last lines to return, or to show in the error.
            env: Its whole environment; by default, that of all programs.

        Returns:
            The last lines it printed.

        Raises:
            ProgramError: Its exit code is not 0.
        """
        lines = OutputLines(on_line, keep)
        self._ask({"run": [*command], "cwd": str(self.cwd), "env": dict(self.env if env is None else env)})
        leader, code = None, None
        try:
            while code is None:
                for answer in self._wait(lines):
                    leader, code = answer.get("started", leader), answer.get("ended", code)
        except BaseException:
            self._stop(leader, on_line)
            raise
        self._drain(lines)
        lines.close()
        if code:
            raise ProgramError(what, code, lines.last)
        return tuple(lines.last)

    def _ask(self, request: Mapping[str, object]) -> None:
        try:
            self._guardian.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
        except BrokenPipeError:
            raise RuntimeError("The guardian of this run's processes has ended.") from None

    def _wait(self, lines: OutputLines) -> list[dict[str, int]]:
        """Wait for output or answers, at most a second: a timeout that another thread raises here needs Python code to run."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            selector.register(self._control, selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select(1.0)}
        if self._output in ready:
            self._drain(lines)
        return self._read_answers() if self._control in ready else []

    def _read_answers(self) -> list[dict[str, int]]:
        if not (chunk := os.read(self._control, 65536)):
            raise RuntimeError("The guardian of this run's processes was killed.")
        *answers, self._answers = (self._answers + chunk).split(b"\n")
        return [json.loads(answer) for answer in answers]

    def _drain(self, lines: OutputLines) -> None:
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._output, 65536):
                lines.feed(chunk)

    def _stop(self, leader: int | None, on_line: Callable[[str], None]) -> None:
        """Stop the command; what it still prints ("checkpoint saved", for example) reaches the log."""

        def log(line: str) -> None:
            with contextlib.suppress(Exception):
                on_line(line)

        until = time.monotonic() + STOPPED_WITHIN
        output = OutputLines(log)
        try:
            self._ask({"stop": True})
            while time.monotonic() < until:
                if any("ended" in answer for answer in self._wait(output)):
                    return
        except RuntimeError:  # the guardian was killed, and DVC with it: only the stage is left
            if leader is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(leader, signal.SIGKILL)


def _site_cache(root: Path) -> dict[str, str]:
    """Give DVC a site cache in the project, for its user only: DVC would create the folder for everyone."""
    if not (root / ".dvc").is_dir():
        return {}
    folder = root.absolute() / SITE_CACHE
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {"DVC_SITE_CACHE_DIR": str(folder)}


def environment() -> dict[str, str]:
    """Return the environment of stages: this one without Prefect's variables, which include the key to its server.

    Prefect sets ``PYTHONPATH`` to the folder of the flows, in which ``import train`` would find a flow.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("PREFECT_")}
    # Stages are started as `python`: take the one that runs this.
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1"}
