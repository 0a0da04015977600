"""From a finished run to a model in production, or to the reasons why not."""

from dataclasses import dataclass

from prefect import get_run_logger, runtime, task

from flows import verdict
from flows.checkout import Checkout
from flows.evidence import Candidate, figures, predictions
from flows.gate import Decision, decide
from flows.line import Line
from flows.registry import Registry, TakenError, Version
from flows.results import Result, commit_run, has_changes
from flows.settings import PromotionPolicy
from flows.tasks import UNCACHED


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
            repository.git("fetch", "--quiet", "--tags", "origin")
        known = registry.version_of(checkout.work.commit) and not has_changes(repository, checkout)
        judgement = judge(line, registry, policy) if policy and not known else None
        result = commit_run(repository, checkout, run, str(judgement or "Nothing was to be promoted."))
        if judgement is None or policy is None:
            if push:
                registry.push(result.refs)
            return result, None
        try:
            return result, settle(registry, judgement, result, policy.stage, push=push)
        except TakenError:
            if last:
                raise
    raise AssertionError("the last round returns or raises")
