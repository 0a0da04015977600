"""Run the train stage in child processes.

They are forked from a server that has imported torch, so a start takes one second, not ten.
"""

import contextlib
import itertools
import json
import multiprocessing
import os
import pkgutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "stages.train",
        "transformers.models.bert.modeling_bert",
        "peft",
        "torch.distributed.fsdp",
        "torch._dynamo",
    ]
)
TIMEOUT = 120


def start(
    project: Path,
    processes: int = 1,
    env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> list[ForkServerProcess]:
    """Start ``python -m stages.train`` once per process, with the variables that torchrun sets.

    Args:
        project: Working directory of the run.
        processes: Number of processes.
        env: Additional environment variables.
        before: Called in each process before the stage starts.
    """
    port = free_port() if processes > 1 else 0
    children = []
    for rank in range(processes):
        ranks = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": processes,
            "LOCAL_WORLD_SIZE": processes,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        variables = {"ACCELERATE_USE_CPU": "true", **(ranks if processes > 1 else {}), **(env or {})}
        child = CONTEXT.Process(
            target=_child, args=(project, {key: str(value) for key, value in variables.items()}, rank, before)
        )
        child.start()
        children.append(child)
    return children


def finish(children: list[ForkServerProcess]) -> list[int]:
    """Wait for the processes and return their exit codes; negative ones are signals."""
    for child in children:
        child.join(TIMEOUT)
        if child.exitcode is None:
            child.kill()  # else pytest would wait for it
            raise AssertionError("the run hangs")
    return [child.exitcode for child in children]


def run(
    project: Path,
    processes: int = 1,
    env: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
) -> list[int]:
    return finish(start(project, processes, env, before))


def wait_for(folder: Path, pattern: str) -> None:
    """Wait until a file in the folder or below matches the pattern."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        with contextlib.suppress(FileNotFoundError):  # a folder was renamed while its files were listed
            if any(folder.rglob(pattern)):
                return
        assert time.monotonic() < deadline, f"no {pattern} in {folder}"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def output(project: Path, rank: int = 0) -> str:
    """Return the output of all runs in this project."""
    return (project / f"output-{rank}.txt").read_text()


def outs(project: Path) -> dict[str, bytes]:
    """Return the contents of every out of the stage, by path."""
    folders = [*(project / "models/classifier").iterdir(), *(project / "plots/training").iterdir()]
    files = [*folders, project / "metrics/train.json", project / "reports/validation.parquet"]
    return {str(path.relative_to(project)): path.read_bytes() for path in files}


def metrics(project: Path) -> dict[str, float]:
    values: dict[str, float] = json.loads((project / "metrics/train.json").read_text())
    return values


def curve(project: Path, name: str = "loss") -> list[list[float]]:
    """Return the rows of a published curve."""
    lines = (project / f"plots/training/{name}.tsv").read_text().splitlines()[1:]
    return [[float(value) for value in line.split("\t")] for line in lines]


def _child(project: Path, variables: Mapping[str, str], rank: int, before: Callable[[], None] | None) -> None:
    os.chdir(project)
    os.environ.update(variables)
    with Path(f"output-{rank}.txt").open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if before is not None:
        before()
    from stages.train import main
    from tuneline.core.stage.entry import run_stage
    from tuneline.training import loop

    loop.LOG_EVERY_STEPS = 1
    run_stage("train", main)


def kill_at(function: str, call: int) -> Callable[[], None]:
    """Return a function that makes its process kill itself at the given call of a function of this
    project."""
    return partial(_kill_at, function, call)


def _kill_at(function: str, call: int) -> None:
    module_name, _, name = function.rpartition(".")
    module = pkgutil.resolve_name(module_name)
    original, calls = getattr(module, name), itertools.count(1)

    def killing(*args, **options):
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **options)

    setattr(module, name, killing)
