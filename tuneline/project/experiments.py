"""Experiments: trainings with other parameters, each in a working tree of its own, kept as commits that DVC knows as experiments.

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
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import psutil

from tuneline.core.atomic_files import write_json
from tuneline.core.errors import StageError
from tuneline.core.locks import BusyError, locked
from tuneline.core.paths import CHECKPOINTS, METRICS, PARAMS, TIMING
from tuneline.core.processes import ending, supervised
from tuneline.core.records import Timing
from tuneline.project.dvc import Lock, load_yaml, local_settings
from tuneline.project.repo import git, lock_at, metrics_at, other_params
from tuneline.project.worktrees import (
    add_worktree,
    python_first,
    remove_worktree,
    repair_lock,
    run_dvc,
    run_git,
    site_cache,
)

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
"""Where new files that git does not ignore belong to an experiment, as changes of tracked files do everywhere."""
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
    """A finished experiment: its commit, that of its base, the date of the former (``YYYY-MM-DD``) and what its message records."""

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
    """List the finished experiments, those of ``dvc exp run`` as well, the oldest first; of one base commit if it is given."""
    fields = "%(refname)%00%(objectname)%00%(committerdate:short)%00%(contents:body)%01"
    where = _ref(base, "") if base else "refs/exps/"
    experiments = []
    for entry in git(root, "for-each-ref", "--sort=committerdate", f"--format={fields}", where).split("\x01"):
        ref, commit, date, body = (*entry.strip().split("\x00"), "", "", "")[:4]
        if match := re.fullmatch(r"refs/exps/([0-9a-f]{2})/([0-9a-f]{38})/([^/]+)", ref):
            experiments.append(
                SavedExperiment(root, match[3], commit, match[1] + match[2], date, _record(body))
            )
    return experiments


def committed_result(root: Path, commit: str) -> SavedExperiment | None:
    """Return the result that is committed with the parameters of a commit; ``None`` if its training is of others, or there is none."""
    name = "HEAD" if commit == git(root, "rev-parse", "HEAD") else commit[:7]
    result = SavedExperiment(
        root, name, commit, commit, git(root, "show", "--no-patch", "--format=%cs", commit), {}
    )
    is_own = TRAIN_STAGE in result.lock.stages and not other_params(result.params, result.lock)
    return result if is_own else None


def find_experiment(root: Path, name: str) -> SavedExperiment | None:
    """Return the experiment of that name: on top of HEAD if there is one, else the latest of all bases."""
    named = [experiment for experiment in saved_experiments(root) if experiment.name == name]
    head = git(root, "rev-parse", "HEAD")
    return next((experiment for experiment in named if experiment.base == head), named[-1] if named else None)


def resolve_revision(root: Path, revision: str) -> str | None:
    """Return the commit that a revision of git, or the name of an experiment, stands for; ``None`` if there is none."""
    if commit := git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"):
        return commit
    experiment = find_experiment(root, revision)
    return experiment.commit if experiment else None


def delete(experiment: SavedExperiment) -> None:
    """Remove a finished experiment. DVC's cache keeps its outs until they are collected."""
    run_git(experiment.root, "update-ref", "-d", experiment.ref, experiment.commit)


def apply_experiment(root: Path, experiment: SavedExperiment, *, force: bool) -> list[str]:
    """Write what the experiment changed into the working tree, and check its outs out; return the changed files.

    Metrics of stages after the training are removed until ``dvc repro`` writes those of this model.

    Raises:
        StageError: A file that it would overwrite has uncommitted changes, or differs in HEAD from that of
            the experiment's base. Not with ``force``.
    """
    files = _changed(root, experiment.base, experiment.commit)
    if not force:
        _check_kept(root, experiment, [path for path in files if not path.startswith(GENERATED)])
    present = set(git(root, "ls-tree", "-r", "-z", "--name-only", experiment.commit).split("\x00"))
    files += [
        path
        for file in (root / METRICS).glob("*.json")
        if (path := f"{METRICS}/{file.name}") not in {*present, *files}
    ]
    before = {path: _content(root / path) for path in files}
    if written := [path for path in files if path in present]:
        run_git(root, "restore", f"--source={experiment.commit}", "--worktree", "--", *written)
    for path in files:
        if path not in present:
            (root / path).unlink(missing_ok=True)
    targets = [] if "evaluate" in experiment.lock.stages else ["--with-deps", TRAIN_STAGE]
    if reason := run_dvc(
        root, "checkout", "--quiet", "--force", "--allow-missing", *targets
    ):  # the outs that DVC's cache has
        raise StageError(f"DVC cannot check the outs out: {reason}", "Run `dvc checkout --force`.")
    return [path for path in files if _content(root / path) != before[path]]


def _changed(root: Path, base: str, commit: str) -> list[str]:
    return [
        path
        for path in git(root, "diff", "--name-only", "--no-renames", "-z", base, commit).split("\x00")
        if path
    ]


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _check_kept(root: Path, experiment: SavedExperiment, files: Sequence[str]) -> None:
    """Refuse to overwrite what neither HEAD nor the experiment has, or what changed in HEAD since the experiment."""
    present, theirs = (
        git(root, "rev-parse", f"{revision}:{PARAMS}") for revision in ("HEAD", experiment.commit)
    )
    if PARAMS.as_posix() in _changed(root, experiment.base, "HEAD") and present != theirs:
        hint = (
            f"Run it on this commit: tuneline run {shlex.join(experiment.record.get('overrides', []))}."
            " --force takes the older file."
        )
        raise StageError(
            f"{experiment.name} is of commit {experiment.base[:7]}, and {PARAMS} has changed since.", hint
        )
    for path in files:
        theirs = git(root, "rev-parse", "--verify", "--quiet", f"{experiment.commit}:{path}")
        mine = git(root, "hash-object", "--", path) if (root / path).is_file() else ""
        if mine not in {theirs, git(root, "rev-parse", "--verify", "--quiet", f"HEAD:{path}")}:
            raise StageError(
                f"{path} has uncommitted changes.", "Commit them, or overwrite them with --force."
            )


def unfinished(root: Path) -> list[str]:
    """List the experiments that run or were interrupted."""
    return sorted(
        path.name.removeprefix(".").removesuffix(".json")
        for path in (root / EXPERIMENT_STATE).glob(".*.json")
    )


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
        return self.root / EXPERIMENT_STATE / self.name

    def run(self, *arguments: str, output: TextIO | None = None, env: Mapping[str, str] | None = None) -> int:
        """Run DVC in the working tree and return its exit code, as ``execute`` does."""
        return self.execute([sys.executable, "-P", "-m", "dvc", *arguments], output, env)

    def execute(
        self, command: Sequence[str], output: TextIO | None = None, env: Mapping[str, str] | None = None
    ) -> int:
        """Run a command in the working tree and return its exit code; whatever it has started ends before this returns or raises.

        It prints to this process's terminal, or to ``output``. An exception here, such as Ctrl-C, stops it:
        the training saves a checkpoint. So does the end of this process, however it ends; the lock is held
        until then.
        """
        environment = {**os.environ, **python_first(), **site_cache(self.path), **(env or {})}
        environment.pop("PYTHONPATH", None)
        with Path(os.devnull).open(
            "rb"
        ) as nothing:  # the supervisor would read a pipe that this process leaves
            supervisor = subprocess.Popen(
                supervised(command, nothing.fileno(), leader_last=True),
                cwd=self.path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[nothing.fileno(), self.lock],
                start_new_session=True,  # Ctrl-C reaches this process only, which stops the others in order
            )
            with ending(supervisor):
                return supervisor.wait()

    def reproduce(
        self, *targets: str, output: TextIO | None = None, env: Mapping[str, str] | None = None
    ) -> int:
        """Run the stages up to ``targets``, all of them without one; return DVC's exit code."""
        self.run(
            "checkout",
            "--quiet",
            "--allow-missing",
            *(("--with-deps", *targets) if targets else ()),
            output=output,
        )
        return self.run("repro", *targets, output=output, env=env)

    def save(
        self, record: Mapping[str, Any], target: str | None = TRAIN_STAGE, name: str | None = None
    ) -> SavedExperiment:
        """Commit what ran, and set DVC's ref to it, in one step; an experiment of that name on the same base is replaced.

        Args:
            record: Values that are no out, such as seconds, for the message of the commit.
            target: The last stage that ran; ``None`` if all did.
            name: Name of the experiment, if it is another one than that of the working tree.
        """
        lock = Lock((self.path / "dvc.lock").read_text(encoding="utf-8"))
        later = set() if target is None else {*lock.stages} - lock.upstream(target)
        index = {"GIT_INDEX_FILE": str(_file(self.root, self.name, "index"))}
        run_git(self.path, "read-tree", self.inputs, env=index)
        run_git(self.path, "add", "--update", env=index)
        kept = [path for path in ("dvc.lock", METRICS.as_posix()) if (self.path / path).exists()]
        run_git(self.path, "add", "--", *kept, env=index)
        outdated = [out["path"] for stage in later for out in lock.stages[stage].get("outs", [])]
        if outdated:
            run_git(
                self.path,
                "rm",
                "--cached",
                "-r",
                "--quiet",
                "--force",
                "--ignore-unmatch",
                "--",
                *outdated,
                env=index,
            )
        tree = run_git(self.path, "write-tree", env=index)
        record = {**record, "inputs": self.inputs}
        name = name or self.name
        message = f"Experiment {name}\n\n{json.dumps(record, indent=1)}\n"
        commit = run_git(self.path, "commit-tree", tree, "-p", self.base, text=message)
        Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
        run_git(self.root, "update-ref", _ref(self.base, name), commit)
        return next(
            experiment for experiment in saved_experiments(self.root, self.base) if experiment.name == name
        )

    def seconds(self) -> float | None:
        """Return the seconds of the training; ``None`` if DVC had its result."""
        timing = Timing.read_if_valid(self.path / TIMING / "train.json")
        return timing.values.get("seconds") if timing else None

    def discard(self) -> None:
        """Remove the working tree."""
        with _changing(self.root):
            _remove(self.root, self.name)
            _file(self.root, self.name, "lock").unlink(missing_ok=True)


@contextlib.contextmanager
def opened(root: Path, name: str, params: str) -> Iterator[Experiment]:
    """Yield the experiment of that name with these parameters, the text of a ``params.yaml``; resume an interrupted one.

    The working tree stays until ``discard`` removes it. If other inputs were interrupted under that name, the
    training still finds their checkpoints, and uses them where they fit.

    Raises:
        StageError: The name is not allowed, or a process runs this experiment, or DVC and git do not have its
            data.
    """
    root = root.resolve()
    check_name(root, name)
    state = root / EXPERIMENT_STATE
    state.mkdir(parents=True, exist_ok=True)
    with _held(root, name) as lock:
        with _changing(root):
            base, inputs = run_git(root, "rev-parse", "HEAD"), snapshot(root, params)
            experiment = Experiment(root, name, base, inputs, lock)
            resumed = experiment.path.is_dir() and _read(root, name) == {"base": base, "inputs": inputs}
            if resumed:
                repair_lock(experiment.path)
            else:
                _create(experiment, params)
        yield Experiment(root, name, base, inputs, lock, resumed)


def snapshot(root: Path, params: str) -> str:
    """Return the git tree of the user's working tree with other parameters, without changing that tree or its index.

    It has the uncommitted changes of tracked files, and new files in ``CARRIED``.
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


def _create(experiment: Experiment, params: str) -> None:
    """Create the working tree; the record is written last, so what a kill leaves before it is not taken for an experiment."""
    root, path = experiment.root, experiment.path
    former = _file(root, experiment.name, "checkpoints")
    if (path / CHECKPOINTS).is_dir():
        shutil.rmtree(former, ignore_errors=True)
        (path / CHECKPOINTS).rename(former)
    _remove(root, experiment.name)
    add_worktree(root, path, experiment.base)
    _stage_changes(path)
    run_git(path, "read-tree", "--reset", "-u", experiment.inputs)
    (path / PARAMS).write_text(params, encoding="utf-8")
    if former.is_dir():
        former.rename(path / CHECKPOINTS)
    write_json(_file(root, experiment.name, "json"), {"base": experiment.base, "inputs": experiment.inputs})


def _stage_changes(path: Path) -> None:
    """Let DVC add what it writes to the index of a working tree: else it tells the user to do that."""
    with local_settings(path) as edited:
        edited.setdefault("core", {})["autostage"] = True


def _file(root: Path, name: str, suffix: str) -> Path:
    """Return a file beside the working tree of an experiment; no name begins with a dot."""
    return root / EXPERIMENT_STATE / f".{name}.{suffix}"


def _read(root: Path, name: str) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(_file(root, name, "json").read_bytes())
    return None


def _remove(root: Path, name: str) -> None:
    _file(root, name, "json").unlink(missing_ok=True)
    remove_worktree(root, root / EXPERIMENT_STATE / name)
    run_git(root, "worktree", "prune")


def remove_unfinished(root: Path, name: str) -> None:
    """Remove the working tree of an interrupted experiment; a ``StageError`` if a process runs it."""
    with _held(root, name), _changing(root):
        _remove(root, name)


@contextlib.contextmanager
def _changing(root: Path) -> Iterator[None]:
    """Hold the lock for creating and removing working trees."""
    with locked((root / EXPERIMENT_STATE).with_name("experiments.lock")):
        yield


@contextlib.contextmanager
def _held(root: Path, name: str) -> Iterator[int]:
    """Hold the lock of an experiment; if its holder was killed, wait for the processes that it has left.

    Raises:
        StageError: A process runs the experiment.
        BusyError: Processes that a killed command left do not end.
    """
    path = _file(root, name, "lock")
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(locked(path, wait=0))
        except BusyError:
            holder = path.read_text(encoding="utf-8")
            if holder.isdigit() and psutil.pid_exists(int(holder)):
                raise StageError(
                    f"Experiment {name} is running, in process {holder}.", "Wait for it, or stop it."
                ) from None
            lock = stack.enter_context(locked(path, _KILLED_WAIT))
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
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= (
            flat_values(value, f"{prefix}{key}.")
            if isinstance(value, dict) and value
            else {f"{prefix}{key}": value}
        )
    return found
