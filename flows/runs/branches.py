"""Moves a branch forward to a commit: in ``origin``, and in this clone with the working tree of whoever has the branch checked out."""

from pathlib import Path

from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import GitError, Repository


class NotFastForwardError(Exception):
    """The branch has commits that are not before the commit it is to be moved to."""


def fast_forward(repository: Repository, branch: str, commit: str, *, push: bool) -> None:
    """Move a branch forward to a commit; nothing happens if the branch contains the commit.

    With ``push`` and an ``origin``, origin's branch is moved first, and decides: the clone's branch follows where it can, and is left
    alone, with a message, where it has commits of its own or a person's files are in the way.

    A working tree that has the branch checked out follows by ``git merge --ff-only``, and ``dvc checkout`` of the ``.dvc`` files that
    changed: neither overwrites what is saved nowhere else.

    Args:
        repository: The clone.
        branch: Name of the branch; made if it does not exist.
        commit: The commit.
        push: Move the branch of ``origin`` as well, if there is one.

    Raises:
        NotFastForwardError: The branch has other commits; nothing was changed.
        UnreachableError: ``origin`` cannot be reached; nothing was changed.
        GitError: ``origin`` refused, or without ``push``, a person's files are in the way; nothing was changed.
    """
    if not (push and repository.has_remote()):
        _move_here(repository, branch, commit)
        return
    _move_in_origin(repository, branch, commit)
    try:
        _move_here(repository, branch, commit)
    except (GitError, NotFastForwardError) as error:
        repository.log(f"{branch} of origin is moved, that of this clone is not: {error}")


def contains(repository: Repository, ref: str, commit: str) -> bool:
    """Return True if a commit is reachable from a ref."""
    try:
        repository.git("merge-base", "--is-ancestor", commit, ref)
    except GitError:
        return False
    return True


def fetch_branch(repository: Repository, branch: str) -> str:
    """Fetch a branch of ``origin`` and return its commit.

    Raises:
        UnreachableError: ``origin`` cannot be reached.
        GitError: ``origin`` has no such branch.
    """
    here = f"refs/remotes/origin/{branch}"
    repository.transfer("fetch", "--no-tags", "origin", f"+refs/heads/{branch}:{here}")
    return repository.git("rev-parse", here)


def _move_in_origin(repository: Repository, branch: str, commit: str) -> None:
    try:
        repository.transfer("push", "origin", f"{commit}:refs/heads/{branch}")
    except GitError as error:
        if "[rejected]" not in str(error):
            raise
        if not contains(repository, fetch_branch(repository, branch), commit):
            raise NotFastForwardError(f"{branch} of origin has other commits than those before {commit[:12]}.") from None


def _move_here(repository: Repository, branch: str, commit: str) -> None:
    ref = f"refs/heads/{branch}"
    before = repository.git("for-each-ref", "--format=%(objectname)", ref)
    if before and contains(repository, before, commit):
        return
    if before and not contains(repository, commit, before):
        raise NotFastForwardError(f"{branch} has other commits than those before {commit[:12]}.")
    if folder := _working_tree(repository, branch):
        repository.git("merge", "--ff-only", "--no-autostash", "--quiet", commit, cwd=folder)
        _restore_data(repository, folder, before, commit)
    else:
        repository.git("update-ref", "-m", "fast-forward", ref, commit, before or "0" * 40)


def _working_tree(repository: Repository, branch: str) -> Path | None:
    """Return the working tree that has a branch checked out."""
    folder = None
    for line in repository.git("worktree", "list", "--porcelain").splitlines():
        key, _, value = line.partition(" ")
        folder = Path(value) if key == "worktree" else folder
        if (key, value) == ("branch", f"refs/heads/{branch}"):
            return folder
    return None


def _restore_data(repository: Repository, folder: Path, before: str, commit: str) -> None:
    """Check out the data of ``.dvc`` files that changed. DVC refuses to remove data that its cache does not have."""
    changed = repository.git("diff", "--name-only", "--diff-filter=d", before, commit, "--", "*.dvc").splitlines()
    if not changed:
        return
    try:
        with Programs(folder, "fast-forward", preload=False) as programs:
            Pipeline(programs, lambda _line: None).dvc("checkout", "--quiet", "--allow-missing", *changed, what="Restoring data")
    except ProgramError as error:
        repository.log(f"{folder} has the new {', '.join(changed)}, but not their data: {error.reason}")
