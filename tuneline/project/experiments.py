"""Experiments: trainings with other parameters, each in a working tree of its own.

Their results are commits that DVC knows as experiments.

A working tree is ``.dvc/tmp/experiments/NAME``: HEAD with the uncommitted changes of the user's tree, and
DVC's cache. So the user's tree is never touched, several experiments run at once, and a killed one leaves
nothing but its folder, from whose checkpoints the same experiment resumes. A finished one is a commit, on top
of HEAD, under ``refs/exps/``: ``dvc exp show``, ``apply`` and ``push`` know it. ``dvc exp save`` cannot make
it: it wants the outs of all stages, and records outdated ones as new.

The commit has the parameters, ``dvc.lock`` and the metrics of the stages that ran. What stages after the
training wrote is of another model: an experiment is scored on validation, and test is computed for the chosen
one. So the commit lacks those metrics. ``dvc.lock`` keeps the entries of these stages, because ``dvc exp
apply`` fails without them; they do not fit the model, so DVC runs the stages again.
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
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import psutil

from tuneline.core.errors import StageError
from tuneline.core.locks import BusyError, locked
from tuneline.core.paths import CHECKPOINTS, METRICS, PARAMS, TIMING
from tuneline.core.records import Timing
from tuneline.project.dvc import Lock, load_yaml, local_settings
from tuneline.project.programs import program_environment, run_dvc, running, site_cache
from tuneline.project.repo import git, lock_at, metrics_at, other_params
from tuneline.project.worktrees import IsolatedTree, run_git

EXPERIMENT_STATE = Path(".dvc/tmp/experiments")
TRAIN_STAGE = "train"
BASE_EXPERIMENT = "base"
"""Name of the experiment with the parameters of its commit."""
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
GENERATED = ("dvc.lock", f"{METRICS}/")
"""What the pipeline writes, and ``dvc repro`` writes again."""
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


@dataclass(frozen=True)
class SavedExperiment:
    """A finished experiment.

    Attributes:
        commit: Commit with its parameters, ``dvc.lock`` and metrics.
        base: Commit that it is based on.
        date: Date of ``commit``, as ``YYYY-MM-DD``.
        record: Values that the message of ``commit`` has, such as seconds.
    """

    root: Path
    name: str
    commit: str
    base: str
    date: str
    record: Mapping[str, Any]

    @property
    def ref(self) -> str:
        """The ref that keeps the commit."""
        return _ref(self.base, self.name)

    @property
    def is_committed(self) -> bool:
        """True for the result of a commit of the user's own, see ``committed_result``."""
        return self.commit == self.base

    @cached_property
    def lock(self) -> Lock:
        """Its ``dvc.lock``, without stages that did not run for this model."""
        return lock_at(self.root, self.commit).consistent()

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """Its ``params.yaml``."""
        return load_yaml(git(self.root, "show", f"{self.commit}:{PARAMS}")) or {}

    def metrics(self, stage: str = TRAIN_STAGE) -> Mapping[str, float]:
        """Return the metrics of a stage; empty if the stage did not run."""
        return metrics_at(self.root, self.commit, stage)


def saved_experiments(root: Path, base: str | None = None) -> list[SavedExperiment]:
    """List the finished experiments, the oldest first; with ``base``, only the experiments on that commit.

    Experiments of ``dvc exp run`` are listed as well.
    """
    fields = "%(refname)%00%(objectname)%00%(committerdate:short)%00%(contents:body)%01"
    where = _ref(base, "") if base else "refs/exps/"
    printed = git(root, "for-each-ref", "--sort=committerdate", f"--format={fields}", where)
    experiments = []
    for entry in printed.split("\x01"):
        values = entry.strip().split("\x00")
        match = re.fullmatch(r"refs/exps/([0-9a-f]{2})/([0-9a-f]{38})/([^/]+)", values[0])
        if not match:
            continue
        start, rest, name = match.groups()
        _, commit, date, body = values
        experiments.append(SavedExperiment(root, name, commit, start + rest, date, _record(body)))
    return experiments


def committed_result(root: Path, commit: str) -> SavedExperiment | None:
    """Return the result that is committed with the parameters of a commit.

    ``None`` if there is no training, or it had other parameters.
    """
    name = "HEAD" if commit == git(root, "rev-parse", "HEAD") else commit[:7]
    date = git(root, "show", "--no-patch", "--format=%cs", commit)
    result = SavedExperiment(root, name, commit, commit, date, {})
    is_own = TRAIN_STAGE in result.lock.stages and not other_params(result.params, result.lock)
    return result if is_own else None


def find_experiment(root: Path, name: str) -> SavedExperiment | None:
    """Return the experiment of that name: on top of HEAD if there is one, else the latest of all bases."""
    named = [experiment for experiment in saved_experiments(root) if experiment.name == name]
    head = git(root, "rev-parse", "HEAD")
    for experiment in named:
        if experiment.base == head:
            return experiment
    return named[-1] if named else None


def resolve_revision(root: Path, revision: str) -> str | None:
    """Return the commit that a revision of git, or the name of an experiment, stands for.

    ``None`` if there is none.
    """
    commit = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit:
        return commit
    experiment = find_experiment(root, revision)
    return experiment.commit if experiment else None


def delete(experiment: SavedExperiment) -> None:
    """Remove a finished experiment. DVC's cache keeps its outs until they are collected."""
    run_git(experiment.root, "update-ref", "-d", experiment.ref, experiment.commit)


def apply_experiment(root: Path, experiment: SavedExperiment, *, force: bool) -> list[str]:
    """Write what the experiment changed into the working tree, and check its outs out.

    Metrics of stages after the training are removed until ``dvc repro`` writes those of this model.

    Returns:
        The files whose content has changed.

    Raises:
        StageError: A file that it would overwrite has uncommitted changes, or differs in HEAD from the file
            of the experiment's base. Not with ``force``.
    """
    changed = _changed(root, experiment.base, experiment.commit)
    if not force:
        _check_kept(root, experiment, [path for path in changed if not path.startswith(GENERATED)])

    # Files: what the experiment changed, and metrics that it lacks, because they are of another model.
    committed = set(git(root, "ls-tree", "-r", "-z", "--name-only", experiment.commit).split("\x00"))
    files = list(changed)
    for metrics in (root / METRICS).glob("*.json"):
        path = f"{METRICS}/{metrics.name}"
        if path not in committed and path not in changed:
            files.append(path)
    before = {path: _content(root / path) for path in files}
    written = [path for path in files if path in committed]
    if written:
        run_git(root, "restore", f"--source={experiment.commit}", "--worktree", "--", *written)
    for path in files:
        if path not in committed:
            (root / path).unlink(missing_ok=True)

    # Outs that DVC's cache has.
    targets = [] if "evaluate" in experiment.lock.stages else ["--with-deps", TRAIN_STAGE]
    reason = run_dvc(root, "checkout", "--quiet", "--force", "--allow-missing", *targets)
    if reason:
        raise StageError(f"DVC cannot check the outs out: {reason}", "Run `dvc checkout --force`.")
    return [path for path in files if _content(root / path) != before[path]]


def _changed(root: Path, base: str, commit: str) -> list[str]:
    paths = git(root, "diff", "--name-only", "--no-renames", "-z", base, commit).split("\x00")
    return [path for path in paths if path]


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _check_kept(root: Path, experiment: SavedExperiment, files: Sequence[str]) -> None:
    """Refuse to overwrite what is saved nowhere, or what changed in HEAD since the experiment."""
    params_in_head = git(root, "rev-parse", f"HEAD:{PARAMS}")
    params_of_experiment = git(root, "rev-parse", f"{experiment.commit}:{PARAMS}")
    changed_in_head = _changed(root, experiment.base, "HEAD")
    if PARAMS.as_posix() in changed_in_head and params_in_head != params_of_experiment:
        hint = (
            f"Run it on this commit: tuneline run {shlex.join(experiment.record.get('overrides', []))}."
            " --force takes the older file."
        )
        raise StageError(
            f"{experiment.name} is of commit {experiment.base[:7]}, and {PARAMS} has changed since.", hint
        )

    for path in files:
        of_experiment = git(root, "rev-parse", "--verify", "--quiet", f"{experiment.commit}:{path}")
        in_head = git(root, "rev-parse", "--verify", "--quiet", f"HEAD:{path}")
        in_tree = git(root, "hash-object", "--", path) if (root / path).is_file() else ""
        if in_tree not in {of_experiment, in_head}:
            raise StageError(
                f"{path} has uncommitted changes.", "Commit them, or overwrite them with --force."
            )


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
        checked_out = ("--with-deps", *targets) if targets else ()
        self.run("checkout", "--quiet", "--allow-missing", *checked_out, output=output)
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
        name = name or self.name

        # The tree: the inputs, and what the stages changed. An index of its own, so that a kill leaves none.
        index = _tree(self.root, self.name).beside("index")
        env = {"GIT_INDEX_FILE": str(index)}
        run_git(self.path, "read-tree", self.inputs, env=env)
        run_git(self.path, "add", "--update", env=env)
        generated = [path for path in ("dvc.lock", METRICS.as_posix()) if (self.path / path).exists()]
        run_git(self.path, "add", "--", *generated, env=env)

        # Without what later stages wrote: it is of another model.
        outdated = [] if target is None else self._outs_after(target)
        if outdated:
            options = ("--cached", "-r", "--quiet", "--force", "--ignore-unmatch")
            run_git(self.path, "rm", *options, "--", *outdated, env=env)
        tree = run_git(self.path, "write-tree", env=env)

        values = {**record, "inputs": self.inputs}
        message = f"Experiment {name}\n\n{json.dumps(values, indent=1)}\n"
        commit = run_git(self.path, "commit-tree", tree, "-p", self.base, text=message)
        index.unlink(missing_ok=True)
        run_git(self.root, "update-ref", _ref(self.base, name), commit)
        saved = {experiment.name: experiment for experiment in saved_experiments(self.root, self.base)}
        return saved[name]

    def _outs_after(self, target: str) -> list[str]:
        """List the outs of stages that did not run, because ``target`` was the last one."""
        lock = Lock((self.path / "dvc.lock").read_text(encoding="utf-8"))
        upstream = lock.upstream(target)
        outs = []
        for name, stage in lock.stages.items():
            if name not in upstream:
                outs += [out["path"] for out in stage.get("outs", [])]
        return outs

    def seconds(self) -> float | None:
        """Return the seconds of the training; ``None`` if DVC had its result."""
        timing = Timing.read_if_valid(self.path / TIMING / "train.json")
        return timing.values.get("seconds") if timing else None

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
                tree.repair_lock()
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
        shutil.copyfile(run_git(root, "rev-parse", "--path-format=absolute", "--git-path", "index"), index)
        run_git(root, "add", "--update", env=env)
        new = git(root, "ls-files", "--others", "--exclude-standard", "-z", "--", *CARRIED)
        if new:
            run_git(root, "add", "--pathspec-from-file=-", "--pathspec-file-nul", env=env, text=new)
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
    with contextlib.suppress(OSError, ValueError):
        return json.loads(tree.record.read_bytes())
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
            lock = stack.enter_context(locked(tree.lock, _KILLED_WAIT))
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield lock


def _ref(base: str, name: str) -> str:
    return f"refs/exps/{base[:2]}/{base[2:]}/{name}"


def _record(body: str) -> Mapping[str, Any]:
    """Return the values in the message of a commit; empty for an experiment of ``dvc exp run``."""
    with contextlib.suppress(ValueError):
        values = json.loads(body)
        return values if isinstance(values, dict) else {}
    return {}


def flat_values(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict) and value:
            flat.update(flat_values(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
