"""The result of a run: a commit with ``dvc.lock``, metrics and parameters, on a branch ``runs/<date>-<run name>``."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from flows.runs.checkout import Checkout
from flows.runs.repository import GitError, Repository, dvc_config
from tuneline.metrics import METRIC_TABLE
from tuneline.paths import METRICS
from tuneline.records.metrics import Metrics

TRAILER = "Prefect-Run"
HEADLINE = tuple(metric.name for metric in METRIC_TABLE.values() if metric.resampled)


class NoRemoteError(Exception):
    """No DVC remote is configured to push to."""


@dataclass(frozen=True)
class Run:
    """A Prefect run, the same for each of its attempts.

    Attributes:
        id: Its id.
        name: Its name, safe for branches and files.
    """

    id: str
    name: str


@dataclass(frozen=True)
class Result:
    """The commit of a run's result.

    Attributes:
        commit: The run's commit; the commit that was run if it already has these results.
        branch: Branch of the run's commit; ``None`` if the run made no commit.
    """

    commit: str
    branch: str | None

    @property
    def refs(self) -> list[str]:
        """Refs to push. Forced, because an earlier attempt of the same run may have pushed the branch."""
        return [f"+refs/heads/{self.branch}"] if self.branch else []


def require_remote(repository: Repository) -> None:
    """Check that DVC has a remote to push to, before hours of training.

    Raises:
        NoRemoteError: DVC has no default remote.
    """
    if not dvc_config(repository.root).get("core", {}).get("remote"):
        raise NoRemoteError("push: DVC has no default remote. Set one (`dvc remote add --default NAME URL`), or run with push=false.")


def commit_run(repository: Repository, checkout: Checkout, run: Run, message: str) -> Result:
    """Commit what a run changed, and point the run's branch at the commit.

    A second call (by another attempt, or with another promotion decision) replaces the run's commit.

    Args:
        repository: Repository that gets the branch.
        checkout: Checkout of the run.
        run: The Prefect run.
        message: Body of the commit message.
    """
    if not has_changes(repository, checkout):
        return Result(checkout.spec.commit, None)
    text = f"Run {run.name}: {metrics_summary(checkout)}\n\n{_origin(checkout)}\n\n{message}\n\n{TRAILER}: {run.id}"
    repository.git("add", "--all", cwd=checkout.path)
    if repository.git("rev-parse", "HEAD", cwd=checkout.path) == checkout.spec.commit:
        _commit(repository, checkout, text)
    elif (
        repository.git("status", "--porcelain", cwd=checkout.path) or repository.git("log", "-1", "--format=%B", cwd=checkout.path) != text
    ):
        _commit(repository, checkout, text, "--amend")
    commit = repository.git("rev-parse", "HEAD", cwd=checkout.path)
    earlier = earlier_result(repository, run.id)
    branch = (earlier and earlier.branch) or _free_branch(repository, f"runs/{date.today().isoformat()}-{run.name}", run.id)
    repository.git("branch", "--force", branch, commit)
    return Result(commit, branch)


def earlier_result(repository: Repository, run_id: str) -> Result | None:
    """Return the result that an earlier attempt of a run committed; ``None`` if it came to no commit."""
    known = f"--format=%(objectname) %(refname:short) %(contents:trailers:key={TRAILER},valueonly)"
    for line in repository.git("for-each-ref", known, "refs/heads/runs").splitlines():
        commit, branch, *runs = line.split() or ("", "")
        if runs == [run_id]:
            return Result(commit, branch)
    return None


def remove_result(repository: Repository, run: Run) -> None:
    """Remove the branch of a result that turned out to be nothing new, unless a person has it checked out."""
    if (result := earlier_result(repository, run.id)) and result.branch:
        with contextlib.suppress(GitError):
            repository.git("branch", "--delete", "--force", result.branch)


def result_tree(repository: Repository, checkout: Checkout) -> str:
    """Return the git tree of what a run's commit contains: the same for two runs with the same result."""
    repository.git("add", "--all", cwd=checkout.path)
    return repository.git("write-tree", cwd=checkout.path)


def has_changes(repository: Repository, checkout: Checkout) -> bool:
    """Return True if the run has results that are not in the commit that was run."""
    head = repository.git("rev-parse", "HEAD", cwd=checkout.path)
    return head != checkout.spec.commit or bool(repository.git("status", "--porcelain", cwd=checkout.path))


def _origin(checkout: Checkout) -> str:
    spec = checkout.spec
    with_parameters = f", with {' '.join(spec.overrides)}" if spec.overrides else ""
    return f"The pipeline of {spec.commit[:12]} ({spec.ref}){with_parameters}."


def _commit(repository: Repository, checkout: Checkout, text: str, *more: str) -> None:
    repository.git("-c", "commit.gpgsign=false", "commit", "--quiet", "--file=-", *more, cwd=checkout.path, text=text)


def _free_branch(repository: Repository, branch: str, run_id: str) -> str:
    """Return the branch name, with the run id appended if another run has that branch."""
    return f"{branch}-{run_id[:8]}" if repository.git("branch", "--list", branch) else branch


def metrics_summary(checkout: Checkout) -> str:
    """Return the headline metrics in one line."""
    metrics = read_metrics(checkout.path, "evaluate")
    return ", ".join(f"{name} {metrics[name]:.4g}" for name in HEADLINE if name in metrics) or "no metrics"


def read_metrics(root: Path, stage: str) -> Mapping[str, float]:
    """Read ``metrics/STAGE.json``; empty if the pipeline has none."""
    metrics = Metrics.read_if_exists(root / METRICS / f"{stage}.json")
    return metrics.values if metrics else {}
