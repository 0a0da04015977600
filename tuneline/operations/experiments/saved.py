"""Experiments of ``dvc exp run``: commits under ``refs/exps/`` with parameters, ``dvc.lock`` and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tuneline.core.params.params_file import flat_values
from tuneline.core.paths import PARAMS
from tuneline.core.repository.dvc import Lock, load_yaml
from tuneline.core.repository.git import git, lock_at, metrics_at, other_params

TRAIN_STAGE = "train"
EXPERIMENT_REFS = "refs/exps/"


@dataclass(frozen=True)
class SavedExperiment:
    """An experiment, or the result that is committed with a commit.

    Attributes:
        commit: Commit with its parameters, ``dvc.lock`` and metrics.
        base: Commit that it is based on.
    """

    root: Path
    name: str
    commit: str
    base: str

    @cached_property
    def lock(self) -> Lock:
        """Its ``dvc.lock``, without stages that did not run for this model."""
        return lock_at(self.root, self.commit).consistent()

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """Its ``params.yaml``."""
        return params_at(self.root, self.commit)

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics of its training; empty if that did not run."""
        return metrics_at(self.root, self.commit, TRAIN_STAGE)

    @cached_property
    def differs(self) -> Mapping[str, Any]:
        """Parameters with another value than in the base commit, by dotted key."""
        base = flat_values(params_at(self.root, self.base))
        differs = {}
        for key, value in flat_values(self.params).items():
            if base.get(key) != value:
                differs[key] = value
        return differs


def params_at(root: Path, commit: str) -> Mapping[str, Any]:
    """Return the parameters of a commit."""
    return load_yaml(git(root, "show", f"{commit}:{PARAMS}")) or {}


def saved_experiments(root: Path, base: str | None = None) -> list[SavedExperiment]:
    """List the experiments, the oldest first; with ``base``, only the experiments on that commit."""
    prefix = f"{EXPERIMENT_REFS}{base[:2]}/{base[2:]}/" if base else EXPERIMENT_REFS
    printed = git(root, "for-each-ref", "--sort=committerdate", "--format=%(refname) %(objectname)", prefix)
    experiments = []
    for line in printed.splitlines():
        ref, commit = line.split()
        parts = ref.removeprefix(EXPERIMENT_REFS).split("/")
        # DVC keeps other refs there, too
        if len(parts) == 3 and len(parts[0] + parts[1]) == len(commit):
            experiments.append(SavedExperiment(root, parts[2], commit, parts[0] + parts[1]))
    return experiments


def committed_result(root: Path, commit: str) -> SavedExperiment | None:
    """Return the result that is committed with the parameters of a commit.

    ``None`` if there is no training, or it had other parameters.
    """
    result = SavedExperiment(root, commit[:7], commit, commit)
    if TRAIN_STAGE not in result.lock.stages or other_params(result.params, result.lock):
        return None
    return result


def resolve_revision(root: Path, revision: str) -> str | None:
    """Return the commit that a revision of git, or the name of an experiment, stands for.

    Of several experiments of a name, it is the one on HEAD, else the latest. ``None`` if there is none.
    """
    commit = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit:
        return commit
    head = git(root, "rev-parse", "HEAD")
    named = [experiment for experiment in saved_experiments(root) if experiment.name == revision]
    named.sort(key=lambda experiment: experiment.base == head)
    return named[-1].commit if named else None
