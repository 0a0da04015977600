"""The pipeline in a checkout: its files, its graph, its stages, which DVC runs, and their Prefect tasks.

DVC is the only cache: Prefect's is off.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any, Literal, NamedTuple

from prefect import Task, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Completed

from tuneline.core.params.loading import read_yaml
from tuneline.core.repository.dvc import is_weights, read_lock
from tuneline.core.repository.programs import ProgramError, Programs
from tuneline.core.runtime.errors import PERMANENT
from tuneline.core.settings import StagePolicy

StageOutcome = Literal["ran", "skipped", "restored"]
OnLine = Callable[[str], None]

_HINT = re.compile(
    r"To track the changes with git|\s*git add |To enable auto staging|\s*dvc config core.autostage|Use `dvc"
    r" push`"
)
"""Beginnings of what DVC prints for a person at a terminal."""
_NODE = re.compile(r'"([^"]+)"')
"""A stage or source in what ``dvc dag --dot`` prints: alone, or before what needs it."""
_PERMANENT = f", exited with {PERMANENT}"
"""End of DVC's message about a stage whose parameters or data are wrong."""
_BUSY = ("Unable to acquire lock", "is busy, it is being blocked by")
"""Parts of DVC's messages about a lock that another process holds."""


class Graph(NamedTuple):
    """Names of the stages, each after what it depends on, and ``.dvc`` files: data that no stage makes."""

    stages: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Pipeline:
    """The pipeline in one checkout.

    Attributes:
        programs: What runs commands in the checkout.
        on_line: Function that gets each line that a command prints.
        lock_wait: Seconds to wait for DVC's lock.
    """

    programs: Programs
    on_line: OnLine
    lock_wait: float = 600

    def dvc(self, *arguments: str, what: str, on_line: OnLine | None = None) -> tuple[str, ...]:
        """Run DVC, waiting while another process holds its lock: DVC itself gives up after three seconds.

        Raises:
            ProgramError: DVC failed, or the lock was held for longer than ``lock_wait``.
        """
        until = time.monotonic() + self.lock_wait
        while True:
            try:
                return self.programs.dvc(*arguments, what=what, on_line=on_line or self.on_line)
            except ProgramError as error:
                printed = "\n".join(error.last)
                is_busy = any(sign in printed for sign in _BUSY)
                if not is_busy or time.monotonic() > until:
                    raise
            self.on_line("Another process holds DVC's lock; waiting for it.")
            time.sleep(2)

    def graph(self) -> Graph:
        """Read the graph from the checkout's own ``dvc.yaml``."""
        # `keep` is more than there are lines: without it, only the last ones come back.
        what = "Reading dvc.yaml"
        printed = self.programs.dvc("dag", "--dot", what=what, on_line=lambda _line: None, keep=100_000)
        needs: dict[str, set[str]] = {}
        for line in printed:
            names = _NODE.findall(line)
            if names:
                needs.setdefault(names[-1], set()).update(names[:-1])

        ordered = list(TopologicalSorter(needs).static_order())
        stages = tuple(name for name in ordered if not name.endswith(".dvc"))
        sources = tuple(name for name in ordered if name.endswith(".dvc"))
        return Graph(stages, sources)

    def restore(self, sources: Sequence[str]) -> None:
        """Restore what the cache has for this commit; fetch missing sources from the DVC remote.

        Raises:
            ProgramError: The remote lacks a source, has a damaged copy, or cannot be reached.
        """
        # A file that the cache lacks is not an error yet: a stage makes it, or the remote has it.
        self.dvc("checkout", "--quiet", "--allow-missing", what="Restoring what the cache has")
        missing = [source for source in sources if not self._has_outs(source)]
        if not missing:
            return

        self.dvc("pull", *missing, what=f"Fetching {', '.join(missing)} from the DVC remote")

    def _has_outs(self, source: str) -> bool:
        path = self.programs.cwd / source
        return all((path.parent / out["path"]).exists() for out in read_yaml(path).get("outs", []))

    def reproduce(self, stage: str) -> StageOutcome:
        """Run one stage, unless DVC finds its inputs unchanged.

        Raises:
            ProgramError: The stage failed; the message ends with the last lines it printed.
            PermanentError: It would fail again, because its parameters or its data are wrong.
        """
        outcome: StageOutcome = "ran"

        def listen(line: str) -> None:
            nonlocal outcome
            if line == f"Stage '{stage}' didn't change, skipping":
                outcome = "skipped"
            elif line.startswith(f"Stage '{stage}' is cached - skipping run"):
                outcome = "restored"
            if not _HINT.match(line):  # meant for a person at a terminal
                self.on_line(line)

        try:
            self.dvc("repro", "--single-item", stage, what=f"Stage {stage!r}", on_line=listen)
        except ProgramError as error:
            if any(line.endswith(_PERMANENT) for line in error.last):
                raise PermanentError(error.what, error.code, error.last) from None
            raise
        return outcome


class PermanentError(ProgramError):
    """A stage failed because its parameters or its data are wrong: another attempt would fail, too."""


def log_line(line: str) -> None:
    """Log a line of output to the task that runs, or to the flow between tasks."""
    if line.startswith("ERROR:"):
        get_run_logger().error(line)
    else:
        get_run_logger().info(line)


UNCACHED: dict[str, Any] = {"cache_policy": NO_CACHE, "persist_result": False}
_UNCHANGED = {
    "skipped": ("Skipped", "Nothing that the stage reads has changed."),
    "restored": ("Restored", "DVC ran the stage on these inputs before, and restored its outs."),
}


def _may_succeed(_task: object, _run: object, state: State[Any]) -> bool:
    return not isinstance(state.result(raise_on_failure=False), PermanentError)


def stage_task(stage: str, policy: StagePolicy) -> Task[[Pipeline], State[Any] | None]:
    """Return the task of one stage: named after it, with its retries and timeout.

    A stage that DVC skips ends as Skipped.

    One whose parameters or data are wrong is not tried again; a training resumes from its checkpoint.

    The task has no tags: Prefect requests the concurrency limit of each tag from the server, and after every
    long stage loses two seconds because the server has closed the idle connection (measured with 3.8.8).
    """

    @task(
        name=stage,
        task_run_name=stage,
        retries=policy.retries,
        retry_delay_seconds=policy.retry_delay_seconds,
        retry_condition_fn=_may_succeed,
        timeout_seconds=policy.timeout_minutes * 60,
        **UNCACHED,
    )
    def run(pipeline: Pipeline) -> State[Any] | None:
        outcome = pipeline.reproduce(stage)
        if outcome != "ran":
            name, message = _UNCHANGED[outcome]
            return Completed(name=name, message=message)
        return None

    return run


@task(name="push", task_run_name="push", retries=2, retry_delay_seconds=[10, 60], **UNCACHED)
def push_artifacts(pipeline: Pipeline, *, weights: bool) -> None:
    """Push the outs of the run to the DVC remote, before its commit is pushed.

    Weights are pushed only for a model that is promoted.
    """
    if weights:
        pipeline.dvc("push", "--quiet", what="Pushing the weights to the DVC remote")
        return
    root = pipeline.programs.cwd
    targets = [path for path in read_lock(root).outs() if not is_weights(path)]
    targets += pipeline.graph().sources
    pipeline.dvc("push", "--quiet", *targets, what="Pushing the result to the DVC remote")
