"""From a finished run to a model in production, or to the reasons why not."""

from dataclasses import dataclass

from prefect import get_run_logger, runtime, task

from flows.promotion import verdict
from flows.promotion.evidence import Candidate, figures, predictions
from flows.promotion.gate import Decision, decide
from flows.promotion.registry import Registry, TakenError, Version
from flows.runs.checkout import Checkout
from flows.runs.line import Line
from flows.runs.results import Result, commit_run
from flows.runs.snapshot import Snapshot
from flows.runs.tasks import UNCACHED
from flows.settings import PromotionPolicy


@dataclass(frozen=True)
class Judgement:
    """A decision about a candidate.

    Attributes:
        decision: What was decided.
        production: The version that it was compared with.
    """

    decision: Decision
    production: Version | None

    def __str__(self) -> str:
        """For a commit message."""
        return verdict.as_text(self.decision, self.production)


@task(name="gate", task_run_name="gate", **UNCACHED)
def judge(line: Line, registry: Registry, policy: PromotionPolicy) -> Judgement:
    """Compares the candidate with the model in production, on the same rows."""
    candidate = Candidate(line.programs.cwd, registry.artifact)
    production = registry.in_stage(policy.stage)
    rows = predictions(candidate, production, registry, line)
    decision = decide(rows, figures(candidate, line), policy)
    get_run_logger().info("The candidate %s: %s", "is better" if decision.promoted else "stays behind", decision.reason)
    return Judgement(decision, production)


@task(name="promote", task_run_name="promote", **UNCACHED)
def settle(registry: Registry, judgement: Judgement, result: Result, stage: str, *, push: bool) -> Version | None:
    """Registers and promotes a candidate that is better, and tells the decision either way.

    Returns:
        The new version; ``None`` for a candidate that was rejected.

    Raises:
        TakenError: Another worker promoted a model in the meantime; nothing was changed.
    """
    version = _promote(registry, judgement, result, stage, push=push) if judgement.decision.promoted else None
    if version is None and push:
        registry.push(result.refs)
    verdict.publish(registry, judgement.decision, judgement.production, version, result.commit)
    return version


def _promote(registry: Registry, judgement: Judgement, result: Result, stage: str, *, push: bool) -> Version:
    before = registry.tags()
    version = registry.version_of(result.commit) or registry.register(result.commit, str(judgement))
    registry.assign(version, stage, str(judgement))
    if push:
        registry.push([*result.refs, *sorted(registry.tags() - before)])
    get_run_logger().info("%s %s is in %s", registry.artifact, version.name, stage)
    return version


def _judge(line: Line, checkout: Checkout, registry: Registry, policy: PromotionPolicy) -> Judgement | str:
    """Judges a candidate, or says why that was not done."""
    if not (standing := _standing(registry, checkout, policy.stage)):
        return judge(line, registry, policy)
    why_not = f"This very model is {standing.name}, which is or was in {policy.stage}: it is not judged again."
    get_run_logger().info(why_not)
    return why_not


def _standing(registry: Registry, checkout: Checkout, stage: str) -> Version | None:
    """The version that a candidate's model is, byte for byte, if that was in a stage. A rollback is not undone by the next run."""
    ours = Snapshot.of_checkout(checkout.path)
    model = ours.md5(ours.artifact(registry.artifact))
    for version in registry.ever_in(stage):
        theirs = Snapshot.of_commit(registry.repository, version.commit)
        if theirs.md5(theirs.artifact(registry.artifact)) == model:
            return version
    return None


def conclude(
    line: Line, checkout: Checkout, registry: Registry, policy: PromotionPolicy | None, *, push: bool
) -> tuple[Result, Version | None]:
    """Decides, commits the run with its decision, pushes, promotes. One run at a time on a machine: the caller holds a lock.

    Args:
        line: The line in the run's checkout.
        checkout: The run's.
        registry: Of the artifact that may be promoted.
        policy: When it is; ``None`` when nothing is to be promoted.
        push: Whether commit and tags go to ``origin``, where there is one.

    Raises:
        TakenError: Other machines promoted models all the while.
    """
    repository, push = registry.repository, push and registry.repository.has_remote()
    run = {"name": runtime.flow_run.name, "id": runtime.flow_run.id}
    for last in (False, False, True):
        if push:
            registry.fetch()
        judgement = _judge(line, checkout, registry, policy) if policy else "Nothing was to be promoted."
        result = commit_run(repository, checkout, run, str(judgement))
        if isinstance(judgement, str) or policy is None:
            if push:
                registry.push(result.refs)
            return result, None
        try:
            return result, settle(registry, judgement, result, policy.stage, push=push)
        except TakenError:
            if last:
                raise
    raise AssertionError("the last round returns or raises")
