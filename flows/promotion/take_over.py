"""Takes the result of a promoted run over into a branch: by a fast-forward, or by a pull request's branch.

``promotion.take_over`` says which. The registry decides what is in production, whatever happens here. What is
taken over is the run's commit: ``dvc.lock``, metrics, ``params.yaml`` as composed, and the profile of the
reference data.
"""

import re
from collections.abc import Iterator, Mapping

from flows.promotion.registry import Registry
from flows.runs.commits import HEADLINE, NotFastForwardError, contains, fast_forward, fetch_branch
from flows.runs.repository import Repository, UnreachableError
from tuneline.paths import PARAMS
from tuneline.repository.git import metrics_at
from tuneline.repository.registry import Version
from tuneline.repository.worktrees import GitError
from tuneline.settings import PromotionPolicy

PROMOTION_TRAILER = "Tuneline-Promotion"
"""Trailer of the commit: tells the commits of promotions from the commits of people."""
_CRITERION = re.compile(r"^- ([+x]) (.+?): (.*) \(required: (.*)\)$", re.MULTILINE)


def commit_message(
    repository: Repository,
    artifact: str,
    version: Version,
    before: str | None,
    policy: PromotionPolicy,
    *,
    conflicts: bool = False,
) -> str:
    """Return the commit message; its first line is the title."""
    # metrics, and the checks that changed
    run_message = repository.git("log", "-1", "--format=%B", version.commit)
    evaluated = _compared(repository, "evaluate", before, version.commit)
    validated = _compared(repository, "validate", before, version.commit)
    changed_checks = {}
    for name, (old, new) in validated.items():
        if old != new or name == "warnings":
            changed_checks[name] = (old, new)

    # title, paragraphs, and the trailer, which git reads only at the end
    parts = [
        f"Promote {artifact} {version.name}: {_headline(evaluated) or 'no metrics'}",
        (
            f"{artifact} {version.name} is in {policy.stage} (`{version.commit[:12]}`), whether this is"
            f" merged or not. This brings its `dvc.lock`, metrics and parameters to `{policy.branch}`."
        ),
    ]
    parts += _notes(repository, version.commit, run_message, policy, conflicts=conflicts)
    parts += _metrics_table("Metrics", evaluated)
    parts += _criteria(run_message)
    parts += _metrics_table("Data checks", changed_checks)
    parts.append(f"{PROMOTION_TRAILER}: {artifact} {version.name} {version.commit}")
    return "\n\n".join(parts)


def _headline(metrics: Mapping[str, tuple[float | None, float | None]]) -> str:
    """Return the metrics of the promoted run that decide promotions, in one line."""
    values = []
    for name in HEADLINE:
        _, value = metrics.get(name, (None, None))
        if value is not None:
            values.append(f"{name} {value:.4g}")
    return ", ".join(values)


def _notes(
    repository: Repository, commit: str, message: str, policy: PromotionPolicy, *, conflicts: bool
) -> Iterator[str]:
    for line in message.splitlines():
        if line.startswith("The pipeline of "):
            yield line
            break
    if PARAMS.name in repository.git("diff", "--name-only", f"{commit}^", commit).splitlines():
        yield f"`{PARAMS}` is that of the run: its parameters become the defaults of `{policy.branch}`."
    if conflicts:
        changed = f"`{policy.branch}` has changed the same files since."
        yield f"{changed} Do not merge `dvc.lock` by hand: run the pipeline of `{policy.branch}` again."


def _criteria(message: str) -> Iterator[str]:
    """Yield the table of the criteria that the message of the run's commit lists, if any."""
    rows = []
    for sign, *cells in _CRITERION.findall(message):
        mark = "✅" if sign == "+" else "❌"
        escaped = [cell.replace("|", "\\|") for cell in cells]
        rows.append(f"| {mark} | {' | '.join(escaped)} |")
    if rows:
        head = ["**Gate**", "", "| | criterion | value | required |", "|---|---|---|---|"]
        yield "\n".join(head + rows)


def _metrics_table(title: str, metrics: Mapping[str, tuple[float | None, float | None]]) -> Iterator[str]:
    """Yield the table of metrics, each with its value before and after, if there are any."""
    rows = []
    for name, (before, after) in metrics.items():
        difference = None
        if before is not None and after is not None:
            difference = after - before
        rows.append(f"| {name} | {_number(before)} | {_number(after)} | {_number(difference, sign='+')} |")
    if rows:
        head = [f"**{title}**", "", "| | before | after | difference |", "|---|---|---|---|"]
        yield "\n".join(head + rows)


def _number(value: float | None, sign: str = "") -> str:
    if value is None:
        return ""
    return f"{value:{sign}.4g}"


def _compared(
    repository: Repository, stage: str, before: str | None, after: str
) -> dict[str, tuple[float | None, float | None]]:
    """Return the metrics of a stage in two commits, by name."""
    old = {}
    if before:
        old = metrics_at(repository.root, before, stage)
    new = metrics_at(repository.root, after, stage)
    return {name: (old.get(name), new.get(name)) for name in new | old}


BRANCH = "tuneline/promotion"
"""The branch of the pull request: one, which each promotion updates."""


class ForeignCommitsError(Exception):
    """The pull request's branch has commits that no promotion made."""


def take_over(registry: Registry, policy: PromotionPolicy, version: Version, *, push: bool) -> str | None:
    """Bring the result of a promoted version to ``policy.branch``, unless another one is in the stage by now.

    Under the lock. With ``push``, the branches of ``origin`` change, else the branches of this clone.

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

    # the branch itself, else a pull request
    name = f"{registry.artifact} {version.name}"
    instead = ""
    try:
        if push:
            target = fetch_branch(repository, policy.branch)
        else:
            target = repository.resolve(f"refs/heads/{policy.branch}")
        if contains(repository, target, version.commit):
            return f"{policy.branch} has the commit of {name} already."

        if policy.take_over == "fast_forward":
            reason = _fast_forward(repository, policy.branch, target, version.commit, push=push)
            if reason is None:
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
    is_next = (
        contains(repository, commit, target)
        and repository.git("rev-list", "--count", f"{target}..{commit}") == "1"
    )
    if not is_next:
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
    """Replace the pull request's branch by one commit with the run's changes; return what happened."""
    # what was in the stage before
    repository = registry.repository
    earlier = registry.tags().succession(policy.stage)[:-1]
    before = earlier[-1] if earlier else None

    # commit
    tree, conflicts = _merged(repository, target, version.commit)
    message = commit_message(repository, registry.artifact, version, before, policy, conflicts=conflicts)
    # A commit on top of the run's parent shows the conflicts to whoever merges it.
    parent = f"{version.commit}^" if conflicts else target
    commit = repository.git("commit-tree", tree, "-p", parent, "-F", "-", text=message)

    # branch
    if push:
        lease = f"--force-with-lease=refs/heads/{BRANCH}:{_present(repository, target)}"
        arguments = [lease]
        for option in policy.push_options:
            arguments += ["-o", option]
        arguments += ["origin", f"{commit}:refs/heads/{BRANCH}"]
        repository.transfer("push", *arguments)
    else:
        repository.git("branch", "--force", BRANCH, commit)

    result = f"{BRANCH} has the result of {registry.artifact} {version.name}, for {policy.branch}."
    if conflicts:
        result += f" It conflicts with {policy.branch}, which has changed the same files."
    return result


def _present(repository: Repository, target: str) -> str:
    """Return the commit of the pull request's branch in ``origin``; empty if there is no such branch.

    Raises:
        ForeignCommitsError: No promotion made that commit, and the target branch lacks it.
    """
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
    """Return the tree of the run's changes on top of the target branch, and whether they conflict.

    If they conflict, the tree is the run's.
    """
    try:
        tree = repository.git("merge-tree", "--write-tree", target, commit).splitlines()[0]
    except GitError:
        return repository.git("rev-parse", f"{commit}^{{tree}}"), True
    return tree, False
