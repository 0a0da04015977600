"""What goes wrong between a branch of this clone and that of ``origin``: a history that was rewritten, or two that have parted.

git knows what a branch of ``origin`` was at each fetch for 90 days, and for 30 once that is in no branch any
more (``gc.reflogExpire``).
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tuneline.project.repo import git

ROWS_TRAILER = "Ingested-Rows"
"""Trailer of a commit that flow ``ingest`` made: how many rows it brought."""
NAMED = 3
"""Commits that a message names."""


@dataclass(frozen=True)
class BranchProblem:
    """A problem of a branch, in words, with what to do, and since when: the Unix time of a commit."""

    message: str
    hint: str
    since: float

    @property
    def age_hours(self) -> float:
        """Hours since then."""
        return max(0.0, (datetime.now(UTC).timestamp() - self.since) / 3600)


def rewritten(root: Path, branch: str) -> BranchProblem | None:
    """Return what ``origin`` had in a branch and has in none any more; ``None`` if that is nothing.

    Nothing is fetched.

    Branches ``runs/*`` do not count: flow ``clean`` removes them.
    """
    ref = f"refs/remotes/origin/{branch}"
    tips = dict.fromkeys(git(root, "log", "--walk-reflogs", "--format=%H", ref).split())
    if not tips:
        return None
    form = f"--format=%h %ct %(trailers:key={ROWS_TRAILER},valueonly,separator=)"
    lines = git(root, "log", form, *tips, "--not", "--exclude=origin/runs/*", "--remotes=origin").splitlines()
    if not lines:
        return None
    lost = [line.split() for line in lines]
    ingests = [(commit, int(rows[0])) for commit, _, *rows in lost if rows]
    commits = [commit for commit, _ in ingests] or [commit for commit, *_ in lost]
    more = ", ..." if len(commits) > NAMED else ""
    rows = f", with {sum(count for _, count in ingests):,} rows of flow ingest" if ingests else ""
    named = ", ".join(commits[:NAMED])
    message = (
        f"{branch} of origin was rewritten: {len(lost):,} commits are in no branch of it any more{rows}"
        f" ({named}{more})"
    )
    hint = (
        f"`git branch rescued {lost[0][0]}` keeps the last of them; then merge it, or cherry-pick what is"
        f" missing. If it was meant: `git reflog expire --expire=all {ref}`."
    )
    return BranchProblem(message, hint, float(lost[0][1]))


def parted(root: Path, branch: str) -> BranchProblem | None:
    """Return how a branch of this clone and that of ``origin`` have parted; ``None`` if one contains the other, or there is only one."""
    here, there = f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"
    ahead = git(root, "log", "--format=%ct", here, "--not", there).split()
    behind = git(root, "log", "--format=%ct", there, "--not", here).split()
    if not (ahead and behind):
        return None
    message = (
        f"{branch} of this clone and of origin have parted: {len(ahead):,} commits are only here,"
        f" {len(behind):,} only in origin"
    )
    hint = (
        f"git log --oneline {branch}...origin/{branch}; then git rebase origin/{branch}, or git reset --keep"
        f" origin/{branch} to drop yours"
    )
    return BranchProblem(message, hint, float(ahead[-1]))
