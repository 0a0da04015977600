"""Takes the result of a promoted run over into a branch, as ``promotion.take_over`` says: by a fast-forward, or by a pull request's branch.

The registry decides what is in production, whatever happens here. What is taken over is the run's commit: ``dvc.lock``, metrics,
``params.yaml`` as composed, and the profile of the reference data.
"""

from flows.promotion.pull_request import TRAILER, text
from flows.promotion.registry import Registry
from flows.runs.branches import NotFastForwardError, contains, fast_forward, fetch_branch
from flows.runs.repository import GitError, Repository, UnreachableError
from flows.settings.promotion import PromotionPolicy
from tuneline.registry import Version

BRANCH = "tuneline/promotion"
"""The branch of the pull request: one, which each promotion updates."""


class ForeignCommitsError(Exception):
    """The pull request's branch has commits that no promotion made."""


def take_over(registry: Registry, policy: PromotionPolicy, version: Version, *, push: bool) -> str | None:
    """Bring the result of a promoted version to ``policy.branch``, unless another version is in the stage by now. Under the lock.

    Args:
        registry: Registry of the artifact.
        policy: Says how, and into which branch.
        version: The promoted version.
        push: Change the branches of ``origin``, else those of this clone.

    Returns:
        What happened, for the log; ``None`` if nothing is to be done.

    Raises:
        UnreachableError: ``origin`` cannot be reached: to be repeated.
    """
    repository, push = registry.repository, push and registry.repository.has_remote()
    if policy.take_over == "none" or registry.in_stage(policy.stage) != version:
        return None
    name, instead = f"{registry.artifact} {version.name}", ""
    try:
        target = fetch_branch(repository, policy.branch) if push else repository.resolve(f"refs/heads/{policy.branch}")
        if contains(repository, target, version.commit):
            return f"{policy.branch} has the commit of {name} already."
        if policy.take_over == "fast_forward":
            if not (reason := _fast_forward(repository, policy.branch, target, version.commit, push=push)):
                return f"{policy.branch} is at the commit of {name}."
            instead = f"{reason} So the result goes to {BRANCH}. "
        return instead + _update_pull_request(registry, policy, version, target, push=push)
    except UnreachableError:
        raise
    except (GitError, ForeignCommitsError) as error:
        return f"{instead}The result of {name} is not taken over into {policy.branch}: git merge {version.commit[:12]}. {error}"


def _fast_forward(repository: Repository, branch: str, target: str, commit: str, *, push: bool) -> str | None:
    """Move the branch, if that adds nothing but the run's commit; return the reason if it cannot be moved.

    Code and settings of a branch that was only tried must not reach the target because its model is better.
    """
    if not contains(repository, commit, target) or repository.git("rev-list", "--count", f"{target}..{commit}") != "1":
        return f"{branch} is not at the commit that the run began with."
    try:
        fast_forward(repository, branch, commit, push=push)
    except UnreachableError:
        raise
    except (NotFastForwardError, GitError) as error:
        return str(error)
    return None


def _update_pull_request(registry: Registry, policy: PromotionPolicy, version: Version, target: str, *, push: bool) -> str:
    repository = registry.repository
    before = registry.tags().succession(policy.stage)[:-1]
    tree, conflicts = _merged(repository, target, version.commit)
    message = text(repository, registry.artifact, version, before[-1] if before else None, policy, conflicts=conflicts)
    commit = repository.git("commit-tree", tree, "-p", target if not conflicts else f"{version.commit}^", "-F", "-", text=message)
    if push:
        lease = f"--force-with-lease=refs/heads/{BRANCH}:{_present(repository, target)}"
        options = [argument for option in policy.push_options for argument in ("-o", option)]
        repository.transfer("push", lease, *options, "origin", f"{commit}:refs/heads/{BRANCH}")
    else:
        repository.git("branch", "--force", BRANCH, commit)
    conflict = f" It conflicts with {policy.branch}, which has changed the same files." if conflicts else ""
    return f"{BRANCH} has the result of {registry.artifact} {version.name}, for {policy.branch}.{conflict}"


def _present(repository: Repository, target: str) -> str:
    """Return the commit that the pull request's branch has in ``origin``; empty if there is no such branch.

    Raises:
        ForeignCommitsError: The commit was not made by a promotion, and is not in the target branch: a person works on the branch.
    """
    if not repository.transfer("ls-remote", "origin", f"refs/heads/{BRANCH}"):
        return ""
    commit = fetch_branch(repository, BRANCH)
    trailer = repository.git("log", "-1", f"--format=%(trailers:key={TRAILER})", commit)
    if not trailer and not contains(repository, target, commit):
        author = repository.git("log", "-1", "--format=%an", commit)
        raise ForeignCommitsError(f"{BRANCH} in origin has a commit by {author}, which is not overwritten. Merge or delete that branch.")
    return commit


def _merged(repository: Repository, target: str, commit: str) -> tuple[str, bool]:
    """Return the tree of the run's changes on top of the target branch, and False; if they conflict, the tree of the run, and True."""
    try:
        return repository.git("merge-tree", "--write-tree", target, commit).splitlines()[0], False
    except GitError:
        return repository.git("rev-parse", f"{commit}^{{tree}}"), True
