"""What is done with a finished experiment: it is applied to the working tree, or deleted."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from tuneline.experiments.saved import TRAIN_STAGE, SavedExperiment
from tuneline.paths import METRICS, PARAMS
from tuneline.repository.git import git
from tuneline.repository.programs import run_dvc
from tuneline.repository.worktrees import run_git
from tuneline.runtime.errors import StageError

GENERATED = ("dvc.lock", f"{METRICS}/")
"""What the pipeline writes, and ``dvc repro`` writes again."""


def delete(experiment: SavedExperiment) -> None:
    """Remove a finished experiment. DVC's cache keeps its outs until they are collected."""
    run_git(experiment.root, "update-ref", "-d", experiment.ref, experiment.commit)


def apply_experiment(root: Path, experiment: SavedExperiment, *, force: bool) -> list[str]:
    """Write what the experiment changed into the working tree, and check its outs out.

    Metrics of stages after the training are removed until ``dvc repro`` writes new ones.

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

    # Outs that DVC's cache has. An experiment that stopped after the training has none of later stages.
    targets = ["--with-deps", TRAIN_STAGE]
    if "evaluate" in experiment.lock.stages:
        targets = []
    reason = run_dvc(root, "checkout", "--force", "--allow-missing", *targets)
    if reason:
        raise StageError(f"DVC cannot check the outs out: {reason}", "Run `dvc checkout --force`.")
    return [path for path in files if _content(root / path) != before[path]]


def _changed(root: Path, base: str, commit: str) -> list[str]:
    paths = git(root, "diff", "--name-only", "--no-renames", "-z", base, commit).split("\x00")
    return [path for path in paths if path]


def _content(path: Path) -> bytes | None:
    if not path.is_file():
        return None
    return path.read_bytes()


def _check_kept(root: Path, experiment: SavedExperiment, files: Sequence[str]) -> None:
    """Refuse to overwrite what is saved nowhere, or what changed in HEAD since the experiment."""
    # Parameters: a commit after the experiment may have other ones.
    params_in_head = git(root, "rev-parse", f"HEAD:{PARAMS}")
    params_of_experiment = git(root, "rev-parse", f"{experiment.commit}:{PARAMS}")
    changed_in_head = _changed(root, experiment.base, "HEAD")
    if PARAMS.as_posix() in changed_in_head and params_in_head != params_of_experiment:
        overrides = shlex.join(experiment.record.get("overrides", []))
        hint = f"Run it on this commit: tuneline run {overrides}. --force takes the older file."
        raise StageError(
            f"{experiment.name} is of commit {experiment.base[:7]}, and {PARAMS} has changed since.", hint
        )

    # Files: their content in the working tree must be in a commit.
    for path in files:
        of_experiment = git(root, "rev-parse", "--verify", "--quiet", f"{experiment.commit}:{path}")
        in_head = git(root, "rev-parse", "--verify", "--quiet", f"HEAD:{path}")
        in_tree = ""
        if (root / path).is_file():
            in_tree = git(root, "hash-object", "--", path)
        if in_tree not in {of_experiment, in_head}:
            raise StageError(
                f"{path} has uncommitted changes.", "Commit them, or overwrite them with --force."
            )
