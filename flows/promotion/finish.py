"""The end of a run: its result is committed in this clone, judged against the production that ``origin`` has, and pushed.

A result that cannot be pushed, because a git host or the DVC remote is away, stays on its branch and is recorded. The next run
completes it: pushes its data and its branch, and decides about its model.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from prefect import get_run_logger

from flows.promotion.judgements import Judgement
from flows.promotion.promote import commit_and_promote, judged_before
from flows.promotion.publication import push_versions
from flows.promotion.registry import Registry
from flows.promotion.take_over import take_over
from flows.promotion.unpushed import Unpushed, age_in_days, committed, forget, record, recorded
from flows.runs.checkout import Checkout, isolated
from flows.runs.pipeline import Pipeline
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import BusyError, GitError, UnreachableError
from flows.runs.results import Result, Run, commit_run, earlier_result, result_tree
from flows.runs.tasks import push_artifacts
from flows.settings import Settings
from flows.settings.promotion import PromotionPolicy
from tuneline.registry import Version

PROMOTION_WAIT = 900.0
"""Seconds to wait for the promotion of another run: each candidate is compared with the one promoted before it."""
GIVE_UP_DAYS = 14
"""Days after which a result that still cannot be completed is only left on its branch."""
UNDECIDED = "Not decided: origin has not been asked yet."

Outcome = tuple[Result, Version | None]


class NotPushedError(Exception):
    """A result is not in ``origin``, or not all of it is: the next run completes it."""


@dataclass(frozen=True)
class EndedRun:
    """A run whose stages have ended.

    Attributes:
        run: The Prefect run.
        checkout: Its checkout.
        pipeline: The pipeline in the checkout.
        registry: Registry of the artifact.
        settings: The flows' settings.
        promote: True to decide about its model; else the result is only committed.
    """

    run: Run
    checkout: Checkout
    pipeline: Pipeline
    registry: Registry
    settings: Settings
    promote: bool

    @property
    def policy(self) -> PromotionPolicy | None:
        """Conditions of a promotion; ``None`` to promote nothing."""
        return self.settings.promotion if self.promote else None

    def judged_before(self) -> Judgement | None:
        """Return the judgement that makes a result, which is to be pushed, nothing new."""
        return judged_before(self.registry, self.checkout, self.run, self.policy, push=self.registry.repository.has_remote())


def finish(ended: EndedRun, *, push: bool) -> Outcome:
    """Commit the result of a run, decide about its model, promote it, and take it over into a branch where the policy says so.

    Args:
        ended: The run.
        push: Push artifacts to the DVC remote, and commit and tags to ``origin``.

    Returns:
        The result, and the new version if the model was promoted.

    Raises:
        NotPushedError: The result is on its branch in this clone, and is not pushed.
        ConflictError: Other machines promoted models during every attempt.
    """
    if not push:
        with ended.registry.locked(PROMOTION_WAIT):
            _refresh(ended.registry, push=False)
            return _decide(ended, push=False)
    with ended.registry.locked(PROMOTION_WAIT):
        branch = _keep(ended)
    try:
        outcome = _push(ended, with_artifacts=branch is not None or not ended.registry.repository.has_remote())
    except (GitError, ProgramError) as error:
        judged = ended.judged_before()
        if judged and isinstance(error, UnreachableError):
            get_run_logger().warning("Nothing new, as far as this clone knows. %s", error)
            return Result(judged.result.commit, None), None
        where = f"The result is on {branch} in this clone" if branch else "The result is not pushed"
        raise NotPushedError(f"{where}; the next run completes what origin lacks.\n{error}") from error
    forget(ended.registry.repository, ended.checkout.name)
    return outcome


def _push(ended: EndedRun, *, with_artifacts: bool) -> Outcome:
    if with_artifacts:
        push_artifacts(ended.pipeline)
    with ended.registry.locked(PROMOTION_WAIT):
        _refresh(ended.registry, push=True)
        push_versions(ended.pipeline, ended.registry.unpublished())
        _keep(ended)  # what origin has in production may make it news
        return _decide(ended, push=True)


def _decide(ended: EndedRun, *, push: bool) -> Outcome:
    result, version = commit_and_promote(ended.pipeline, ended.checkout, ended.registry, ended.run, ended.policy, push=push)
    if version and (message := take_over(ended.registry, ended.settings.promotion, version, push=push)):
        get_run_logger().info(message)
    return result, version


def _keep(ended: EndedRun) -> str | None:
    """Commit and record a result, once: also if an earlier attempt or another run that is not pushed either had it.

    Returns:
        Its branch; ``None`` if the result is nothing new.
    """
    if ended.judged_before():
        return None
    repository, checkout, run = ended.registry.repository, ended.checkout, ended.run
    tree = result_tree(repository, checkout)
    for one in recorded(repository):
        if one.tree == tree and (known := committed(repository, one)):
            return known.branch or known.commit[:12]
    result = earlier_result(repository, run.id)
    if result is None or repository.git("rev-parse", f"{result.commit}^{{tree}}") != tree:
        result = commit_run(repository, checkout, run, UNDECIDED)
    record(repository, checkout, run, tree, promote=ended.promote)
    return result.branch or result.commit[:12]


def _refresh(registry: Registry, *, push: bool) -> None:
    for message in registry.refresh(push=push):
        get_run_logger().warning(message)


def complete_unpushed(registry: Registry, settings: Settings, on_line: Callable[[str], None], *, besides: str) -> list[str]:
    """Complete the results that earlier runs could not push; what fails again is left for the next run.

    Args:
        registry: Registry of the artifact.
        settings: The flows' settings.
        on_line: Called with each line of output.
        besides: Name of the checkout of the present run, which completes its own result.

    Returns:
        What was completed, in words.
    """
    repository, done = registry.repository, []
    for one in recorded(repository):
        if one.checkout == besides:
            continue
        try:
            done.append(_complete(registry, settings, one, on_line))
        except BusyError:
            continue  # that run is in progress
        except Exception as error:
            too_old = age_in_days(repository, one, time.time()) > GIVE_UP_DAYS
            left = "It stays on its branch" if too_old else "The next run tries again"
            get_run_logger().error("The result of %s cannot be completed. %s. %s", one.run.name, left, error)
            if too_old:
                forget(repository, one.checkout)
            if isinstance(error.__cause__, UnreachableError):
                break
    return [message for message in done if message]


def _complete(registry: Registry, settings: Settings, one: Unpushed, on_line: Callable[[str], None]) -> str:
    repository = registry.repository
    with isolated(repository, one.checkout, one.spec.commit, one.spec.overrides) as found:
        kept = committed(repository, one) if one in recorded(repository) else None
        if kept is None:  # a person removed the branch, or another run completed it
            forget(repository, one.checkout)
            return ""
        get_run_logger().info("Completing the result of %s, %s, which is not pushed.", one.run.name, kept.branch or kept.commit[:12])
        checkout = replace(found, spec=one.spec)
        repository.git("reset", "--hard", "--quiet", kept.commit, cwd=checkout.path)
        with Programs(checkout.path, checkout.name, lock=checkout.lock) as programs:
            pipeline = Pipeline(programs, on_line, settings.lock_wait_seconds)
            pipeline.restore(())
            result, version = finish(EndedRun(one.run, checkout, pipeline, registry, settings, one.promote), push=True)
        return f"{one.run.name} completed: {f'{version.name} in {settings.promotion.stage}' if version else result.branch or 'nothing new'}"
