"""Trainings launched as processes of their own, to be stopped and killed."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.conftest import ROOT
from tests.tuneline.training import launcher, tiny_task
from tests.tuneline.training.conftest import fill

LONG = {"epochs": 500, "checkpoint_every_steps": 5}
"""A run that lasts until it is stopped."""
CPUS = "distributed_type: MULTI_CPU\nnum_machines: 1\nnum_processes: 2\nuse_cpu: true\n"


@dataclass
class Launch:
    """A running ``python -m tuneline.training.launch stages.train``, in a process group of its own as in a
    terminal."""

    project: Path
    process: subprocess.Popen[str]

    def processes(self) -> list[psutil.Process]:
        first = psutil.Process(self.process.pid)
        return [first, *first.children(recursive=True)]

    def wait_for_steps(self, count: int = 1) -> list[psutil.Process]:
        """Wait until training processes have saved a checkpoint, and return all processes."""
        launcher.wait_for(self.project / "checkpoints", f"step-{5 * count:08d}")
        return self.processes()

    def stop(self, target: str) -> None:
        """Send SIGTERM to the launcher alone, as `kill` does, or SIGINT to the whole group, as Ctrl-C in a
        terminal does."""
        if target == "launcher":
            self.process.terminate()
        else:
            os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> tuple[int, list[str]]:
        """Return exit code and printed lines."""
        printed = self.process.communicate(timeout=launcher.TIMEOUT)[0]
        return self.process.returncode, printed.splitlines()


@contextlib.contextmanager
def launches(project: Path, data: Path) -> Iterator[Callable[..., Launch]]:
    """Yield a function that launches a training with some parameters, by default as DVC does; end all of them
    afterwards.

    Args:
        project: Empty folder of the project.
        data: Folder with tokenized splits.
    """
    fill(project, data)
    (project / "conf/accelerate/cpus.yaml").write_text(CPUS)
    started = []

    def start(env=None, command=("-m", "tuneline.training.launch", "stages.train"), **train) -> Launch:
        tiny_task.write_params(project, **{"launch": "auto", **train})
        given = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **(env or {})}
        given.pop("ACCELERATE_USE_CPU")
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=project,
            env=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return Launch(project, process)

    try:
        yield start
    finally:
        for process in started:
            process.kill()


def assert_gone(processes: list[psutil.Process], seconds: float = 30) -> None:
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
