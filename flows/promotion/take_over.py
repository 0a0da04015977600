"""Takes the result of a promoted run over into a branch, as ``promotion.take_over`` says: by a fast-forward, or by a pull request's branch.

The registry decides what is in production, whatever happens here. What is taken over is the run's commit:
``dvc.lock``, metrics, ``params.yaml`` as composed, and the profile of the reference data.
"""

import re
from collections.abc import Iterator, Mapping

from flows.promotion.registry import Registry
from flows.runs.commits import HEADLINE, NotFastForwardError, contains, fast_forward, fetch_branch
from flows.runs.repository import Repository, UnreachableError
from flows.settings import PromotionPolicy
from tuneline.core.paths import PARAMS
from tuneline.project.registry import Version
from tuneline.project.repo import metrics_at
from tuneline.project.worktrees import GitError

PROMOTION_TRAILER = "Tuneline-Promotion"
"""Trailer of the commit: tells the commits of promotions from those of people."""
_CRITERION = re.compile(r"^- ([+x]) (.+?): (.*) \(required: (.*)\)$", re.MULTILINE)


def text(
    repository: Repository,
    artifact: str,
    version: Version,
    before: str | None,
    policy: PromotionPolicy,
    *,
    conflicts: bool = False,
) -> str:
    """Return the commit message; its first line is the title."""
    message = repository.git("log", "-1", "--format=%B", version.commit)
    evaluated, validated = (
        _compared(repository, stage, before, version.commit) for stage in ("evaluate", "validate")
    )
    headline = ", ".join(
        f"{name} {evaluated[name][1]:.4g}"
        for name in HEADLINE
        if name in evaluated and evaluated[name][1] is not None
    )
    parts = [
        f"Promote {artifact} {version.name}: {headline or 'no metrics'}",
        (
            f"{artifact} {version.name} is in {policy.stage} (`{version.commit[:12]}`), whether this is"
            f" merged or not. This brings its `dvc.lock`, metrics and parameters to `{policy.branch}`."
        ),
        *_notes(repository, version.commit, message, policy, conflicts=conflicts),
        *_metrics_table("Metrics", evaluated),
        *_criteria(message),
        *_metrics_table(
            "Data checks",
            {name: pair for name, pair in validated.items() if pair[0] != pair[1] or name == "warnings"},
        ),
        f"{PROMOTION_TRAILER}: {artifact} {version.name} {version.commit}",
    ]
    return "\n\n".join(parts)


def _notes(
    repository: Repository, commit: str, message: str, policy: PromotionPolicy, *, conflicts: bool
) -> Iterator[str]:
    ran = next((line for line in message.splitlines() if line.startswith("The pipeline of ")), "")
    if ran:
        yield ran
    if PARAMS.name in repository.git("diff", "--name-only", f"{commit}^", commit).splitlines():
        yield f"`{PARAMS}` is that of the run: its parameters become the defaults of `{policy.branch}`."
    if conflicts:
        changed = f"`{policy.branch}` has changed the same files since."
        yield f"{changed} Do not merge `dvc.lock` by hand: run the pipeline of `{policy.branch}` again."


def _criteria(message: str) -> Iterator[str]:
    if rows := _CRITERION.findall(message):
        cells = (
            ("✅" if met == "+" else "❌", *(value.replace("|", "\\|") for value in row))
            for met, *row in rows
        )
        lines = (f"| {' | '.join(row)} |" for row in cells)
        yield "\n".join(["**Gate**", "", "| | criterion | value | required |", "|---|---|---|---|", *lines])


def _metrics_table(title: str, metrics: Mapping[str, tuple[float | None, float | None]]) -> Iterator[str]:
    def number(value: float | None, sign: str = "") -> str:
        return "" if value is None else f"{value:{sign}.4g}"

    def difference(before: float | None, after: float | None) -> str:
        return "" if before is None or after is None else number(after - before, "+")

    rows = [
        f"| {name} | {number(before)} | {number(after)} | {difference(before, after)} |"
        for name, (before, after) in metrics.items()
    ]
    if rows:
        yield "\n".join([f"**{title}**", "", "| | before | after | difference |", "|---|---|---|---|", *rows])


def _compared(
    repository: Repository, stage: str, before: str | None, after: str
) -> dict[str, tuple[float | None, float | None]]:
    """Return the metrics of a stage in two commits, by name."""
    old, new = (metrics_at(repository.root, commit, stage) if commit else {} for commit in (before, after))
    return {name: (old.get(name), new.get(name)) for name in {**new, **old}}


BRANCH = "tuneline/promotion"
"""The branch of the pull request: one, which each promotion updates."""


class ForeignCommitsError(Exception):
    """The pull request's branch has commits that no promotion made."""


def take_over(registry: Registry, policy: PromotionPolicy, version: Version, *, push: bool) -> str | None:
    """Bring the result of a promoted version to ``policy.branch``, unless another version is in the stage by now. Under the lock.

    With ``push``, the branches of ``origin`` change, else those of this clone. Return what happened, for the
    log, if anything.

    Raises:
        UnreachableError: ``origin`` cannot be reached: to be repeated.
    """
    repository, push = registry.repository, push and registry.repository.has_remote()
    if policy.take_over == "none" or registry.in_stage(policy.stage) != version:
        return None
    name, instead = f"{registry.artifact} {version.name}", ""
    try:
        target = (
            fetch_branch(repository, policy.branch)
            if push
            else repository.resolve(f"refs/heads/{policy.branch}")
        )
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
        return (
            f"{instead}The result of {name} is not taken over into {policy.branch}: git merge"
            f" {version.commit[:12]}. {error}"
        )


def _fast_forward(repository: Repository, branch: str, target: str, commit: str, *, push: bool) -> str | None:
    """Move the branch, if that adds nothing but the run's commit; return the reason if it cannot be moved.

    Code and settings of a branch that was only tried must not reach the target because its model is better.
    """
    if (
        not contains(repository, commit, target)
        or repository.git("rev-list", "--count", f"{target}..{commit}") != "1"
    ):
        return f"{branch} is not at the commit that the run began with."
    try:
        fast_forward(repository, branch, commit, push=push)
    except UnreachableError:
        raise
    except (NotFastForwardError, GitError) as error:
        return str(error)
    return None


def _update_pull_request(
    registry: Registry, policy: PromotionPolicy, version: Version, target: str, *, push: bool
) -> str:
    repository = registry.repository
    before = registry.tags().succession(policy.stage)[:-1]
    tree, conflicts = _merged(repository, target, version.commit)
    message = text(
        repository, registry.artifact, version, before[-1] if before else None, policy, conflicts=conflicts
    )
    commit = repository.git(
        "commit-tree", tree, "-p", target if not conflicts else f"{version.commit}^", "-F", "-", text=message
    )
    if push:
        lease = f"--force-with-lease=refs/heads/{BRANCH}:{_present(repository, target)}"
        options = [argument for option in policy.push_options for argument in ("-o", option)]
        repository.transfer("push", lease, *options, "origin", f"{commit}:refs/heads/{BRANCH}")
    else:
        repository.git("branch", "--force", BRANCH, commit)
    conflict = f" It conflicts with {policy.branch}, which has changed the same files." if conflicts else ""
    return f"{BRANCH} has the result of {registry.artifact} {version.name}, for {policy.branch}.{conflict}"


def _present(repository: Repository, target: str) -> str:
    """Return the commit that the pull request's branch has in ``origin``; empty if there is no such branch."""
    if not repository.transfer("ls-remote", "origin", f"refs/heads/{BRANCH}"):
        return ""
    commit = fetch_branch(repository, BRANCH)
    trailer = repository.git("log", "-1", f"--format=%(trailers:key={PROMOTION_TRAILER})", commit)
    if not trailer and not contains(repository, target, commit):
        author = repository.git("log", "-1", "--format=%an", commit)
        raise ForeignCommitsError(
            f"{BRANCH} in origin has a commit by {author}, which is not overwritten. Merge or delete that"
            " branch."
        )
    return commit


def _merged(repository: Repository, target: str, commit: str) -> tuple[str, bool]:
    """Return the tree of the run's changes on top of the target branch, and False; if they conflict, the tree of the run, and True."""
    try:
        return repository.git("merge-tree", "--write-tree", target, commit).splitlines()[0], False
    except GitError:
        return repository.git("rev-parse", f"{commit}^{{tree}}"), True
