"""Runs of the train stage in processes of their own, forked from one that has imported torch already: a second, not ten."""

import importlib
import itertools
import json
import multiprocessing
import os
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
    ["stages.train.__main__", "transformers.models.bert.modeling_bert", "peft", "dvclive", "torch.distributed.fsdp", "torch._dynamo"]
)
LIMIT = 120


def start(
    project: Path, processes: int = 1, env: Mapping[str, str] | None = None, arrange: Callable[[], None] | None = None
) -> list[ForkServerProcess]:
    """Starts ``python -m stages.train``, as often as torchrun would for so many processes.

    Args:
        project: Its folder.
        processes: How many.
        env: Variables beside those of torchrun.
        arrange: Called in each process before the stage begins.
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
        child = CONTEXT.Process(target=_child, args=(project, {key: str(value) for key, value in variables.items()}, rank, arrange))
        child.start()
        children.append(child)
    return children


def finish(children: list[ForkServerProcess]) -> list[int]:
    """Waits, and returns exit codes; negative ones are signals."""
    for child in children:
        child.join(LIMIT)
        if child.exitcode is None:
            child.kill()  # else pytest would wait for it
            raise AssertionError("the run hangs")
    return [child.exitcode for child in children]


def run(project: Path, processes: int = 1, env: Mapping[str, str] | None = None, arrange: Callable[[], None] | None = None) -> list[int]:
    return finish(start(project, processes, env, arrange))


def wait_for(folder: Path, pattern: str) -> None:
    """Waits until there is a file of that name."""
    deadline = time.monotonic() + LIMIT
    while not any(folder.rglob(pattern)):
        assert time.monotonic() < deadline, f"no {pattern} in {folder}"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def output(project: Path, rank: int = 0) -> str:
    """What all starts in this folder printed."""
    return (project / f"output-{rank}.txt").read_text()


def outs(project: Path) -> dict[str, bytes]:
    """Every out of the stage, as bytes."""
    files = [*(project / "models/classifier").iterdir(), *(project / "plots/training").iterdir(), project / "metrics/train.json"]
    return {str(path.relative_to(project)): path.read_bytes() for path in files}


def metrics(project: Path) -> dict[str, float]:
    values: dict[str, float] = json.loads((project / "metrics/train.json").read_text())
    return values


def curve(project: Path, name: str = "loss") -> list[list[float]]:
    """Rows of a curve."""
    lines = (project / f"plots/training/{name}.tsv").read_text().splitlines()[1:]
    return [[float(value) for value in line.split("\t")] for line in lines]


def _child(project: Path, variables: Mapping[str, str], rank: int, arrange: Callable[[], None] | None) -> None:
    os.chdir(project)
    os.environ.update(variables)
    with Path(f"output-{rank}.txt").open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if arrange is not None:
        arrange()
    from stages.train.__main__ import main
    from tuneline.stage import run_stage

    run_stage("train", main)


def death(function: str, call: int) -> Callable[[], None]:
    """Arranges that a process kills itself before the given call of a function of this project."""
    return partial(_die, function, call)


def _die(function: str, call: int) -> None:
    module_name, _, name = function.rpartition(".")
    module = importlib.import_module(module_name)
    original, calls = getattr(module, name), itertools.count(1)

    def mortal(*args, **options):
        if next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **options)

    setattr(module, name, mortal)


def count_reductions() -> None:
    """Arranges that a process writes down how many micro batches it computed, and how often gradients were reduced."""
    import torch

    from stages.train import loop

    counts = {"micro_batches": 0, "reductions": 0}
    fit, seed = loop.fit, loop._seed_dropout

    def counting_fit(state):
        state.model.register_comm_hook(None, reduce)
        fit(state)
        Path(f"counts-{state.accelerator.process_index}.json").write_text(json.dumps(counts))

    def counting_seed(state, micro_batch):
        counts["micro_batches"] += 1
        seed(state, micro_batch)

    def reduce(_, bucket):
        counts["reductions"] += 1
        return torch.distributed.all_reduce(bucket.buffer().div_(2), async_op=True).get_future().then(lambda done: done.value()[0])

    loop.fit, loop._seed_dropout = counting_fit, counting_seed
