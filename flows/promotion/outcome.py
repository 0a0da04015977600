"""The outcome of a run, from top to bottom: its result is committed, pushed, judged, and perhaps promoted.

A result that is to be pushed is committed in this clone before ``origin`` is asked anything. If a git host or
the DVC remote is away, or the process is killed, it stays on its branch and is recorded as unpushed; the next
run pushes it and decides about its model. The DVC remote gets the weights of a model that is promoted only:
others can be made again.

A result that was judged before, under the same conditions, is nothing new: nothing is pushed, and no branch
is left.
"""

import contextlib
import time
from dataclasses import dataclass, replace
from functools import cached_property

from prefect import get_run_logger, task

from flows.promotion.gate import PromotionDecision, gate, report
from flows.promotion.judgements import Conditions, Judgement, Judgements
from flows.promotion.production import push_versions
from flows.promotion.registry import ConflictError, Registry
from flows.promotion.take_over import take_over
from flows.promotion.unpushed import UnpushedResult, forget_unpushed, unpushed_results
from flows.runs.checkout import Checkout
from flows.runs.commits import Run, RunResult, commit_run, earlier_result
from flows.runs.pipeline import UNCACHED, Pipeline, push_artifacts
from flows.runs.processes import ProgramError
from flows.runs.repository import Repository, UnreachableError
from tuneline.repository.dvc import read_lock
from tuneline.repository.git import artifact_path
from tuneline.repository.registry import Version
from tuneline.repository.worktrees import GitError
from tuneline.settings import PromotionPolicy, Settings

PROMOTION_WAIT = 900.0
"""Seconds to wait for the promotion of another run, with whose model the candidate is then compared."""
ATTEMPTS = 3
"""Times that the gate runs if other machines promote models in the meantime."""
UNDECIDED = "Not decided: origin has not been asked yet."

RunOutcome = tuple[RunResult, Version | None]
"""The run's result, and the new version if its model was promoted."""


class NotPushedError(Exception):
    """A result is not in ``origin``, or not all of it is: the next run completes it."""


@dataclass(frozen=True)
class EndedRun:
    """A run whose stages have ended.

    Attributes:
        promote: False to commit the result only.
        push: True to push artifacts to the DVC remote, and commit and tags to ``origin``, if there is one.
    """

    run: Run
    checkout: Checkout
    pipeline: Pipeline
    registry: Registry
    settings: Settings
    promote: bool
    push: bool

    @property
    def repository(self) -> Repository:
        """The clone."""
        return self.registry.repository

    @property
    def policy(self) -> PromotionPolicy | None:
        """Conditions of a promotion; ``None`` to promote nothing."""
        if not self.promote:
            return None
        return self.settings.promotion

    @cached_property
    def to_origin(self) -> bool:
        """True if commit and tags are pushed."""
        return self.push and self.repository.has_remote()

    @property
    def tree(self) -> str:
        """Git tree of what the run's commit contains: the same for two runs with the same result."""
        self.repository.git("add", "--all", cwd=self.checkout.path)
        return self.repository.git("write-tree", cwd=self.checkout.path)

    @property
    def conditions(self) -> Conditions:
        """What a decision about the run depends on now, besides its result."""
        return Conditions.of(self.registry, self.policy, pushed=self.to_origin)


def finish(ended: EndedRun) -> RunOutcome:
    """Commit the result of a run, push it, decide about its model, and promote the model if it is better.

    A promoted model is taken over into a branch where the policy says so.

    Raises:
        NotPushedError: The result is on its branch in this clone, and is not pushed.
        ConflictError: Other machines promoted models during every attempt.
    """
    branch = ""
    try:
        with ended.registry.locked(PROMOTION_WAIT):
            # As far as this clone knows, which asked origin when the run began.
            outcome = known_outcome(ended)
            if ended.push and outcome is None:
                branch = commit_undecided(ended)

        # This takes long, so other runs are not kept waiting for the lock.
        if ended.push and outcome is None:
            push_artifacts(ended.pipeline, weights=False)

        with ended.registry.locked(PROMOTION_WAIT):
            if outcome is None:
                outcome = judge_and_promote(ended)
            _, version = outcome
            if version is not None:
                _take_over(ended, version)
    except (GitError, ProgramError) as error:
        if not ended.push:
            raise
        message = f"The result is on {branch} in this clone; the next run completes what origin lacks."
        raise NotPushedError(f"{message}\n{error}") from error

    forget_unpushed(ended.repository, ended.checkout.name)
    return outcome


def _take_over(ended: EndedRun, version: Version) -> None:
    message = take_over(ended.registry, ended.settings.promotion, version, push=ended.push)
    if message:
        get_run_logger().info(message)


def known_outcome(ended: EndedRun) -> RunOutcome | None:
    """Return the outcome if it needs no decision; else ``None``.

    It needs none if an attempt of the run was promoted, or if the same result was judged before.
    """
    promoted = promoted_before(ended)
    if promoted is not None:
        return promoted
    judgement = judged_before(ended)
    if judgement is not None:
        return nothing_new(ended, judgement)
    return None


def promoted_before(ended: EndedRun) -> RunOutcome | None:
    """Return the outcome of an attempt of this run that ended after its promotion, if there was one."""
    if ended.policy is None:
        return None
    result = earlier_result(ended.repository, ended.run.id)
    if result is None:
        return None
    for version in ended.registry.tags().ever_in(ended.policy.stage):
        if version.commit == result.commit:
            get_run_logger().info("An earlier attempt of this run promoted %s.", version.name)
            return result, version
    return None


def judged_before(ended: EndedRun) -> Judgement | None:
    """Return the judgement of another run with the same result, if it answers for this run."""
    judgement = Judgements(ended.repository).find(ended.tree)
    if judgement is None or judgement.run == ended.run.id:
        return None
    if judgement.conditions.covers(ended.conditions):
        return judgement

    # A model that was promoted then is not judged again, although production has changed since.
    if ended.policy is None:
        return None
    if ended.to_origin and not judgement.conditions.pushed:
        return None
    if _promoted_version(ended, ended.policy) is None:
        return None
    return judgement


def nothing_new(ended: EndedRun, judgement: Judgement) -> RunOutcome:
    """Leave no trace of a result that was judged before, except that it is still current."""
    get_run_logger().info("Nothing new: this result was judged before, see %s.", judgement.result.name)
    # Flow `clean` keeps the branch of a result that another run has come to.
    Judgements(ended.repository).add(ended.tree, replace(judgement, seen=time.time()))

    result = earlier_result(ended.repository, ended.run.id)
    if result and result.branch:
        with contextlib.suppress(GitError):  # a person has it checked out
            ended.repository.git("branch", "--delete", "--force", result.branch)
    return RunResult(judgement.result.commit, None), None


def commit_undecided(ended: EndedRun) -> str:
    """Commit and record a result that is not decided; return its name.

    This is done once, also if an earlier attempt, or another run that is not pushed either, had the result.
    """
    repository = ended.repository
    checkout = ended.checkout
    run = ended.run
    tree = ended.tree

    # another run's result, or an earlier attempt's
    for unpushed_result in unpushed_results(repository):
        if unpushed_result.tree == tree:
            committed = unpushed_result.committed(repository)
            if committed:
                return committed.name

    result = earlier_result(repository, run.id)
    if result is None or repository.git("rev-parse", f"{result.commit}^{{tree}}") != tree:
        result = commit_run(repository, checkout, run, UNDECIDED)
    UnpushedResult(run, checkout.name, checkout.spec, tree, ended.promote).record(repository)
    return result.name


def judge_and_promote(ended: EndedRun) -> RunOutcome:
    """Decide about the candidate, commit the run with the decision, push, and promote if it passes.

    The caller holds the registry's lock, so that runs of one machine are promoted one after the other.

    Raises:
        ConflictError: Other machines promoted models during every attempt.
        GitError: ``origin`` refused the push, or cannot be reached.
    """
    for change in ended.registry.refresh(push=ended.push):
        get_run_logger().warning(change)
    if ended.push:
        push_versions(ended.pipeline, ended.registry.unpublished())

    # Now this clone knows what origin knows.
    outcome = known_outcome(ended)
    if outcome is not None:
        return outcome

    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(ConflictError):  # the tags are the tags of origin now: try again
            return _attempt(ended)
    return _attempt(ended)


def _attempt(ended: EndedRun) -> RunOutcome:
    """Decide about the candidate once, and publish and remember the decision."""
    # Before the promotion, which changes what is in production.
    conditions = ended.conditions
    decision = _decision(ended)
    result = commit_run(ended.repository, ended.checkout, ended.run, str(decision))
    if isinstance(decision, PromotionDecision) and decision.entry is not None:
        # Before the push: what was tested is used up, also if another machine was first.
        ended.registry.gate_log.append(decision.entry.model_copy(update={"commit": result.commit}))

    version = None
    try:
        if isinstance(decision, PromotionDecision):
            stage = ended.settings.promotion.stage
            version = promote(ended.registry, decision, result, stage, push=ended.to_origin)
        elif ended.to_origin:
            ended.registry.publish(result.refs)
    except UnreachableError:  # origin may have accepted: the commit must stay the one that it has
        raise
    except (ConflictError, GitError):
        failed = "Pushing this result to origin failed; `tuneline versions` shows what is in production."
        commit_run(ended.repository, ended.checkout, ended.run, f"{decision}\n\n{failed}")
        raise

    is_withheld = isinstance(decision, PromotionDecision) and decision.withheld
    if not is_withheld:
        # Only a decision that a hold alone stopped is made again after the hold.
        conditions = replace(conditions, hold=None)
    Judgements(ended.repository).add(ended.tree, Judgement(ended.run.id, result, conditions))
    return result, version


def _decision(ended: EndedRun) -> PromotionDecision | str:
    """Return the decision of the gate about the candidate, or why the gate is not run."""
    policy = ended.policy
    if policy is None:
        return "No promotion was requested."

    version = _promoted_version(ended, policy)
    if version is not None:
        message = (
            f"The model is identical to {version.name}, which is or was in {policy.stage}, or was taken back:"
            " the gate is not run again."
        )
        get_run_logger().info(message)
        return message

    decision = gate(ended.pipeline, ended.registry, policy)
    if decision.promoted and ended.push:
        # Before the tags, which name what everybody can fetch.
        push_artifacts(ended.pipeline, weights=True)
    return decision


def _promoted_version(ended: EndedRun, policy: PromotionPolicy) -> Version | None:
    """Return the version with the candidate's bytes that was decided about; ``None`` if there is none.

    It is or was in the stage, or was taken back: the next run must not undo a rollback, or what a person
    decided, by promoting the same model again.
    """
    # hash of the candidate, and the versions that it may be
    root = ended.checkout.path
    model = read_lock(root).out(artifact_path(root, ended.registry.artifact))
    tags = ended.registry.tags()
    versions = {version.commit: version for version in (*tags.ever_in(policy.stage), *tags.withdrawn)}
    if not model or not versions:
        return None

    # One program for all versions: each night, there may be one more.
    with contextlib.suppress(GitError):  # git grep fails if no commit has the model
        matches = ended.repository.git(
            "grep", "--name-only", "--fixed-strings", "-e", model, *versions, "--", "dvc.lock"
        )
        commit = matches.partition(":")[0]
        return versions[commit]
    return None


@task(name="promote", task_run_name="promote", **UNCACHED)
def promote(
    registry: Registry, decision: PromotionDecision, result: RunResult, stage: str, *, push: bool
) -> Version | None:
    """Register and promote a candidate that passed the gate, and report the decision either way.

    Returns:
        The new version; ``None`` if the candidate did not pass.

    Raises:
        ConflictError: Another machine promoted a model in the meantime; nothing was changed.
        GitError: ``origin`` refused the push, or cannot be reached; nothing was changed.
    """
    version = None
    if decision.promoted:
        version = registry.promote(result.commit, stage, str(decision), refs=result.refs, push=push)
        get_run_logger().info("%s %s is in %s", registry.artifact, version.name, stage)
    elif push:
        registry.publish(result.refs)
    report(registry, decision, version, result.commit)
    return version
