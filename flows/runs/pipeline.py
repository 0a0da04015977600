"""The pipeline in a checkout: its files, its graph, its stages, which DVC runs, and their Prefect tasks.

DVC is the only cache: Prefect's is off.
"""

import json
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from prefect import Task, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas import State
from prefect.states import Completed

from flows.runs import compose
from flows.runs.processes import ProgramError, Programs, for_composition, for_stages
from flows.runs.repository import Repository
from tuneline.core.yaml_files import read_yaml
from tuneline.repository.dvc import (
    cached_folder,
    cached_out,
    default_remote,
    folder_hash,
    is_intact,
    is_weights,
    md5_of,
    read_lock,
)
from tuneline.repository.git import lock_at
from tuneline.runtime.atomic_files import replace_directory, replace_file
from tuneline.runtime.errors import PERMANENT, DataError
from tuneline.settings import StagePolicy

StageOutcome = Literal["ran", "skipped", "restored"]
OnLine = Callable[[str], None]

_HINT = re.compile(
    r"To track the changes with git|\s*git add |To enable auto staging|\s*dvc config core.autostage|Use `dvc"
    r" push`"
)
"""Beginnings of what DVC prints for a person at a terminal."""
_NODE = re.compile(r'"([^"]+)"')
"""A stage or source in what ``dvc dag --dot`` prints: alone, or before what needs it."""
_BUSY = ("Unable to acquire lock", "is busy, it is being blocked by")
"""Parts of DVC's messages about a lock that another process holds."""


class OverridesError(Exception):
    """Parameter overrides that cannot be composed."""


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

    def compose(self, overrides: Sequence[str]) -> None:
        """Write ``params.yaml`` as ``dvc exp run -S ...`` does.

        If Hydra is enabled in DVC's settings, it composes the file from ``conf/``.

        Raises:
            OverridesError: An override is refused, by Hydra or by ``flows/runs/compose.py``; the
                message says why.
        """
        command = [sys.executable, "-P", compose.__file__, json.dumps(list(overrides))]
        env = for_composition(self.programs.env)
        try:
            self.programs.run(command, "Composing params.yaml", lambda _line: None, env=env)
        except ProgramError as error:
            if error.code != compose.REFUSED:
                raise
            lines = [f"Parameters {' '.join(overrides)}:", *error.last]
            raise OverridesError("\n".join(lines)) from None

    def dvc(
        self, *arguments: str, what: str, on_line: OnLine | None = None, env: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Run DVC, waiting while another process holds its lock: DVC itself gives up after three seconds.

        Raises:
            ProgramError: DVC failed, or the lock was held for longer than ``lock_wait``.
        """
        until = time.monotonic() + self.lock_wait
        while True:
            try:
                return self.programs.run(["dvc", *arguments], what, on_line or self.on_line, env=env)
            except ProgramError as error:
                printed = "\n".join(error.last)
                is_busy = any(sign in printed for sign in _BUSY)
                if not is_busy or time.monotonic() > until:
                    raise
            self.on_line("Another process holds DVC's lock; waiting for it.")
            time.sleep(2)

    def get(self, repository: Repository, path: str, commit: str, out: Path, what: str) -> None:
        """Write a file or folder that DVC has for a commit to ``out``, from the cache or the default remote.

        Raises:
            ProgramError: It is in neither, or damaged in the remote.
            DataError: The file in the cache is damaged.
        """
        # Asking the remote takes seconds.
        if self._copy_cached(repository, path, commit, out, what):
            return

        options = ["--force", "--rev", commit, "-o", str(out)]
        remote = default_remote(repository.root)
        if remote:  # the commit may be older than the remote
            options += ["--remote", remote]
        try:
            self.programs.run(["dvc", "get", *options, "--", str(repository.root), path], what, self.on_line)
        except ProgramError as error:
            hint = "If another machine has it, publish it there: python -m flows.promotion publish"
            raise ProgramError(what, error.code, (*error.last, hint)) from None

        # DVC takes a damaged copy of the remote for whole.
        md5 = lock_at(repository.root, commit).out(path)
        if md5 is not None and md5 != (folder_hash(out) if md5.endswith(".dir") else md5_of(out)):
            raise DataError(f"{what}: the DVC remote has a damaged copy of {path} of {commit[:12]}.")

    @staticmethod
    def _copy_cached(repository: Repository, path: str, commit: str, out: Path, what: str) -> bool:
        """Copy a file or folder from the cache; return False if the cache does not have all of it."""
        # files in the cache, by path in the folder; a single file is at its own place
        lock = lock_at(repository.root, commit)
        folder = cached_folder(repository.root, lock, path)
        if folder is None:
            files = {"": cached_out(repository.root, lock, path)}
        else:
            files = folder

        # A damaged file is reported even if another one is missing.
        cached = {}
        for name, file in files.items():
            if file is None:
                continue
            cached[name] = file
            if not is_intact(file):
                raise DataError(
                    f"{what}: DVC's cache is damaged.",
                    f"`rm {file}`: DVC then takes the file from the remote.",
                )
        if len(cached) < len(files):
            return False

        # copy
        replace = replace_file if folder is None else replace_directory
        with replace(out) as partial:
            for name, file in cached.items():
                target = partial / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
        return True

    def graph(self) -> Graph:
        """Read the graph from the checkout's own ``dvc.yaml``."""
        # `keep` is more than there are lines: without it, only the last ones come back.
        what = "Reading dvc.yaml"
        printed = self.programs.run(["dvc", "dag", "--dot"], what, lambda _line: None, keep=100_000)
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
            KilledError: The system killed it.
            PermanentError: It would fail again.
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

        # a stage that the system killed, or that would fail again, has its own error
        env = for_stages(self.programs.env)
        try:
            self.dvc("repro", "--single-item", stage, what=f"Stage {stage!r}", on_line=listen, env=env)
        except ProgramError as error:
            number = killed_by(error)
            if number:
                raise KilledError(number, error) from None
            if stage_exit_code(error) == PERMANENT:
                raise PermanentError(error.what, error.code, error.last) from None
            raise
        return outcome


FAULTS = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
"""Signals by which a system or a driver ends a program; a person stops it by another one."""
_EXITED = re.compile(r"failed to run: .*, exited with (-?\d+)$")


class KilledError(ProgramError):
    """The system killed a stage by a signal."""

    def __init__(self, number: signal.Signals, error: ProgramError) -> None:
        last = list(error.last)
        if number == signal.SIGKILL:
            last.insert(0, "Usually, that is the kernel's out-of-memory killer.")
        super().__init__(error.what, -number, last)
        self.signal = number


class PermanentError(ProgramError):
    """A stage failed because its parameters or its data are wrong: another attempt would fail, too."""


def stage_exit_code(error: ProgramError) -> int:
    """Return the exit code of a stage, which DVC prints; else the exit code of DVC, which is another one."""
    for line in reversed(error.last):
        match = _EXITED.search(line)
        if match:
            return int(match[1])
    return error.code


def killed_by(error: ProgramError) -> signal.Signals | None:
    """Return the signal by which the system killed a stage, or the DVC that ran it.

    ``None`` if the stage failed by itself. The exit code is -N for signal N, 128 + N where a shell or
    ``stages.train.launch`` waited for the killed process, 256 - N where a program passed -N on.
    """
    code = stage_exit_code(error)
    for fault in FAULTS:
        if code in (-fault, 128 + fault, 256 - fault):
            return fault
    return None


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

    A stage that a signal killed is started again within its timeout; one that failed by itself is not, unless
    the policy has retries and neither parameters nor data are at fault.

    The task has no tags: Prefect requests the concurrency limit of each tag from the server, and after every
    long stage loses two seconds because the server has closed the idle connection (measured with 3.8.8).
    """

    @task(
        name=stage,
        task_run_name=stage,
        retries=policy.retries,
        retry_delay_seconds=policy.delays,
        retry_condition_fn=_may_succeed,
        timeout_seconds=policy.timeout_minutes * 60,
        **UNCACHED,
    )
    def run(pipeline: Pipeline) -> State[Any] | None:
        killed: list[str] = []
        while True:
            try:
                outcome = pipeline.reproduce(stage)
                break
            except KilledError as error:
                if len(killed) == policy.retries_after_signal:
                    raise
                killed.append(error.signal.name)
                get_run_logger().warning(
                    "%s\nIt is started again (%d of %d).", error, len(killed), policy.retries_after_signal
                )

        # how the task ends, for people
        if outcome != "ran":
            name, message = _UNCHANGED[outcome]
            return Completed(name=name, message=message)
        if killed:
            return Completed(message=f"Killed by {', '.join(killed)}, then started again.")
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
