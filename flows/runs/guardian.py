"""The guardian: a process between a flow and the programs it starts, so that no program outlives the flow.

Cancelling a Prefect run signals only the flow's process, and a signal to ``dvc repro`` does not reach the training that it started.
The guardian starts every command in a session of its own and is the subreaper of its descendants (torchrun puts its workers into
sessions of their own, so a process group is not enough). It ends all of them on request, when the command has ended, and when the
flow has ended: a killed flow closes the pipe.

``flows/runs/processes.py`` starts it as a script. It imports no other module of this project, because it must survive their
failures. It imports DVC once and forks for each command, which saves at least half a second per stage.

Protocol: requests on standard input, one JSON object per line, ``{"run": [program, ...], "cwd": ..., "env": {...}}`` or
``{"stop": true}``. The output of commands goes to standard output. The only argument is a JSON object: ``control``, file descriptor
for the answers ``{"started": pid}`` and ``{"ended": exit code}``; ``output``, reading end of the pipe that is its standard output;
``locks``, file descriptors to hold until the last command has ended; ``preload``, true to import DVC.
"""

import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import sys
import time
from typing import Any

import psutil

GRACE = float(os.environ.get("TUNELINE_GRACE", "23"))
"""Seconds from the request to stop until all remaining processes are killed. Prefect kills the flow after 30."""
DVC_GRACE = 18.0
"""Seconds until DVC itself gets SIGTERM. It ends by itself after its stage, and then ``dvc.lock`` is complete."""
IDLE_DVC_GRACE = 4.0
"""The same if DVC runs no stage: its work is short, or will not end."""
PRELOADED = (
    *("dvc.cli.parser", "dvc.commands.repro", "dvc.repo.reproduce", "dvc.stage.cache", "dvc.cachemgr", "dvc.data_cloud"),
    *("dvc.lock", "dvc.rwlock", "dvc.scm", "dvc.ui", "dvc.utils.serialize", "scmrepo.git", "zc.lockfile"),
    *("configobj", "dulwich.worktree", "dvc.dirs", "dvc_render", "flatten_dict", "ruamel.yaml"),
)
"""Modules that ``dvc repro`` imports."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> None:
    """Serve requests until the flow closes the pipe."""
    options = json.loads(sys.argv[1])
    adopt_orphans()
    guardian = Guardian(options["control"], options["output"])
    for lock in options["locks"]:
        os.set_inheritable(lock, False)  # a program that survives must not make its run look alive
    for module in PRELOADED if options["preload"] else ():  # starts no thread, so forking is safe
        with contextlib.suppress(ImportError):  # another DVC: commands only start slower
            importlib.import_module(module)
    while (request := guardian.next_request()) is not None:
        if "run" in request:
            guardian.answer({"started": (leader := guardian.start(request))})
            guardian.answer({"ended": guardian.watch(leader, spare=request["run"][0] == "dvc")})


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent has ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Have this process, which was just forked, signalled when its parent ends, however that ends. On Linux.

    Args:
        parent: Process id of the parent, which may have ended already.
        number: The signal.
    """
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def _prctl(option: int, value: int) -> None:
    """Call prctl, on Linux; elsewhere do nothing."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Guardian:
    """Runs one command at a time, and ends its descendants.

    Args:
        control: File descriptor for answers.
        output: Reading end of the pipe that commands print to. Kept open: a training that saves its checkpoint after the flow
            has died must not fail on a closed pipe.
    """

    def __init__(self, control: int, output: int) -> None:
        self.control, self.output = control, output
        self.alive = True
        self._pending = b""
        self._requests: list[dict[str, Any]] = []
        self._woken, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: Any) -> None:
        if number != signal.SIGCHLD:  # a request to end this process: end the commands as well
            self.alive = False

    def next_request(self) -> dict[str, Any] | None:
        """Wait for a request; ``None`` if the flow has ended."""
        while not self._requests and self.alive:
            self._listen(None)
        return self._requests.pop(0) if self.alive else None

    def answer(self, message: dict[str, Any]) -> None:
        """Send a message to the flow, if it is still alive."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.control, json.dumps(message).encode() + b"\n")

    def start(self, request: dict[str, Any]) -> int:
        """Fork a command into a session of its own and return its process id."""
        sys.stdout.flush()
        sys.stderr.flush()
        if pid := os.fork():
            return pid
        code = 127
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
            os.setsid()
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for descriptor in (self.control, self.output, self._woken):
                os.close(descriptor)
            os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
            code = _become(request)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException as error:  # nothing may return into the guardian's loop
            print(f"{request['run'][0]}: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201 - imports nothing of this project
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def watch(self, leader: int, *, spare: bool) -> int:
        """Wait until the command and all its descendants have ended.

        Args:
            leader: Process id of the command.
            spare: Send SIGTERM to the command later than to its descendants.

        Returns:
            The command's exit code; -N if signal N ended it.
        """
        code: int | None = None
        termination: Termination | None = None
        while True:
            for pid, status in _reap():
                if pid == leader:
                    code = os.waitstatus_to_exitcode(status)
            below = psutil.Process().children(recursive=True)
            if code is not None and not below:
                return code
            if termination is None and (code is not None or self._stop_requested()):
                termination = Termination(leader if spare else None)
            if termination is not None:
                termination.signal(below)
            self._listen(0.2 if termination is not None else 5.0)

    def _stop_requested(self) -> bool:
        if not self.alive:
            return True
        stops = [request for request in self._requests if "stop" in request]
        self._requests = [request for request in self._requests if "stop" not in request]
        return bool(stops)

    def _listen(self, timeout: float | None) -> None:
        """Sleep until a request, the end of the flow, a signal or the timeout."""
        # Once the flow has ended, nobody else reads the output.
        sources = [self._woken, sys.stdin.fileno() if self.alive else self.output]
        ready, _, _ = select.select(sources, [], [], timeout)
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)
        if self.output in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self.output, 65536)
        if sys.stdin.fileno() in ready:
            if not (chunk := os.read(sys.stdin.fileno(), 65536)):
                self.alive = False
            *lines, self._pending = (self._pending + chunk).split(b"\n")
            self._requests += [json.loads(line) for line in lines]


def _become(request: dict[str, Any]) -> int:
    """Turn a forked child into the command: DVC in this interpreter, any other program by exec."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    program, *arguments = request["run"]
    if program != "dvc":
        os.execvpe(program, [program, *arguments], os.environ)  # noqa: S606 - no shell is what we want
    from dvc.cli import main as dvc

    sys.argv = ["dvc", *arguments]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return int(dvc(arguments) or 0)


class Termination:
    """Ends the guardian's descendants: SIGTERM once to each process, SIGKILL after ``GRACE`` seconds.

    Args:
        spared: The process that gets SIGTERM last.
    """

    def __init__(self, spared: int | None) -> None:
        self._spared = spared
        self._spared_until = IDLE_DVC_GRACE
        self._signalled: set[int] = set()
        self._started = time.monotonic()

    def signal(self, below: list[psutil.Process]) -> None:
        """Send the signals that are due; called repeatedly until no process is left."""
        passed = time.monotonic() - self._started
        if any(process.pid != self._spared for process in below):
            self._spared_until = DVC_GRACE
        for process in below:
            if passed > GRACE:
                _send(process, signal.SIGKILL)
            elif process.pid not in self._signalled and (process.pid != self._spared or passed > self._spared_until):
                self._signalled.add(process.pid)  # once: programs may take a second SIGTERM as "end at once"
                _send(process, signal.SIGTERM)


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _reap() -> list[tuple[int, int]]:
    """Collect the children that ended, adopted ones included."""
    ended = []
    with contextlib.suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(child)
    return ended


if __name__ == "__main__":
    main()
