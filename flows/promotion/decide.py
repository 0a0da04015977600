"""The end of a run, from top to bottom: its result is committed, pushed, judged against production, and promoted if it is better.

A result is committed in this clone before ``origin`` is asked anything. If a git host or the DVC remote is away, or the process is
killed, it stays on its branch, recorded in ``CHECKOUT.unpushed`` in the repository's folder of states; the next run pushes it and
decides about its model.

A result that was judged before, under the same conditions, is nothing new: it is neither committed nor judged again. Judgements are in
``judgements.json``, by the git tree of the result. A file of this clone and not of the commits: a run that changes nothing makes no
commit, and a branch may be deleted. Without the file, a result is judged once more.
"""

import contextlib
import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from prefect import get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.events import emit_event
from pydantic import TypeAdapter, ValidationError

from flows.promotion.gate import CandidateModel, PromotionDecision, decide, measure, predictions
from flows.promotion.registry import ConflictError, Registry
from flows.promotion.take_over import take_over
from flows.runs.checkout import Checkout, RunSpec, isolated
from flows.runs.pipeline import UNCACHED, Pipeline, PipelineFiles, push_artifacts
from flows.runs.processes import ProgramError, Programs
from flows.runs.repository import GitError, Repository, UnreachableError
from flows.runs.results import Run, RunResult, commit_run, earlier_result, remove_result, result_tree
from flows.settings import PromotionPolicy, Settings
from tuneline.core.files import write_json
from tuneline.core.locks import BusyError
from tuneline.project.dvc import default_remote
from tuneline.project.registry import Version

PROMOTION_WAIT = 900.0
"""Seconds to wait for the promotion of another run: each candidate is compared with the one promoted before it."""
ATTEMPTS = 3
"""Times that the gate runs if other machines promote models in the meantime."""
GIVE_UP_DAYS = 14
"""Days after which a result that still cannot be pushed is only left on its branch."""
REMEMBERED = 1000
"""Number of judgements that are kept."""
UNDECIDED = "Not decided: origin has not been asked yet."

Outcome = tuple[RunResult, Version | None]
"""The run's result, and the new version if its model was promoted."""


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
        return self.settings.promotion if self.promote else None

    @cached_property
    def to_origin(self) -> bool:
        """True if commit and tags are pushed."""
        return self.push and self.repository.has_remote()

    @property
    def tree(self) -> str:
        """Git tree of the result."""
        return result_tree(self.repository, self.checkout)


def finish(ended: EndedRun) -> Outcome:
    """Commit the result of a run, push it, decide about its model, promote it, and take it over into a branch where the policy says so.

    Raises:
        NotPushedError: The result is on its branch in this clone, and is not pushed.
        ConflictError: Other machines promoted models during every attempt.
    """
    locked = partial(ended.registry.locked, PROMOTION_WAIT)
    if not ended.push:
        with locked():
            refresh(ended)
            return decide_once(ended, judged_before(ended))
    with locked():
        judged = judged_before(ended)
        branch = None if judged else commit_undecided(ended)
    try:
        if branch or not ended.to_origin:
            push_artifacts(ended.pipeline)  # takes long, so without the lock
        with locked():
            refresh(ended)
            judged = judged_before(ended)  # again: origin may have another model in production
            outcome = decide_once(ended, judged)
    except (GitError, ProgramError) as error:
        if judged and isinstance(error, UnreachableError):
            get_run_logger().warning("Nothing new, as far as this clone knows. %s", error)
            return RunResult(judged.result.commit, None), None
        where = f"The result is on {branch} in this clone" if branch else "The result is not pushed"
        raise NotPushedError(f"{where}; the next run completes what origin lacks.\n{error}") from error
    forget_unpushed(ended.repository, ended.checkout.name)
    return outcome


def refresh(ended: EndedRun) -> None:
    """Bring the registry of this clone up to date with ``origin``, and ``origin`` with the versions of this clone."""
    for message in ended.registry.refresh(push=ended.push):
        get_run_logger().warning(message)
    if ended.push:
        push_versions(ended.pipeline, ended.registry.unpublished())


def commit_undecided(ended: EndedRun) -> str:
    """Commit and record a result, once: also if an earlier attempt or another run that is not pushed either had it.

    Returns:
        Its branch; if the run changed nothing, its commit.
    """
    repository, checkout, run = ended.repository, ended.checkout, ended.run
    tree = ended.tree
    for one in unpushed_results(repository):
        if one.tree == tree and (known := one.committed(repository)):
            return known.name
    result = earlier_result(repository, run.id)
    if result is None or repository.git("rev-parse", f"{result.commit}^{{tree}}") != tree:
        result = commit_run(repository, checkout, run, UNDECIDED)
    UnpushedResult(run, checkout.name, checkout.spec, tree, ended.promote).record(repository)
    return result.name


def push_versions(pipeline: Pipeline, versions: Sequence[Version]) -> None:
    """Push the outs of versions to the DVC remote, if there is one. Outs that are lost are reported, and do not stop the others.

    Raises:
        ProgramError: The upload failed.
    """
    names = ", ".join(version.name for version in versions)
    if versions and not default_remote(pipeline.programs.cwd):
        pipeline.on_line(f"ERROR: DVC has no default remote: the data of {names} exist on this machine only.")
    elif versions:
        command = [sys.executable, "-P", "-m", "tuneline.project.dvc", "push", *(version.commit for version in versions)]
        pipeline.programs.run(command, f"Pushing the data of {names} to the DVC remote", pipeline.on_line)


def decide_once(ended: EndedRun, judged: "Judgement | None") -> Outcome:
    """Decide about the model of a run, unless an attempt of it was promoted, or the same result was judged before."""
    outcome = promoted_before(ended) or (nothing_new(ended, judged) if judged else judge_and_promote(ended))
    _, version = outcome
    if version and (message := take_over(ended.registry, ended.settings.promotion, version, push=ended.push)):
        get_run_logger().info(message)
    return outcome


def promoted_before(ended: EndedRun) -> Outcome | None:
    """Return the outcome of an attempt of this run that ended after its promotion; ``None`` if there was none."""
    result = earlier_result(ended.repository, ended.run.id) if ended.policy else None
    promoted = ended.registry.tags().ever_in(ended.settings.promotion.stage) if result else []
    for version in promoted:
        if result and version.commit == result.commit:
            get_run_logger().info("An earlier attempt of this run promoted %s.", version.name)
            return result, version
    return None


def judged_before(ended: EndedRun) -> "Judgement | None":
    """Return the judgement of another run with the same result, if it answers for this run.

    A model that was promoted then is known since, and not judged again although production has changed.
    """
    judgement = Judgements(ended.repository).find(ended.tree)
    if judgement is None or judgement.run == ended.run.id:
        return None
    if judgement.conditions.covers(Conditions.of(ended)):
        return judgement
    known = ended.policy and judgement.conditions.pushed >= ended.to_origin and _known_version(ended, ended.policy)
    return judgement if known else None


def nothing_new(ended: EndedRun, judged: "Judgement") -> Outcome:
    """Leave no trace of a result that was judged before, except that it is still current."""
    get_run_logger().info("Nothing new: this result was judged before, see %s.", judged.result.name)
    Judgements(ended.repository).renew(ended.tree)
    remove_result(ended.repository, ended.run)
    return RunResult(judged.result.commit, None), None


def judge_and_promote(ended: EndedRun) -> Outcome:
    """Decide about the candidate, commit the run with the decision, push, and promote a candidate that passes.

    The caller holds a lock, so that runs of one machine are promoted one after the other, and has fetched the registry.

    Raises:
        ConflictError: Other machines promoted models during every attempt.
        GitError: ``origin`` refused the push, or cannot be reached.
    """
    if ended.push:
        commit_undecided(ended)
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(ConflictError):  # the registry is that of origin now
            return _attempt(ended)
    return _attempt(ended)


def _attempt(ended: EndedRun) -> Outcome:
    registry, policy, conditions = ended.registry, ended.policy, Conditions.of(ended)
    decision: PromotionDecision | str = "No promotion was requested."
    if policy and (known := _known_version(ended, policy)):
        decision = f"The model is identical to {known.name}, which is or was in {policy.stage}: the gate is not run again."
        get_run_logger().info(decision)
    elif policy:
        decision = gate(ended.pipeline, registry, policy)
    result = commit_run(ended.repository, ended.checkout, ended.run, str(decision))
    version = None
    try:
        if policy and isinstance(decision, PromotionDecision):
            version = promote(registry, decision, result, policy.stage, push=ended.to_origin)
        elif ended.to_origin:
            registry.publish(result.refs)
    except UnreachableError:  # origin may have accepted: the commit must stay the one that it has
        raise
    except (ConflictError, GitError):
        failed = "Pushing this result to origin failed; `gto show` prints what is in production."
        commit_run(ended.repository, ended.checkout, ended.run, f"{decision}\n\n{failed}")
        raise
    Judgements(ended.repository).add(ended.tree, Judgement(ended.run.id, result, conditions))
    return result, version


def _known_version(ended: EndedRun, policy: PromotionPolicy) -> Version | None:
    """Return the version, now or once in the stage, with the candidate's bytes: the next run must not undo a rollback."""
    registry = ended.registry
    model = PipelineFiles.of_checkout(ended.checkout.path).artifact_hash(registry.artifact)
    for version in registry.tags().ever_in(policy.stage):
        if PipelineFiles.of_commit(ended.repository, version.commit).artifact_hash(registry.artifact) == model:
            return version
    return None


@task(name="gate", task_run_name="gate", **UNCACHED)
def gate(pipeline: Pipeline, registry: Registry, policy: PromotionPolicy) -> PromotionDecision:
    """Compare the candidate with the model in production, on the same rows."""
    candidate = CandidateModel(pipeline.programs.cwd, registry.artifact)
    production = registry.in_stage(policy.stage)
    rows = predictions(candidate, production, registry, pipeline)
    decision = decide(rows, measure(candidate, pipeline), policy, production)
    get_run_logger().info("The candidate is %s: %s", "promoted" if decision.promoted else "rejected", decision.reason)
    return decision


@task(name="promote", task_run_name="promote", **UNCACHED)
def promote(registry: Registry, decision: PromotionDecision, result: RunResult, stage: str, *, push: bool) -> Version | None:
    """Register and promote a candidate that passed the gate, and report the decision either way.

    Returns:
        The new version; ``None`` if the candidate was rejected.

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


def report(registry: Registry, decision: PromotionDecision, promoted: Version | None, commit: str) -> None:
    """Write the artifacts of Prefect, and emit ``tuneline.model.promoted`` or ``tuneline.model.rejected``."""
    artifact, link = registry.artifact, registry.repository.commit_page(commit)
    word = "promoted" if promoted else "rejected"
    create_markdown_artifact(as_markdown(decision, promoted, commit, link), key="promotion", description=f"{artifact}: {word}")
    if link:
        create_link_artifact(link, link_text=f"Commit {commit[:12]}", key="candidate", description="The run's commit")
    emit_event(
        event=f"tuneline.model.{word}",
        resource={"prefect.resource.id": f"tuneline.model.{artifact}", "prefect.resource.name": artifact, "tuneline.commit": commit},
        payload=as_payload(decision, promoted, commit),
    )


def as_markdown(decision: PromotionDecision, promoted: Version | None, commit: str, link: str | None) -> str:
    """Return the decision with a table of the criteria, for Prefect's UI."""
    production = decision.production
    model = f"[`{commit[:12]}`]({link})" if link else f"`{commit[:12]}`"
    title = f"# {promoted.name} is in production" if promoted else "# Not promoted"
    baseline = f"{production.name} (`{production.commit[:12]}`)" if production else "none; the baseline is the most frequent label"
    cells = ((one.name, one.value.replace("|", "\\|"), one.limit.replace("|", "\\|")) for one in decision.criteria)
    rows = [f"| {'✅' if one.met else '❌'} | {' | '.join(row)} |" for one, row in zip(decision.criteria, cells, strict=True)]
    table = ["| | criterion | value | required |", "|---|---|---|---|", *rows]
    return "\n".join([title, "", f"Candidate: {model}  ", f"In production before: {baseline}", "", *table])


def as_payload(decision: PromotionDecision, promoted: Version | None, commit: str) -> dict[str, Any]:
    """Return the decision as the JSON payload of an event."""
    gain = decision.gain
    return {
        "commit": commit,
        "version": promoted.name if promoted else None,
        "before": decision.production.name if decision.production else None,
        "reason": decision.reason,
        "metric": decision.metric,
        "candidate": gain.first,
        "production": gain.second,
        "difference": gain.value,
        "interval": [gain.low, gain.high],
        "mcnemar_p": decision.test.p if decision.test else None,
        "criteria": [asdict(one) for one in decision.criteria],
    }


def complete_unpushed(registry: Registry, settings: Settings, on_line: Callable[[str], None], *, besides: str) -> list[str]:
    """Complete the results that earlier runs could not push, ``besides`` that of a checkout. What fails is left for the next run.

    Returns:
        What was completed, in words.
    """
    repository, done = registry.repository, []
    for one in unpushed_results(repository):
        if one.checkout == besides:
            continue
        try:
            done.append(_complete(registry, settings, one, on_line))
        except BusyError:
            continue  # that run is in progress
        except Exception as error:
            too_old = one.age_in_days(repository, time.time()) > GIVE_UP_DAYS
            left = "It stays on its branch" if too_old else "The next run tries again"
            get_run_logger().error("The result of %s cannot be completed. %s. %s", one.run.name, left, error)
            if too_old:
                forget_unpushed(repository, one.checkout)
            if isinstance(error.__cause__, UnreachableError):
                break
    return [message for message in done if message]


def _complete(registry: Registry, settings: Settings, one: "UnpushedResult", on_line: Callable[[str], None]) -> str:
    repository = registry.repository
    with isolated(repository, one.checkout, one.spec.commit, one.spec.overrides) as found:
        kept = one.committed(repository) if one in unpushed_results(repository) else None
        if kept is None:  # a person removed the branch, or another run completed it
            forget_unpushed(repository, one.checkout)
            return ""
        get_run_logger().info("Completing the result of %s, %s, which is not pushed.", one.run.name, kept.name)
        checkout = replace(found, spec=one.spec)
        repository.git("reset", "--hard", "--quiet", kept.commit, cwd=checkout.path)
        programs = Programs(checkout.path, checkout.name, locks=[checkout.lock])
        pipeline = Pipeline(programs, on_line, settings.lock_wait_seconds)
        pipeline.restore(())
        result, version = finish(EndedRun(one.run, checkout, pipeline, registry, settings, one.promote, push=True))
        return f"{one.run.name} completed: {f'{version.name} in {settings.promotion.stage}' if version else result.branch or 'nothing new'}"


@dataclass(frozen=True)
class UnpushedResult:
    """A result that is committed in this clone while ``origin`` does not have it yet, or has not decided about it.

    Attributes:
        run: The Prefect run that made it; its branch is found by the run's id.
        checkout: Name of the run's checkout.
        spec: What the run computed.
        tree: Git tree of the result.
        promote: True if the result is to be judged.
    """

    run: Run
    checkout: str
    spec: RunSpec
    tree: str
    promote: bool

    def record(self, repository: Repository) -> None:
        """Record it, in place of that of an earlier attempt."""
        write_json(_unpushed_file(repository, self.checkout), _UNPUSHED.dump_python(self, mode="json"))

    def committed(self, repository: Repository) -> RunResult | None:
        """Return its commit; ``None`` if a person removed its branch."""
        if result := earlier_result(repository, self.run.id):
            return result
        unchanged = repository.git("rev-parse", f"{self.spec.commit}^{{tree}}") == self.tree
        return RunResult(self.spec.commit, None) if unchanged else None

    def age_in_days(self, repository: Repository, now: float) -> float:
        """Return the time since it was recorded."""
        return (now - _unpushed_file(repository, self.checkout).stat().st_mtime) / 86400


_UNPUSHED = TypeAdapter(UnpushedResult)


def _unpushed_file(repository: Repository, checkout: str) -> Path:
    return repository.state / f"{checkout}.unpushed"


def unpushed_results(repository: Repository) -> list[UnpushedResult]:
    """Return the recorded results, the oldest first. A file that cannot be read is removed: its result is on its branch all the same."""
    found = []
    for file in sorted(repository.state.glob("*.unpushed"), key=lambda path: path.stat().st_mtime):
        try:
            found.append(_UNPUSHED.validate_json(file.read_bytes()))
        except ValidationError:
            repository.log(f"{file} is damaged. What it recorded is on a branch runs/*, and is not pushed.")
            file.unlink()
    return found


def forget_unpushed(repository: Repository, checkout: str) -> None:
    """Remove the record of a result, if there is one."""
    _unpushed_file(repository, checkout).unlink(missing_ok=True)


@dataclass(frozen=True)
class Conditions:
    """What a decision depends on besides the result.

    Attributes:
        production: Commit of the model in production; ``None`` if there was none.
        policy: SHA-256 of the policy; ``None`` if no promotion was requested.
        pushed: True if the result was to be pushed.
    """

    production: str | None
    policy: str | None
    pushed: bool

    @classmethod
    def of(cls, ended: EndedRun) -> "Conditions":
        """Return the conditions of a run."""
        if ended.policy is None:
            return cls(None, None, ended.to_origin)
        production = ended.registry.in_stage(ended.policy.stage)
        policy = hashlib.sha256(ended.policy.conditions().encode()).hexdigest()
        return cls(production.commit if production else None, policy, ended.to_origin)

    def covers(self, later: "Conditions") -> bool:
        """Return True if a decision under these conditions answers for a run under ``later`` ones."""
        judged = later.policy is None or (self.production, self.policy) == (later.production, later.policy)
        return judged and self.pushed >= later.pushed


@dataclass(frozen=True)
class Judgement:
    """A result that was judged.

    Attributes:
        run: Id of the Prefect run.
        result: Its commit and branch.
        conditions: Conditions of the decision.
        seen: Unix time at which a later run last came to the same result.
    """

    run: str
    result: RunResult
    conditions: Conditions
    seen: float = 0


_JUDGEMENTS = TypeAdapter(dict[str, Judgement])


class Judgements:
    """The judgements of a clone, by git tree. The caller holds the registry's lock.

    Args:
        repository: The clone.
    """

    def __init__(self, repository: Repository) -> None:
        self._file = repository.state / "judgements.json"

    def find(self, tree: str) -> Judgement | None:
        """Return the last judgement of a result."""
        return self._read().get(tree)

    def add(self, tree: str, judgement: Judgement) -> None:
        """Remember a judgement in place of an earlier one of the same result."""
        known = self._read()
        known.pop(tree, None)  # the latest are kept
        known[tree] = judgement
        write_json(self._file, {key: asdict(known[key]) for key in list(known)[-REMEMBERED:]})

    def renew(self, tree: str) -> None:
        """Note that another run has come to a result that was judged: flow ``clean`` keeps its branch."""
        if judgement := self.find(tree):
            self.add(tree, replace(judgement, seen=time.time()))

    def commits_since(self, since: float) -> set[str]:
        """Return the commits of results that a later run came to at or after a Unix time."""
        return {judgement.result.commit for judgement in self._read().values() if judgement.seen >= since}

    def _read(self) -> dict[str, Judgement]:
        """Return the content of the file; nothing if it is missing or damaged."""
        try:
            return _JUDGEMENTS.validate_json(self._file.read_bytes())
        except (FileNotFoundError, ValidationError):
            return {}
