"""``tuneline experiments apply``: the files of an experiment in the working tree, without a commit."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tuneline.core.errors import StageError
from tuneline.core.paths import METRICS, PARAMS
from tuneline.core.terminal import visible
from tuneline.project.experiments import TRAIN, SavedExperiment
from tuneline.project.repo import git
from tuneline.project.worktrees import python_first, run_git, site_cache

GENERATED = ("dvc.lock", f"{METRICS}/")
"""What the pipeline writes, and ``dvc repro`` writes again."""


def apply_experiment(root: Path, experiment: SavedExperiment, *, force: bool) -> list[str]:
    """Write what the experiment changed into the working tree, and check its outs out; return the changed files.

    Metrics of stages after the training are removed until ``dvc repro`` writes those of this model.

    Raises:
        StageError: A file that it would overwrite has uncommitted changes, or differs in HEAD from that of the experiment's base. Not
            with ``force``.
    """
    files = _changed(root, experiment.base, experiment.commit)
    if not force:
        _check_kept(root, experiment, [path for path in files if not path.startswith(GENERATED)])
    present = set(git(root, "ls-tree", "-r", "-z", "--name-only", experiment.commit).split("\x00"))
    files += [path for one in (root / METRICS).glob("*.json") if (path := f"{METRICS}/{one.name}") not in {*present, *files}]
    before = {path: _content(root / path) for path in files}
    if written := [path for path in files if path in present]:
        run_git(root, "restore", f"--source={experiment.commit}", "--worktree", "--", *written)
    for path in files:
        if path not in present:
            (root / path).unlink(missing_ok=True)
    _check_out(root, everything="evaluate" in experiment.lock.stages)
    return [path for path in files if _content(root / path) != before[path]]


def _changed(root: Path, base: str, commit: str) -> list[str]:
    return [path for path in git(root, "diff", "--name-only", "--no-renames", "-z", base, commit).split("\x00") if path]


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _check_kept(root: Path, experiment: SavedExperiment, files: Sequence[str]) -> None:
    """Refuse to overwrite what neither HEAD nor the experiment has, or what changed in HEAD since the experiment."""
    if PARAMS.as_posix() in _changed(root, experiment.base, "HEAD") and _is_other(root, "HEAD", experiment):
        hint = f"Run it on this commit: tuneline run {shlex.join(experiment.record.get('overrides', []))}. --force takes the older file."
        raise StageError(f"{experiment.name} is of commit {experiment.base[:7]}, and {PARAMS} has changed since.", hint)
    for path in files:
        theirs = git(root, "rev-parse", "--verify", "--quiet", f"{experiment.commit}:{path}")
        mine = git(root, "hash-object", "--", path) if (root / path).is_file() else ""
        if mine not in {theirs, git(root, "rev-parse", "--verify", "--quiet", f"HEAD:{path}")}:
            raise StageError(f"{path} has uncommitted changes.", "Commit them, or overwrite them with --force.")


def _is_other(root: Path, revision: str, experiment: SavedExperiment) -> bool:
    return git(root, "rev-parse", f"{revision}:{PARAMS}") != git(root, "rev-parse", f"{experiment.commit}:{PARAMS}")


def _check_out(root: Path, *, everything: bool) -> None:
    """Let DVC write the outs of ``dvc.lock`` that its cache has."""
    command = [sys.executable, "-P", "-m", "dvc", "checkout", "--quiet", "--force", "--allow-missing"]
    targets = [] if everything else ["--with-deps", TRAIN]
    done = subprocess.run(
        [*command, *targets], cwd=root, env={**_environment(), **site_cache(root)}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StageError(visible(f"DVC cannot check the outs out: {done.stderr.strip()}"), "Run `dvc checkout --force`.")


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, **python_first()}
