"""Experiments in progress: trainings with other parameters, each in a working tree of its own.

A working tree is ``.dvc/tmp/experiments/NAME``: HEAD with the uncommitted changes of the user's tree, and
DVC's cache. So the user's tree is never touched, several experiments run at once, and a killed one leaves
nothing but its folder, from whose checkpoints the same experiment resumes. A finished one is a commit
(``tuneline/experiments/saved.py``).
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import psutil

from tuneline.core.records import Timing
from tuneline.experiments.saved import (
    TRAIN_STAGE,
    SavedExperiment,
    experiment_ref,
    saved_experiments,
)
from tuneline.paths import CHECKPOINTS, METRICS, PARAMS, TIMING
from tuneline.repository.dvc import Lock, local_settings
from tuneline.repository.git import git, missing
from tuneline.repository.programs import program_environment, running, site_cache
from tuneline.repository.worktrees import IsolatedTree, run_git
from tuneline.runtime.errors import DataError, StageError
from tuneline.runtime.locks import BusyError, locked

EXPERIMENT_STATE = Path(".dvc/tmp/experiments")
CARRIED = (
    "conf",
    "data",
    "dvc.lock",
    "dvc.yaml",
    "metrics",
    "models",
    "params.yaml",
    "project",
    "stages",
    "tuneline",
)
"""Files and folders whose new files, if git does not ignore them, belong to an experiment.

Changes of tracked files belong to it everywhere.
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,=+-]{0,99}")
_KILLED_WAIT = 60.0
"""Seconds to wait for what a killed command has left: its training saves a checkpoint first."""


def check_name(root: Path, name: str) -> None:
    """Refuse a name that git or DVC would not take, or would take for something else."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock")):
        hint = "Use letters, digits and _ . , = + -, beginning with a letter or a digit; at most 100."
        raise StageError(f"{name!r} cannot be the name of an experiment.", hint)
    if git(root, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
        raise StageError(
            f"{name!r} is the name of a branch, a tag or a commit.", "Give the experiment another name."
        )


def require_versioned(root: Path, params: Mapping[str, Any]) -> None:
    """Refuse data or weights that the parameters name and that only the user's working tree has."""
    for path in missing(root, params):
        hint = f"An experiment runs in a tree of its own. Let DVC keep it: dvc add {shlex.quote(str(path))}"
        raise DataError(f"Neither git nor DVC has {path}.", hint)


def unfinished(root: Path) -> list[str]:
    """List the experiments that run or were interrupted."""
    records = (root / EXPERIMENT_STATE).glob(".*.json")
    return sorted(record.name.removeprefix(".").removesuffix(".json") for record in records)


@dataclass(frozen=True)
class Experiment:
    """An experiment in its working tree, which this process holds.

    Attributes:
        base: Commit that it is based on.
        inputs: Git tree of all that determines it: the base, the uncommitted changes, the parameters.
        lock: File descriptor of the lock that this process holds.
        resumed: True if an earlier attempt of the same experiment was interrupted: checkpoints may exist.
    """

    root: Path
    name: str
    base: str
    inputs: str
    lock: int
    resumed: bool = False

    @property
    def path(self) -> Path:
        """Its working tree."""
        return _tree(self.root, self.name).path

    def run(self, *arguments: str, output: TextIO | None = None, env: Mapping[str, str] | None = None) -> int:
        """Run DVC in the working tree and return its exit code, as ``execute`` does."""
        return self.execute([sys.executable, "-P", "-m", "dvc", *arguments], output, env)

    def execute(
        self, command: Sequence[str], output: TextIO | None = None, env: Mapping[str, str] | None = None
    ) -> int:
        """Run a command in the working tree, and return its exit code.

        It prints to this process's terminal, or to ``output``. Whatever it has started ends before this
        returns or raises. An exception here, such as Ctrl-C, stops it: the training saves a checkpoint. So
        does the end of this process, however it ends; the lock is held until then.
        """
        environment = {**program_environment(), **site_cache(self.path), **(env or {})}
        with (
            Path(os.devnull).open("rb") as nothing,  # there is no pipe that anyone would have to drain
            running(
                command,
                cwd=self.path,
                env=environment,
                output=output,
                drained=nothing.fileno(),
                locks=[self.lock],
                leader_last=True,  # DVC, or the launcher of a training: it ends after what it waits for
            ) as supervisor,
        ):
            return supervisor.wait()

    def reproduce(
        self, *targets: str, output: TextIO | None = None, env: Mapping[str, str] | None = None
    ) -> int:
        """Run the stages up to ``targets``, all of them without one; return DVC's exit code."""
        scope = list(targets)
        if targets:
            scope.insert(0, "--with-deps")
        self.run("checkout", "--quiet", "--allow-missing", *scope, output=output)
        return self.run("repro", *targets, output=output, env=env)

    def save(
        self, record: Mapping[str, Any], target: str | None = TRAIN_STAGE, name: str | None = None
    ) -> SavedExperiment:
        """Commit what ran, and set DVC's ref to the commit, in one step.

        An experiment of that name on the same base is replaced.

        Args:
            record: Values that are no out, such as seconds, for the message of the commit.
            target: The last stage that ran; ``None`` if all did.
            name: Name of the experiment, if it is another one than the name of the working tree.

        Returns:
            The experiment as git has it.
        """
        if name is None:
            name = self.name

        # The tree: the inputs, and what the stages changed. An index of its own, so that a kill leaves none.
        # Its lock is of a killed git: this process holds the tree.
        index = _tree(self.root, self.name).beside("index")
        index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
        env = {"GIT_INDEX_FILE": str(index)}
        run_git(self.path, "read-tree", self.inputs, env=env)
        run_git(self.path, "add", "--update", env=env)
        generated = [path for path in ("dvc.lock", METRICS.as_posix()) if (self.path / path).exists()]
        run_git(self.path, "add", "--", *generated, env=env)

        # Without what later stages wrote: it is of another model.
        if target is not None:
            self._drop_outs_after(target, env)
        tree = run_git(self.path, "write-tree", env=env)

        values = {**record, "inputs": self.inputs}
        message = f"Experiment {name}\n\n{json.dumps(values, indent=1)}\n"
        commit = run_git(self.path, "commit-tree", tree, "-p", self.base, text=message)
        index.unlink(missing_ok=True)
        run_git(self.root, "update-ref", experiment_ref(self.base, name), commit)
        by_name = {experiment.name: experiment for experiment in saved_experiments(self.root, self.base)}
        return by_name[name]

    def _drop_outs_after(self, target: str, env: Mapping[str, str]) -> None:
        """Remove from the index the outs of stages that did not run, because ``target`` was the last one."""
        lock = Lock((self.path / "dvc.lock").read_text(encoding="utf-8"))
        upstream = lock.upstream(target)
        outs = []
        for name, stage in lock.stages.items():
            if name not in upstream:
                outs += [out["path"] for out in stage.get("outs", [])]
        if outs:
            options = ["--cached", "-r", "--quiet", "--force", "--ignore-unmatch"]
            run_git(self.path, "rm", *options, "--", *outs, env=env)

    def seconds(self) -> float | None:
        """Return the seconds of the training; ``None`` if DVC had its result."""
        timing = Timing.read_if_valid(self.path / TIMING / "train.json")
        if timing is None:
            return None
        return timing.values.get("seconds")

    def discard(self) -> None:
        """Remove the working tree."""
        tree = _tree(self.root, self.name)
        with _changing(self.root):
            tree.remove()
            tree.lock.unlink(missing_ok=True)


@contextlib.contextmanager
def opened(root: Path, name: str, params: str) -> Iterator[Experiment]:
    """Yield the experiment of that name; resume it if it was interrupted.

    ``params`` is the text of its ``params.yaml``. The working tree stays until ``discard`` removes it. If
    other inputs were interrupted under that name, the training still finds their checkpoints, and uses them
    where they fit.

    Raises:
        StageError: The name is not allowed, or a process runs this experiment, or DVC and git do not have its
            data.
    """
    root = root.resolve()
    check_name(root, name)
    tree = _tree(root, name)
    tree.path.parent.mkdir(parents=True, exist_ok=True)

    with _held(tree) as lock:
        with _changing(root):
            base = run_git(root, "rev-parse", "HEAD")
            inputs = snapshot(root, params)
            resumed = tree.is_complete and _read(tree) == {"base": base, "inputs": inputs}
            if resumed:
                tree.repair()
            else:
                _create(tree, base, inputs, params)
            # Here, because a kill between the creation and this line leaves an experiment that is resumed.
            if _carried_checkpoints(tree).is_dir():
                _carried_checkpoints(tree).rename(tree.path / CHECKPOINTS)
        yield Experiment(root, name, base, inputs, lock, resumed)


def snapshot(root: Path, params: str) -> str:
    """Return the git tree of the user's working tree with other parameters.

    Neither the working tree nor its index is changed. The git tree has the uncommitted changes of tracked
    files, and new files in ``CARRIED``.
    """
    index = (root / EXPERIMENT_STATE).with_name(f"experiments-{os.getpid()}.index")
    env = {"GIT_INDEX_FILE": str(index)}
    try:
        # Changes of tracked files: on a copy of the user's index, so that git hashes only what has changed.
        users_index = run_git(root, "rev-parse", "--path-format=absolute", "--git-path", "index")
        shutil.copyfile(users_index, index)
        run_git(root, "add", "--update", env=env)

        # New files; their names go through a pipe, as a command line may be too short for them.
        new = git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *CARRIED)
        if new:
            run_git(root, "add", "--pathspec-from-file=-", "--pathspec-file-nul", env=env, text=new)

        # The parameters.
        blob = run_git(root, "hash-object", "-w", "--stdin", text=params)
        run_git(root, "update-index", "--add", "--cacheinfo", f"100644,{blob},{PARAMS}", env=env)
        return run_git(root, "write-tree", env=env)
    finally:
        index.unlink(missing_ok=True)


def _create(tree: IsolatedTree, base: str, inputs: str, params: str) -> None:
    """Create the working tree, in place of one with other inputs, whose checkpoints are put aside."""
    if (tree.path / CHECKPOINTS).is_dir():
        shutil.rmtree(_carried_checkpoints(tree), ignore_errors=True)
        (tree.path / CHECKPOINTS).rename(_carried_checkpoints(tree))
    tree.remove()

    with tree.created(base, {"base": base, "inputs": inputs}):
        _stage_changes(tree.path)
        run_git(tree.path, "read-tree", "--reset", "-u", inputs)
        (tree.path / PARAMS).write_text(params, encoding="utf-8")


def _carried_checkpoints(tree: IsolatedTree) -> Path:
    """Return where checkpoints are while their working tree is created again."""
    return tree.beside("checkpoints")


def _stage_changes(path: Path) -> None:
    """Let DVC add what it writes to the index of a working tree: else it tells the user to do that."""
    with local_settings(path) as edited:
        edited.setdefault("core", {})["autostage"] = True


def _tree(root: Path, name: str) -> IsolatedTree:
    """Return the working tree of an experiment; the files beside it begin with a dot, which no name does."""
    return IsolatedTree(root, root / EXPERIMENT_STATE / name, prefix=".")


def _read(tree: IsolatedTree) -> Any:
    try:
        return json.loads(tree.record.read_bytes())
    except (OSError, ValueError):
        return None


def remove_unfinished(root: Path, name: str) -> None:
    """Remove the working tree of an interrupted experiment; a ``StageError`` if a process runs it."""
    tree = _tree(root, name)
    with _held(tree), _changing(root):
        tree.remove()


@contextlib.contextmanager
def _changing(root: Path) -> Iterator[None]:
    """Hold the lock for creating and removing working trees of experiments.

    It is not the lock of the checkouts of flows, which flow ``clean`` holds while it collects DVC's cache.
    """
    with locked((root / EXPERIMENT_STATE).with_name("experiments.lock")):
        yield


@contextlib.contextmanager
def _held(tree: IsolatedTree) -> Iterator[int]:
    """Hold the lock of an experiment; if its holder was killed, wait for the processes that it has left.

    Raises:
        StageError: A process runs the experiment.
        BusyError: Processes that a killed command left do not end.
    """
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(locked(tree.lock, wait=0))
        except BusyError:
            holder = tree.lock.read_text(encoding="utf-8")
            if holder.isdigit() and psutil.pid_exists(int(holder)):
                raise StageError(
                    f"Experiment {tree.path.name} is running, in process {holder}.",
                    "Wait for it, or stop it.",
                ) from None
            # The holder was killed: what it has started still holds the lock, and ends soon.
            lock = stack.enter_context(locked(tree.lock, _KILLED_WAIT))
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield lock
