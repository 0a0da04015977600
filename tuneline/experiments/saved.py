"""Finished experiments: trainings with other parameters, each a commit that DVC knows as an experiment.

The commit is on top of the commit that the experiment is based on, under ``refs/exps/``: ``dvc exp show``,
``apply`` and ``push`` know it. ``dvc exp save`` cannot make it: it wants the outs of all stages, and records
outdated ones as new. ``tuneline/experiments/in_progress.py`` makes it.

The commit has the parameters, ``dvc.lock`` and the metrics of the stages that ran. What stages after the
training wrote is of another model: an experiment is scored on validation, and test is computed for the chosen
one. So the commit lacks those metrics. ``dvc.lock`` keeps the entries of these stages, because ``dvc exp
apply`` fails without them; they do not fit the model, so DVC runs the stages again.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tuneline.paths import PARAMS
from tuneline.repository.dvc import Lock, load_yaml
from tuneline.repository.git import git, lock_at, metrics_at, other_params

TRAIN_STAGE = "train"
BASE_EXPERIMENT = "base"
"""Name of the experiment with the parameters of its commit."""


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
        return experiment_ref(self.base, self.name)

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
    refs = "refs/exps/"
    if base:
        refs = experiment_ref(base, "")
    fields = "%(refname)%00%(objectname)%00%(committerdate:short)%00%(contents:body)%01"
    printed = git(root, "for-each-ref", "--sort=committerdate", f"--format={fields}", refs)

    experiments = []
    for entry in printed.split("\x01"):
        values = entry.strip().split("\x00")
        match = re.fullmatch(r"refs/exps/([0-9a-f]{2})/([0-9a-f]{38})/([^/]+)", values[0])
        if not match:  # what DVC itself keeps there, or the end of the output
            continue
        start, rest, name = match.groups()
        _, commit, date, body = values
        experiments.append(SavedExperiment(root, name, commit, start + rest, date, _record(body)))
    return experiments


def _record(body: str) -> Mapping[str, Any]:
    """Return the values in the message of a commit; empty for an experiment of ``dvc exp run``."""
    try:
        values = json.loads(body)
    except ValueError:
        return {}
    if not isinstance(values, dict):
        return {}
    return values


def committed_result(root: Path, commit: str) -> SavedExperiment | None:
    """Return the result that is committed with the parameters of a commit.

    ``None`` if there is no training, or it had other parameters.
    """
    name = commit[:7]
    if commit == git(root, "rev-parse", "HEAD"):
        name = "HEAD"
    date = git(root, "show", "--no-patch", "--format=%cs", commit)
    result = SavedExperiment(root, name, commit, base=commit, date=date, record={})
    if TRAIN_STAGE not in result.lock.stages or other_params(result.params, result.lock):
        return None
    return result


def find_experiment(root: Path, name: str) -> SavedExperiment | None:
    """Return the experiment of that name: on top of HEAD if there is one, else the latest of all bases."""
    named = [experiment for experiment in saved_experiments(root) if experiment.name == name]
    head = git(root, "rev-parse", "HEAD")
    for experiment in named:
        if experiment.base == head:
            return experiment
    if not named:
        return None
    return named[-1]


def resolve_revision(root: Path, revision: str) -> str | None:
    """Return the commit that a revision of git, or the name of an experiment, stands for.

    ``None`` if there is none.
    """
    commit = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if commit:
        return commit
    experiment = find_experiment(root, revision)
    if experiment is None:
        return None
    return experiment.commit


def experiment_ref(base: str, name: str) -> str:
    """Return the ref that DVC gives an experiment on a commit."""
    return f"refs/exps/{base[:2]}/{base[2:]}/{name}"
