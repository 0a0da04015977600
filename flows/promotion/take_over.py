"""Takes the result of a promoted run over into a branch, by a fast-forward.

``promotion.take_over`` says whether. The registry decides what is in production, whatever happens here. What
is taken over is the run's commit: ``dvc.lock``, metrics, ``params.yaml`` as composed, and the profile of the
reference data. A team that reviews its branch opens a pull request from the branch of the run.
"""

from flows.promotion.registry import Registry
from flows.runs.commits import NotFastForwardError, contains, fast_forward, fetch_branch
from flows.runs.repository import Repository, UnreachableError
from tuneline.repository.registry import Version
from tuneline.repository.worktrees import GitError
from tuneline.settings import PromotionPolicy


def take_over(registry: Registry, policy: PromotionPolicy, version: Version, *, push: bool) -> str | None:
    """Move ``policy.branch`` to the commit of a promoted version, unless another one is in the stage by now.

    Under the lock. With ``push``, the branch of ``origin`` moves, else the branch of this clone.

    Returns:
        What happened, for the log; ``None`` if nothing was to be done.

    Raises:
        UnreachableError: ``origin`` cannot be reached: to be repeated.
    """
    # A version that is no longer in the stage is not taken over: another one is, in its own run.
    repository = registry.repository
    push = push and repository.has_remote()
    if policy.take_over == "none" or registry.in_stage(policy.stage) != version:
        return None

    name = f"{registry.artifact} {version.name}"
    try:
        if push:
            target = fetch_branch(repository, policy.branch)
        else:
            target = repository.resolve(f"refs/heads/{policy.branch}")
        if contains(repository, target, version.commit):
            return f"{policy.branch} has the commit of {name} already."
        _check_next(repository, policy.branch, target, version.commit)
        fast_forward(repository, policy.branch, version.commit, push=push)
    except UnreachableError:
        raise
    except (GitError, NotFastForwardError) as error:
        return (
            f"The result of {name} is not taken over into {policy.branch}: {error} Open a pull request from"
            f" the branch of the run, or: git merge {version.commit[:12]}"
        )
    return f"{policy.branch} is at the commit of {name}."


def _check_next(repository: Repository, branch: str, target: str, commit: str) -> None:
    """Check that a branch at ``target`` gets nothing but the run's commit.

    Code and settings of a branch that was only tried must not reach the target because its model is better.
    """
    is_next = (
        contains(repository, commit, target)
        and repository.git("rev-list", "--count", f"{target}..{commit}") == "1"
    )
    if not is_next:
        raise NotFastForwardError(f"{branch} is not at the commit that the run began with.")
