"""Stands between a flow and the programs it starts, so that none of them outlives it.

Cancelling a Prefect run signals the flow's process only, and a signal to ``dvc repro`` leaves the training it started
running. This process starts every command in a session of its own, is the subreaper of all that descends from it
(torchrun puts its workers into sessions of their own, so a process group is not enough), and ends them all when it is
told to, when the command has ended, and when the flow is gone, however it went: a killed flow closes the pipe.

Started by ``flows/runs/processes.py`` as a script with no other module of this folder, because it must live when they fail.
It imports DVC once and forks it for each command: half a second and more saved per stage.

Reads requests from its standard input, one JSON object a line: ``{"run": [program, ...], "cwd": ..., "env": {...}}`` or
``{"stop": true}``. What commands print goes to its standard output. Its argument is a JSON object: ``control``, the file
descriptor for its answers, ``{"started": pid}`` and ``{"ended": exit code}``; ``output``, the reading end of the pipe that
its standard output is; ``lock``, one to hold until its last command has ended; ``preload``, whether to import DVC.
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
"""Seconds from the request to stop until everything left is killed. Prefect kills the flow after 30."""
DVC_GRACE = 18.0
"""Seconds until DVC itself is asked. It ends by itself once its stage has, and then leaves ``dvc.lock`` whole."""
IDLE_DVC_GRACE = 4.0
"""The same when no stage runs under it: what it is busy with is short, or will not end."""

PRELOADED = (
    *("dvc.cli.parser", "dvc.commands.repro", "dvc.repo.reproduce", "dvc.stage.cache", "dvc.cachemgr", "dvc.data_cloud"),
    *("dvc.lock", "dvc.rwlock", "dvc.scm", "dvc.ui", "dvc.utils.serialize", "scmrepo.git", "zc.lockfile"),
    *("configobj", "dulwich.worktree", "dvc.dirs", "dvc_render", "flatten_dict", "ruamel.yaml"),
)

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> None:
    """Serves requests until the flow closes the pipe."""
    options = json.loads(sys.argv[1])
    adopt_orphans()
    guardian = Guardian(options["control"], options["output"])
    if options["lock"] is not None:
        os.set_inheritable(options["lock"], False)  # a program that is left over must not make its run look alive
    if options["preload"]:
        _preload()
    while (request := guardian.next_request()) is not None:
        if "run" in request:
            guardian.answer({"started": (leader := guardian.start(request))})
            guardian.answer({"ended": guardian.watch(leader, spare=request["run"][0] == "dvc")})


def _preload() -> None:
    """Imports what ``dvc repro`` will import, once. Starts no thread, so that forking is safe."""
    for module in PRELOADED:
        with contextlib.suppress(ImportError):  # another DVC: commands only start slower
            importlib.import_module(module)


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant whose own has ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere a process group is all there is."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


class Guardian:
    """One command at a time, and everything below it.

    Args:
        control: File descriptor for answers.
        output: Reading end of the pipe that commands print to. Kept open: a training that saves its checkpoint after the
            flow died must not die of a closed pipe.
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
        if number != signal.SIGCHLD:  # someone ends this process itself: take the commands along
            self.alive = False

    def next_request(self) -> dict[str, Any] | None:
        """Waits for a request; ``None`` when the flow is gone."""
        while not self._requests and self.alive:
            self._listen(None)
        return self._requests.pop(0) if self.alive else None

    def answer(self, message: dict[str, Any]) -> None:
        """Tells the flow, when it is still there."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self.control, json.dumps(message).encode() + b"\n")

    def start(self, request: dict[str, Any]) -> int:
        """Forks a command into a session of its own and returns its process id."""
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
            print(f"{request['run'][0]}: {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def watch(self, leader: int, *, spare: bool) -> int:
        """Waits until the command and all that descends from it have ended.

        Args:
            leader: Process id of the command.
            spare: Whether to ask it later than the processes it started.

        Returns:
            Its exit code; -N when signal N ended it.
        """
        code: int | None = None
        ending: Ending | None = None
        while True:
            for pid, status in _reap():
                if pid == leader:
                    code = os.waitstatus_to_exitcode(status)
            below = _descendants()
            if code is not None and not below:
                return code
            if ending is None and (code is not None or self._told_to_stop()):
                ending = Ending(leader if spare else None)
            if ending is not None:
                ending.go_on(below)
            self._listen(0.2 if ending is not None else 5.0)

    def _told_to_stop(self) -> bool:
        if not self.alive:
            return True
        stops = [request for request in self._requests if "stop" in request]
        self._requests = [request for request in self._requests if "stop" not in request]
        return bool(stops)

    def _listen(self, timeout: float | None) -> None:
        """Sleeps until a request, the flow's end, a signal, or the timeout."""
        # Once the flow is gone nobody else reads what is printed.
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
    """Turns a fresh child into the command: DVC in this very interpreter, anything else by exec."""
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


class Ending:
    """Ends what descends from the guardian: asks each process once, then kills.

    Args:
        spared: The process that is asked last.
    """

    def __init__(self, spared: int | None) -> None:
        self._spared = spared
        self._spared_until = IDLE_DVC_GRACE
        self._asked: set[int] = set()
        self._started = time.monotonic()

    def go_on(self, below: list[psutil.Process]) -> None:
        """One round; called again and again until nothing is left."""
        passed = time.monotonic() - self._started
        if any(process.pid != self._spared for process in below):
            self._spared_until = DVC_GRACE
        for process in below:
            if passed > GRACE:
                _send(process, signal.SIGKILL)
            elif process.pid not in self._asked and (process.pid != self._spared or passed > self._spared_until):
                self._asked.add(process.pid)  # once: a second request may mean "at once" to a program
                _send(process, signal.SIGTERM)


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _reap() -> list[tuple[int, int]]:
    """Collects every child that ended, adopted ones included."""
    ended = []
    with contextlib.suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(child)
    return ended


def _descendants() -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found


if __name__ == "__main__":
    main()
