"""Branches ``runs/*``: the results of runs that nobody needs any more."""

from dataclasses import dataclass

from flows.cleaning.rows import Cleaning, Row
from flows.promotion.judgements import Judgements
from flows.promotion.unpushed import committed, recorded
from flows.runs.repository import Repository
from flows.runs.results import TRAILER

_RUN = f"%(contents:trailers:key={TRAILER},valueonly,separator=%2C)"
_LINE = "%1f".join(["%(objectname)", "%(committerdate:unix)", "%(worktreepath)", _RUN, "%(refname)"])
LOCK_WAIT = 900.0
"""Seconds to wait for a promotion."""


@dataclass(frozen=True)
class RunBranch:
    """A branch whose last commit is the result of a run.

    Attributes:
        name: Its name, from ``runs/`` on.
        commit: Its commit.
        date: Unix time of the commit.
    """

    name: str
    commit: str
    date: float


def clean_branches(cleaning: Cleaning) -> Row:
    """Remove the branches of old results: with ``push``, from ``origin`` first, so that a failure leaves them for the next time.

    Raises:
        GitError: ``origin`` cannot be reached, or refused; no branch of this clone was removed.
    """
    repository, what = cleaning.repository, "branches runs/*"
    if cleaning.retention.branch_days is None:
        return Row(what)
    with cleaning.registry.locked(LOCK_WAIT):
        needed = _needed(cleaning)
        here = _old(cleaning, "refs/heads/", needed)
        there: list[RunBranch] = []
        if cleaning.push and repository.has_remote():
            repository.transfer("fetch", "--prune", "--no-tags", "origin", "+refs/heads/runs/*:refs/remotes/origin/runs/*")
            there = _old(cleaning, "refs/remotes/origin/", needed)
        if there and not cleaning.dry_run:
            leases = (f"--force-with-lease=refs/heads/{one.name}:{one.commit}" for one in there)
            repository.transfer("push", "--quiet", *leases, "origin", *(f":refs/heads/{one.name}" for one in there))
        if here and not cleaning.dry_run:
            # In one transaction, and only if they still are at these commits.
            repository.git("update-ref", "--stdin", text="".join(f"delete refs/heads/{one.name} {one.commit}\n" for one in here))
    return Row(what, [one.name for one in here], note=f"{len(there)} in origin" if there else "")


def _needed(cleaning: Cleaning) -> set[str]:
    """Return the commits whose branches stay: those in a stage, results that a run came to again not long ago, and those not pushed yet."""
    tags = cleaning.registry.tags()
    in_stages = {version.commit for stage in tags.stages if (version := tags.in_stage(stage))}
    unpushed = {result.commit for one in recorded(cleaning.repository) if (result := committed(cleaning.repository, one))}
    return in_stages | unpushed | Judgements(cleaning.repository).commits_since(cleaning.before(cleaning.retention.branch_days))


def _old(cleaning: Cleaning, prefix: str, needed: set[str]) -> list[RunBranch]:
    before = cleaning.before(cleaning.retention.branch_days)
    branches = run_branches(cleaning.repository, prefix)
    return [one for one in branches if one.date < before and one.commit not in needed]


def run_branches(repository: Repository, prefix: str = "refs/heads/") -> list[RunBranch]:
    """List the branches that runs made, nobody has committed to, and nobody has checked out."""
    found = []
    for line in repository.git("for-each-ref", f"--format={_LINE}", f"{prefix}runs/").splitlines():
        commit, date, worktree, run, ref = line.split("\x1f")
        if run and not worktree:
            found.append(RunBranch(ref.removeprefix(prefix), commit, float(date)))
    return found
