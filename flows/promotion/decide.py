"""The end of a run, from top to bottom: its result is committed, pushed, judged against production, and promoted if it is better.

A result that is to be pushed is committed in this clone before ``origin`` is asked anything. If a git host or
the DVC remote is away, or the process is killed, it stays on its branch, recorded in ``CHECKOUT.unpushed`` in
the repository's folder of states; the next run pushes it and decides about its model. The DVC remote gets the
weights of a model that is promoted only: others can be made again.

A result that was judged before, under the same conditions, is nothing new: nothing is pushed, and no branch
is left. Judgements are in ``judgements.json``, by the git tree of the result. A file of this clone and not of
the commits: a run that changes nothing makes no commit, and a branch may be deleted. Without the file, a
result is judged once more.
"""

import contextlib
import hashlib
import time
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from prefect import get_run_logger, task
from pydantic import TypeAdapter, ValidationError

from flows.promotion.gate import PromotionDecision, gate, report
from flows.promotion.production import push_versions
from flows.promotion.registry import ConflictError, Registry
from flows.promotion.take_over import take_over
from flows.runs.checkout import Checkout, RunSpec
from flows.runs.commits import Run, RunResult, commit_run, earlier_result
from flows.runs.pipeline import UNCACHED, Pipeline, push_artifacts
from flows.runs.processes import ProgramError
from flows.runs.repository import Repository, UnreachableError
from flows.settings import PromotionPolicy, Settings
from tuneline.core.atomic_files import write_json
from tuneline.project.dvc import read_lock
from tuneline.project.registry import Version
from tuneline.project.repo import artifact_path
from tuneline.project.worktrees import GitError

PROMOTION_WAIT = 900.0
"""Seconds to wait for the promotion of another run: each candidate is compared with the one promoted before it."""
ATTEMPTS = 3
"""Times that the gate runs if other machines promote models in the meantime."""
REMEMBERED = 1000
"""Number of judgements that are kept."""
UNDECIDED = "Not decided: origin has not been asked yet."

RunOutcome = tuple[RunResult, Version | None]
"""The run's result, and the new version if its model was promoted."""


class NotPushedError(Exception):
    """A result is not in ``origin``, or not all of it is: the next run completes it."""


@dataclass(frozen=True)
class EndedRun:
    """A run whose stages have ended.

    Without ``promote``, its result is only committed. ``push`` pushes artifacts to the DVC remote, and commit
    and tags to ``origin``, if there is one.
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
        """Git tree of what the run's commit contains: the same for two runs with the same result."""
        self.repository.git("add", "--all", cwd=self.checkout.path)
        return self.repository.git("write-tree", cwd=self.checkout.path)


def finish(ended: EndedRun) -> RunOutcome:
    """Commit the result of a run, push it, decide about its model, promote it, and take it over into a branch where the policy says so.

    Raises:
        NotPushedError: The result is on its branch in this clone, and is not pushed.
        ConflictError: Other machines promoted models during every attempt.
    """
    locked, branch = partial(ended.registry.locked, PROMOTION_WAIT), ""
    try:
        with locked():
            known = known_outcome(ended)  # as far as this clone knows, which asked origin when the run began
            if ended.push and not known:
                branch = commit_undecided(ended)
        if ended.push and not known:
            push_artifacts(ended.pipeline, weights=False)  # takes long, so without the lock
        with locked():
            result, version = known or judge_and_promote(ended)
            if version and (
                message := take_over(ended.registry, ended.settings.promotion, version, push=ended.push)
            ):
                get_run_logger().info(message)
    except (GitError, ProgramError) as error:
        if not ended.push:
            raise
        message = f"The result is on {branch} in this clone; the next run completes what origin lacks."
        raise NotPushedError(f"{message}\n{error}") from error
    forget_unpushed(ended.repository, ended.checkout.name)
    return result, version


def known_outcome(ended: EndedRun) -> RunOutcome | None:
    """Return the outcome if an attempt of the run was promoted, or the same result was judged before; else ``None``."""
    if promoted := promoted_before(ended):
        return promoted
    judged = judged_before(ended)
    return nothing_new(ended, judged) if judged else None


def commit_undecided(ended: EndedRun) -> str:
    """Commit and record a result, once, also if an earlier attempt or another run that is not pushed either had it; return its name."""
    repository, checkout, run = ended.repository, ended.checkout, ended.run
    tree = ended.tree
    for unpushed_result in unpushed_results(repository):
        if unpushed_result.tree == tree and (known := unpushed_result.committed(repository)):
            return known.name
    result = earlier_result(repository, run.id)
    if result is None or repository.git("rev-parse", f"{result.commit}^{{tree}}") != tree:
        result = commit_run(repository, checkout, run, UNDECIDED)
    UnpushedResult(run, checkout.name, checkout.spec, tree, ended.promote).record(repository)
    return result.name


def promoted_before(ended: EndedRun) -> RunOutcome | None:
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
    known = (
        ended.policy
        and judgement.conditions.pushed >= ended.to_origin
        and _known_version(ended, ended.policy)
    )
    return judgement if known else None


def nothing_new(ended: EndedRun, judged: "Judgement") -> RunOutcome:
    """Leave no trace of a result that was judged before, except that it is still current."""
    get_run_logger().info("Nothing new: this result was judged before, see %s.", judged.result.name)
    # Flow `clean` keeps the branch of a result that another run has come to.
    Judgements(ended.repository).add(ended.tree, replace(judged, seen=time.time()))
    if (result := earlier_result(ended.repository, ended.run.id)) and result.branch:
        with contextlib.suppress(GitError):  # a person has it checked out
            ended.repository.git("branch", "--delete", "--force", result.branch)
    return RunResult(judged.result.commit, None), None


def judge_and_promote(ended: EndedRun) -> RunOutcome:
    """Decide about the candidate, commit the run with the decision, push, and promote a candidate that passes.

    The caller holds the registry's lock, so that runs of one machine are promoted one after the other.

    Raises:
        ConflictError: Other machines promoted models during every attempt.
        GitError: ``origin`` refused the push, or cannot be reached.
    """
    for change in ended.registry.refresh(push=ended.push):
        get_run_logger().warning(change)
    if ended.push:
        push_versions(ended.pipeline, ended.registry.unpublished())
    if known := known_outcome(ended):
        return known
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(ConflictError):  # the registry is that of origin now
            return _attempt(ended)
    return _attempt(ended)


def _attempt(ended: EndedRun) -> RunOutcome:
    registry, policy, conditions = ended.registry, ended.policy, Conditions.of(ended)
    decision: PromotionDecision | str = "No promotion was requested."
    if policy and (known := _known_version(ended, policy)):
        decision = (
            f"The model is identical to {known.name}, which is or was in {policy.stage}: the gate is not run"
            " again."
        )
        get_run_logger().info(decision)
    elif policy:
        decision = gate(ended.pipeline, registry, policy)
        if decision.promoted and ended.push:
            push_artifacts(
                ended.pipeline, weights=True
            )  # before the tags: they name what everybody can fetch
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
    withheld = (
        isinstance(decision, PromotionDecision) and decision.withheld
    )  # to be decided again after the hold
    conditions = conditions if withheld else replace(conditions, hold=None)
    Judgements(ended.repository).add(ended.tree, Judgement(ended.run.id, result, conditions))
    return result, version


def _known_version(ended: EndedRun, policy: PromotionPolicy) -> Version | None:
    """Return the version, now or once in the stage, with the candidate's bytes: the next run must not undo a rollback."""
    root = ended.checkout.path
    model = read_lock(root).out(artifact_path(root, ended.registry.artifact))
    versions = {version.commit: version for version in ended.registry.tags().ever_in(policy.stage)}
    if not (model and versions):
        return None
    with contextlib.suppress(
        GitError
    ):  # none has it. One program for all versions: each night, there may be one more
        found = ended.repository.git(
            "grep", "--name-only", "--fixed-strings", "-e", model, *versions, "--", "dvc.lock"
        )
        return versions[found.partition(":")[0]]
    return None


@task(name="promote", task_run_name="promote", **UNCACHED)
def promote(
    registry: Registry, decision: PromotionDecision, result: RunResult, stage: str, *, push: bool
) -> Version | None:
    """Register and promote a candidate that passed the gate, and report the decision either way; return the new version, if any.

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


@dataclass(frozen=True)
class UnpushedResult:
    """A result that is committed in this clone while ``origin`` does not have it yet, or has not decided about it.

    It has the name of the run's checkout, and the git tree of the result, whose branch is found by the run's
    id.
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
    """Return the recorded results, the oldest first.

    A file that cannot be read is removed: its result is on its branch all the same.
    """
    results = []
    for file in sorted(repository.state.glob("*.unpushed"), key=lambda path: path.stat().st_mtime):
        try:
            results.append(_UNPUSHED.validate_json(file.read_bytes()))
        except ValidationError:
            repository.log(f"{file} is damaged. What it recorded is on a branch runs/*, and is not pushed.")
            file.unlink()
    return results


def forget_unpushed(repository: Repository, checkout: str) -> None:
    """Remove the record of a result, if there is one."""
    _unpushed_file(repository, checkout).unlink(missing_ok=True)


@dataclass(frozen=True)
class Conditions:
    """What a decision depends on besides the result: the commit in production, and the policy's SHA-256 (``None``: promote nothing).

    ``hold`` is the hold that stops promotions, or, of a decision, the one that alone stopped this one.
    """

    production: str | None
    policy: str | None
    pushed: bool
    hold: str | None = None

    @classmethod
    def of(cls, ended: EndedRun) -> "Conditions":
        """Return the conditions of a run."""
        if ended.policy is None:
            return cls(None, None, ended.to_origin)
        production = ended.registry.in_stage(ended.policy.stage)
        policy = hashlib.sha256(ended.policy.conditions().encode()).hexdigest()
        return cls(
            production.commit if production else None,
            policy,
            ended.to_origin,
            ended.registry.tags().hold(ended.policy.stage),
        )

    def covers(self, later: "Conditions") -> bool:
        """Return True if a decision under these conditions answers for a run under ``later`` ones."""
        judged = later.policy is None or (self.production, self.policy) == (later.production, later.policy)
        still_held = later.policy is None or self.hold in (None, later.hold)
        return judged and still_held and self.pushed >= later.pushed


@dataclass(frozen=True)
class Judgement:
    """A result that the run with an id was judged for; ``seen`` is the Unix time at which a later run last came to the same result."""

    run: str
    result: RunResult
    conditions: Conditions
    seen: float = 0


_JUDGEMENTS = TypeAdapter(dict[str, Judgement])


class Judgements:
    """The judgements of a clone, by git tree. The caller holds the registry's lock."""

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

    def commits_since(self, since: float) -> set[str]:
        """Return the commits of results that a later run came to at or after a Unix time."""
        return {judgement.result.commit for judgement in self._read().values() if judgement.seen >= since}

    def _read(self) -> dict[str, Judgement]:
        """Return the content of the file; nothing if it is missing or damaged."""
        try:
            return _JUDGEMENTS.validate_json(self._file.read_bytes())
        except (FileNotFoundError, ValidationError):
            return {}
