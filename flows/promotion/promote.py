"""The promotion of a run's model: the gate's task, the registration, and the reports of the decision.

A decision is reported in the run's commit message, as a Markdown artifact in Prefect, and as an event for automations.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.events import emit_event

from flows.promotion.candidate import Candidate, measure, predictions
from flows.promotion.gate import Decision, decide
from flows.promotion.judgements import Conditions, Judgement, Judgements
from flows.promotion.registry import ConflictError, Registry
from flows.runs.checkout import Checkout
from flows.runs.pipeline import Pipeline, PipelineFiles
from flows.runs.repository import GitError, Repository, UnreachableError
from flows.runs.results import Result, Run, commit_run, earlier_result, remove_result, result_tree
from flows.runs.tasks import UNCACHED
from flows.settings.promotion import PromotionPolicy
from tuneline.registry import Version

ATTEMPTS = 3
"""Times that the gate runs if other machines promote models in the meantime."""


@dataclass(frozen=True)
class GateResult:
    """The gate's decision about a candidate.

    Attributes:
        decision: The decision.
        production: The version that the candidate was compared with; ``None`` if none was in production.
    """

    decision: Decision
    production: Version | None

    def __str__(self) -> str:
        """Return the decision and every criterion, for a commit message."""
        baseline = f"{self.production.name} in production" if self.production else "nothing in production yet"
        head = f"{'Promoted' if self.decision.promoted else 'Rejected'} ({baseline}): {self.decision.reason}."
        rows = [f"- {'+' if one.met else 'x'} {one.name}: {one.value} (required: {one.limit})" for one in self.decision.criteria]
        return "\n".join([head, "", *rows])


def commit_and_promote(
    pipeline: Pipeline, checkout: Checkout, registry: Registry, run: Run, policy: PromotionPolicy | None, *, push: bool
) -> tuple[Result, Version | None]:
    """Decide about the candidate, commit the run with the decision, push, and promote a candidate that passes.

    The caller holds a lock, so that runs of one machine are promoted one after the other, and with ``push`` has fetched the registry.

    Args:
        pipeline: The pipeline in the run's checkout.
        checkout: The run's checkout.
        registry: Registry of the artifact.
        run: The Prefect run that made the result.
        policy: Conditions of a promotion; ``None`` to promote nothing.
        push: Push commit and tags to ``origin``, if the repository has one.

    Returns:
        The run's result, and the new version if the candidate was promoted.

    Raises:
        ConflictError: Other machines promoted models during every attempt.
        GitError: ``origin`` refused the push, or cannot be reached.
    """
    push = push and registry.repository.has_remote()
    if policy and (done := _earlier_promotion(registry, run, policy.stage)):
        get_run_logger().info("An earlier attempt of this run promoted %s.", done[1].name)
        return done
    if judged := judged_before(registry, checkout, run, policy, push=push):
        get_run_logger().info("Nothing new: this result was judged before, see %s.", judged.result.branch or judged.result.commit[:12])
        Judgements(registry.repository).renew(result_tree(registry.repository, checkout))
        remove_result(registry.repository, run)
        return Result(judged.result.commit, None), None
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(ConflictError):  # the registry is that of origin now
            return _attempt(pipeline, checkout, registry, run, policy, push=push)
    return _attempt(pipeline, checkout, registry, run, policy, push=push)


def _earlier_promotion(registry: Registry, run: Run, stage: str) -> tuple[Result, Version] | None:
    """Return the result and version of an attempt of this run that ended after its promotion; ``None`` if there was none."""
    result = earlier_result(registry.repository, run.id)
    promoted = registry.tags().ever_in(stage)
    return next(((result, version) for version in promoted if result and version.commit == result.commit), None)


def judged_before(registry: Registry, checkout: Checkout, run: Run, policy: PromotionPolicy | None, *, push: bool) -> Judgement | None:
    """Return the judgement of another run with the same result, if it answers for this run: nothing is committed, judged or sent again.

    A model that was promoted then is known since, and not judged again although production has changed.
    """
    judgement = Judgements(registry.repository).find(result_tree(registry.repository, checkout))
    if judgement is None or judgement.run == run.id:
        return None
    conditions = Conditions.of(registry, policy, push=push)
    known = judgement.conditions.covers(conditions) or (
        policy and judgement.conditions.pushed >= push and _known_version(registry, checkout, policy.stage)
    )
    return judgement if known else None


def _attempt(
    pipeline: Pipeline, checkout: Checkout, registry: Registry, run: Run, policy: PromotionPolicy | None, *, push: bool
) -> tuple[Result, Version | None]:
    conditions = Conditions.of(registry, policy, push=push)
    outcome = _gate_result(pipeline, checkout, registry, policy) if policy else "No promotion was requested."
    result = commit_run(registry.repository, checkout, run, str(outcome))
    version = None
    try:
        if policy and isinstance(outcome, GateResult):
            version = promote(registry, outcome, result, policy.stage, push=push)
        elif push:
            registry.publish(result.refs)
    except UnreachableError:  # origin may have accepted: the commit must stay the one that it has
        raise
    except (ConflictError, GitError):
        failed = "Pushing this result to origin failed; `gto show` prints what is in production."
        commit_run(registry.repository, checkout, run, f"{outcome}\n\n{failed}")
        raise
    Judgements(registry.repository).add(result_tree(registry.repository, checkout), Judgement(run.id, result, conditions))
    return result, version


def _gate_result(pipeline: Pipeline, checkout: Checkout, registry: Registry, policy: PromotionPolicy) -> GateResult | str:
    """Return the gate's result, or the reason why the gate is not run."""
    if not (known := _known_version(registry, checkout, policy.stage)):
        return gate(pipeline, registry, policy)
    reason = f"The model is identical to {known.name}, which is or was in {policy.stage}: the gate is not run again."
    get_run_logger().info(reason)
    return reason


def _known_version(registry: Registry, checkout: Checkout, stage: str) -> Version | None:
    """Return the version, now or once in the stage, with the candidate's bytes: the next run must not undo a rollback."""
    ours = PipelineFiles.of_checkout(checkout.path)
    model = ours.lock.out(ours.artifact(registry.artifact))
    for version in registry.tags().ever_in(stage):
        theirs = PipelineFiles.of_commit(registry.repository, version.commit)
        if theirs.lock.out(theirs.artifact(registry.artifact)) == model:
            return version
    return None


@task(name="gate", task_run_name="gate", **UNCACHED)
def gate(pipeline: Pipeline, registry: Registry, policy: PromotionPolicy) -> GateResult:
    """Compare the candidate with the model in production, on the same rows."""
    candidate = Candidate(pipeline.programs.cwd, registry.artifact)
    production = registry.in_stage(policy.stage)
    rows = predictions(candidate, production, registry, pipeline)
    decision = decide(rows, measure(candidate, pipeline), policy)
    get_run_logger().info("The candidate is %s: %s", "promoted" if decision.promoted else "rejected", decision.reason)
    return GateResult(decision, production)


@task(name="promote", task_run_name="promote", **UNCACHED)
def promote(registry: Registry, outcome: GateResult, result: Result, stage: str, *, push: bool) -> Version | None:
    """Register and promote a candidate that passed the gate, and report the decision either way.

    Returns:
        The new version; ``None`` if the candidate was rejected.

    Raises:
        ConflictError: Another machine promoted a model in the meantime; nothing was changed.
        GitError: ``origin`` refused the push, or cannot be reached; nothing was changed.
    """
    version = None
    if outcome.decision.promoted:
        version = registry.promote(result.commit, stage, str(outcome), refs=result.refs, push=push)
        get_run_logger().info("%s %s is in %s", registry.artifact, version.name, stage)
    elif push:
        registry.publish(result.refs)
    report(registry, outcome, version, result.commit)
    return version


def report(registry: Registry, outcome: GateResult, promoted: Version | None, commit: str) -> None:
    """Write the artifacts and emit ``tuneline.model.promoted`` or ``tuneline.model.rejected``.

    Args:
        registry: Registry of the artifact.
        outcome: The gate's result.
        promoted: The candidate's version; ``None`` if it was rejected.
        commit: The candidate's commit.
    """
    artifact, link = registry.artifact, commit_page(registry.repository, commit)
    word = "promoted" if promoted else "rejected"
    create_markdown_artifact(as_markdown(outcome, promoted, commit, link), key="promotion", description=f"{artifact}: {word}")
    if link:
        create_link_artifact(link, link_text=f"Commit {commit[:12]}", key="candidate", description="The run's commit")
    emit_event(
        event=f"tuneline.model.{word}",
        resource={"prefect.resource.id": f"tuneline.model.{artifact}", "prefect.resource.name": artifact, "tuneline.commit": commit},
        payload=as_payload(outcome, promoted, commit),
    )


def as_markdown(outcome: GateResult, promoted: Version | None, commit: str, link: str | None) -> str:
    """Return the decision with a table of the criteria, for Prefect's UI."""
    production, criteria = outcome.production, outcome.decision.criteria
    model = f"[`{commit[:12]}`]({link})" if link else f"`{commit[:12]}`"
    title = f"# {promoted.name} is in production" if promoted else "# Not promoted"
    baseline = f"{production.name} (`{production.commit[:12]}`)" if production else "none; the baseline is the most frequent label"
    rows = [f"| {'✅' if one.met else '❌'} | {one.name} | {_cell(one.value)} | {_cell(one.limit)} |" for one in criteria]
    table = ["| | criterion | value | required |", "|---|---|---|---|", *rows]
    return "\n".join([title, "", f"Candidate: {model}  ", f"In production before: {baseline}", "", *table])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def as_payload(outcome: GateResult, promoted: Version | None, commit: str) -> dict[str, Any]:
    """Return the decision as the JSON payload of an event."""
    decision, gain = outcome.decision, outcome.decision.gain
    return {
        "commit": commit,
        "version": promoted.name if promoted else None,
        "before": outcome.production.name if outcome.production else None,
        "reason": decision.reason,
        "metric": decision.metric,
        "candidate": gain.first,
        "production": gain.second,
        "difference": gain.value,
        "interval": [gain.low, gain.high],
        "mcnemar_p": decision.test.p if decision.test else None,
        "criteria": [{"name": one.name, "value": one.value, "limit": one.limit, "met": one.met} for one in decision.criteria],
    }


def commit_page(repository: Repository, commit: str) -> str | None:
    """Return the web page of a commit, if ``origin`` is on a host with the usual addresses; without credentials in the address."""
    if not repository.has_remote():
        return None
    url = repository.git("remote", "get-url", "origin").removesuffix("/").removesuffix(".git")
    if url.startswith("git@"):
        url = "https://" + url.removeprefix("git@").replace(":", "/", 1)
    if not url.startswith("https://"):
        return None
    host, _, path = url.removeprefix("https://").partition("/")
    return f"https://{host.rpartition('@')[2]}/{path}/commit/{commit}"
