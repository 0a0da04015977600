"""Problems between a branch of this clone and the same branch of ``origin``.

Either its history was rewritten, or the two branches have parted.

git knows what a branch of ``origin`` was at each fetch for 90 days, and for 30 once that is in no branch any
more (``gc.reflogExpire``).
"""

from dataclasses import dataclass
from pathlib import Path

from tuneline.repository.git import git
from tuneline.runtime.wording import first_of

ROWS_TRAILER = "Ingested-Rows"
"""Trailer of a commit that flow ``ingest`` made: how many rows it brought."""
NAMED = 3
"""Commits that a message names."""


@dataclass(frozen=True)
class BranchProblem:
    """A problem of a branch.

    Attributes:
        message: The problem in words.
        hint: What to do.
    """

    message: str
    hint: str


def rewritten(root: Path, branch: str) -> BranchProblem | None:
    """Return the commits that ``origin`` had in a branch and has in none any more; ``None`` if it has all.

    Nothing is fetched.

    Branches ``runs/*`` do not count: flow ``clean`` removes them.
    """
    # What the branch was at each fetch, and the commits of these that are in no branch, the newest first.
    ref = f"refs/remotes/origin/{branch}"
    tips = dict.fromkeys(git(root, "log", "--walk-reflogs", "--format=%H", ref).split())
    if not tips:
        return None
    form = f"--format=%h %(trailers:key={ROWS_TRAILER},valueonly,separator=)"
    lines = git(root, "log", form, *tips, "--not", "--exclude=origin/runs/*", "--remotes=origin").splitlines()
    if not lines:
        return None

    lost = []
    ingests = []
    ingested_rows = 0
    for line in lines:
        values = line.split()  # hash, and the trailer if there is one
        lost.append(values[0])
        if len(values) > 1:
            ingests.append(values[0])
            ingested_rows += int(values[1])

    # The message names the commits of the flow, which are the ones with data that nobody else has.
    message = f"{branch} of origin was rewritten: {len(lost):,} commits are in no branch of it any more"
    named = lost
    if ingests:
        message += f", with {ingested_rows:,} rows of flow ingest"
        named = ingests
    hint = (
        f"`git branch rescued {lost[0]}` keeps the last of them; then merge it, or cherry-pick what is"
        f" missing. If it was meant: `git reflog expire --expire=all {ref}`."
    )
    return BranchProblem(f"{message} ({first_of(named, NAMED)})", hint)


def parted(root: Path, branch: str) -> BranchProblem | None:
    """Return how a branch of this clone and the same branch of ``origin`` have parted.

    ``None`` if one contains the other, or there is only one.
    """
    here = f"refs/heads/{branch}"
    there = f"refs/remotes/origin/{branch}"
    ahead = git(root, "log", "--format=%h", here, "--not", there).split()
    behind = git(root, "log", "--format=%h", there, "--not", here).split()
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
    return BranchProblem(message, hint)
