"""What a run leaves: a commit with ``dvc.lock``, metrics and parameters, on a branch ``runs/<date>-<run name>``."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from flows.runs.checkout import Checkout
from flows.runs.repository import Repository, dvc_config
from tuneline.metrics import METRIC_TABLE

TRAILER = "Prefect-Run"
SHOWN = tuple(metric.name for metric in METRIC_TABLE.values() if metric.resampled)


class NoRemoteError(Exception):
    """There is nowhere to push to."""


@dataclass(frozen=True)
class Result:
    """Where a run's result is.

    Attributes:
        commit: The run's commit; the commit it ran when nothing came out that was not in it.
        branch: Its branch; ``None`` without a commit of its own.
    """

    commit: str
    branch: str | None

    @property
    def refs(self) -> list[str]:
        """What there is to push. Another attempt of the same run may have pushed the branch before."""
        return [f"+{self.branch}"] if self.branch else []


def require_remote(repository: Repository) -> None:
    """Finds out before hours of training that there is nowhere to push to.

    Raises:
        NoRemoteError: DVC has no default remote.
    """
    if not dvc_config(repository.root).get("core", {}).get("remote"):
        raise NoRemoteError("push: DVC has no default remote. Set one (`dvc remote add --default NAME URL`), or run with push=false.")


def commit_run(repository: Repository, checkout: Checkout, run: Mapping[str, str], message: str) -> Result:
    """Commits what a run changed, and gives the commit its branch.

    Called again (for another attempt, or because the decision became another), it replaces the run's commit.

    Args:
        repository: Where the branch goes.
        checkout: Where the run worked.
        run: ``name`` and ``id`` of the Prefect run.
        message: Body of the commit message.
    """
    if not has_changes(repository, checkout):
        return Result(checkout.work.commit, None)
    text = f"Run {run['name']}: {headline(checkout)}\n\n{_origin(checkout)}\n\n{message}\n\n{TRAILER}: {run['id']}"
    repository.git("add", "--all", cwd=checkout.path)
    if repository.git("rev-parse", "HEAD", cwd=checkout.path) == checkout.work.commit:
        _commit(repository, checkout, text)
    elif (
        repository.git("status", "--porcelain", cwd=checkout.path) or repository.git("log", "-1", "--format=%B", cwd=checkout.path) != text
    ):
        _commit(repository, checkout, text, "--amend")
    commit = repository.git("rev-parse", "HEAD", cwd=checkout.path)
    branch = _free_branch(repository, f"runs/{date.today().isoformat()}-{run['name']}", run["id"])
    repository.git("branch", "--force", branch, commit)
    return Result(commit, branch)


def has_changes(repository: Repository, checkout: Checkout) -> bool:
    """Whether something came out that is not in the commit that was run."""
    head = repository.git("rev-parse", "HEAD", cwd=checkout.path)
    return head != checkout.work.commit or bool(repository.git("status", "--porcelain", cwd=checkout.path))


def _origin(checkout: Checkout) -> str:
    work = checkout.work
    with_parameters = f", with {' '.join(work.overrides)}" if work.overrides else ""
    return f"The line as of {work.commit[:12]} ({work.ref}){with_parameters}."


def _commit(repository: Repository, checkout: Checkout, text: str, *more: str) -> None:
    repository.git("-c", "commit.gpgsign=false", "commit", "--quiet", "--file=-", *more, cwd=checkout.path, text=text)


def _free_branch(repository: Repository, branch: str, run_id: str) -> str:
    """The branch's name, longer where another run has it."""
    taken = repository.git("branch", "--list", "--format=%(contents:trailers:key=" + TRAILER + ",valueonly)", branch)
    return f"{branch}-{run_id[:8]}" if taken and run_id not in taken else branch


def headline(checkout: Checkout) -> str:
    """The reported metrics in one line."""
    metrics = read_metrics(checkout, "evaluate")
    return ", ".join(f"{name} {metrics[name]:.4g}" for name in SHOWN if name in metrics) or "no metrics"


def read_metrics(checkout: Checkout, stage: str) -> dict[str, float]:
    """``metrics/STAGE.json``; empty where the line has none."""
    path = checkout.path / "metrics" / f"{stage}.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}
