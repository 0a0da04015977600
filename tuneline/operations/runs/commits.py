"""What runs leave in git: commits of results, and branches that move forward to such a commit.

A result is on a branch ``runs/<date>-<run name>``. Its commit has ``dvc.lock``, metrics and parameters. A
branch moves forward in ``origin``, and in this clone with the working tree of whoever has the branch checked
out.
"""

from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tuneline.core.paths import METRICS
from tuneline.core.repository.git import GitError
from tuneline.core.repository.programs import run_dvc
from tuneline.core.stage.records import Metrics
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.operations.runs.checkout import Checkout
from tuneline.operations.runs.repository import Repository

RUN_TRAILER = "Prefect-Run"
CONDITIONS_TRAILER = "Gate-Conditions"


@dataclass(frozen=True)
class Run:
    """A Prefect run, the same for each of its attempts: its id, and its name, safe for branches and files."""

    id: str
    name: str


@dataclass(frozen=True)
class RunResult:
    """The commit of a run's result, and its branch.

    If the commit that was run has these results already, the result is that commit, without a branch.
    """

    commit: str
    branch: str | None

    @property
    def refs(self) -> list[str]:
        """Refs to push. Forced, because an earlier attempt of the same run may have pushed the branch."""
        if self.branch is None:
            return []
        return [f"+refs/heads/{self.branch}"]


def commit_run(
    repository: Repository, checkout: Checkout, run: Run, message: str, conditions: str = ""
) -> RunResult:
    """Commit what a run changed, and point the run's branch at the commit.

    A second call (by another attempt, or with another promotion decision) replaces the run's commit.
    ``conditions`` is what the decision in the message depends on besides the result.
    """
    # Nothing has changed: the commit that was run has the result.
    path = checkout.path
    head = repository.git("rev-parse", "HEAD", cwd=path)
    changed = repository.git("status", "--porcelain", cwd=path)
    if head == checkout.commit and not changed:
        return RunResult(checkout.commit, None)

    # The commit: a new one, or in place of the commit of an earlier attempt.
    text = f"Run {run.name}: {metrics_summary(checkout)}\n\n"
    text += f"The pipeline of {checkout.commit[:12]} ({checkout.ref}).\n\n{message}\n"
    if conditions:
        text += f"\n{CONDITIONS_TRAILER}: {conditions}"
    text += f"\n{RUN_TRAILER}: {run.id}"
    if changed or repository.git("log", "-1", "--format=%B", cwd=path) != text:
        repository.git("add", "--all", cwd=path)
        command = ["-c", "commit.gpgsign=false", "commit", "--quiet", "--file=-"]
        if head != checkout.commit:
            command.append("--amend")
        repository.git(*command, cwd=path, text=text)

    # Its branch: the branch of an earlier attempt, which may have begun on another day.
    earlier = earlier_result(repository, run.id)
    branch = f"runs/{date.today().isoformat()}-{run.name}"
    if earlier and earlier.branch:
        branch = earlier.branch
    elif repository.git("branch", "--list", branch):  # of another run
        branch = f"{branch}-{run.id[:8]}"
    commit = repository.git("rev-parse", "HEAD", cwd=path)
    repository.git("branch", "--force", branch, commit)
    return RunResult(commit, branch)


def earlier_result(repository: Repository, run_id: str) -> RunResult | None:
    """Return the result that an earlier attempt of a run committed; ``None`` if it came to no commit."""
    fields = f"--format=%(objectname) %(refname:short) %(contents:trailers:key={RUN_TRAILER},valueonly)"
    for line in repository.git("for-each-ref", fields, "refs/heads/runs").splitlines():
        commit, branch, *runs = line.split() or ("", "")
        if runs == [run_id]:
            return RunResult(commit, branch)
    return None


def metrics_summary(checkout: Checkout) -> str:
    """Return the headline metrics in one line."""
    metrics = Metrics.read_if_exists(checkout.path / METRICS / "evaluate.json")
    if metrics is None:
        return "no metrics"
    parts = []
    for metric in METRIC_TABLE.values():
        if metric.resampled and metric.name in metrics.values:
            parts.append(f"{metric.name} {metrics.values[metric.name]:.4g}")
    return ", ".join(parts) or "no metrics"


class NotFastForwardError(Exception):
    """The branch has commits that are not before the commit it is to be moved to."""


def fast_forward(repository: Repository, branch: str, commit: str, *, push: bool) -> None:
    """Move a branch forward to a commit.

    With ``push`` and an ``origin``, origin's branch is moved first, and decides: the clone's branch follows
    where it can, and is left alone, with a message, where it has commits of its own or a person's files are
    in the way.

    A working tree that has the branch checked out follows by ``git merge --ff-only``, and ``dvc checkout`` of
    the ``.dvc`` files that changed: neither overwrites what is saved nowhere else.

    Raises:
        NotFastForwardError: The branch has other commits; nothing was changed.
        UnreachableError: ``origin`` cannot be reached; nothing was changed.
        GitError: ``origin`` refused, or without ``push``, a person's files are in the way; nothing was
            changed.
    """
    if not (push and repository.has_remote()):
        _move_here(repository, branch, commit)
        return
    try:
        repository.transfer("push", "origin", f"{commit}:refs/heads/{branch}")
    except GitError as error:
        if "[rejected]" not in str(error):
            raise
        raise NotFastForwardError(f"{branch} of origin has other commits.") from None
    try:
        _move_here(repository, branch, commit)
    except (GitError, NotFastForwardError) as error:
        repository.log(f"{branch} of origin is at {commit[:12]}, that of this clone is not: {error}")


def contains(repository: Repository, ref: str, commit: str) -> bool:
    """Return True if a commit is reachable from a ref."""
    try:
        repository.git("merge-base", "--is-ancestor", commit, ref)
    except GitError:
        return False
    return True


def _move_here(repository: Repository, branch: str, commit: str) -> None:
    ref = f"refs/heads/{branch}"
    fields = repository.git("for-each-ref", "--format=%(objectname)%00%(worktreepath)", ref)
    before, _, folder = fields.partition("\0")
    if before and contains(repository, before, commit):
        return
    if before and not contains(repository, commit, before):
        raise NotFastForwardError(f"{branch} has other commits than those before {commit[:12]}.")
    if not folder:
        repository.git("update-ref", "-m", "fast-forward", ref, commit, before or "0" * 40)
        return

    # A working tree that has the branch checked out moves with it, and its data follow.
    repository.git("merge", "--ff-only", "--no-autostash", "--quiet", commit, cwd=Path(folder))
    names = repository.git("diff", "--name-only", "--diff-filter=d", before, commit, "--", "*.dvc")
    if names:
        reason = run_dvc(Path(folder), "checkout", "--quiet", "--allow-missing", *names.splitlines())
        if reason:
            repository.log(f"{folder} has the new {names}, but not their data: {reason}")
