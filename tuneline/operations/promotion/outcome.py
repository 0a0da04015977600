"""The outcome of a run, from top to bottom: its result is judged, committed, pushed, and perhaps promoted.

The DVC remote gets the data of a result before ``origin`` gets its commit, and the weights only of a model
that is promoted: others can be made again. If one of them cannot be reached, the result stays on its branch
in this clone, and the next run that comes to it decides.

A result that was judged before, under the same conditions, is nothing new. The branches ``runs/*`` tell: the
message of a result has the decision, and a hash of what it depended on.
"""

import contextlib
import hashlib
from dataclasses import dataclass

from prefect import get_run_logger, task

from tuneline.core.paths import ONNX
from tuneline.core.repository.dvc import read_lock
from tuneline.core.repository.git import GitError
from tuneline.core.repository.programs import ProgramError
from tuneline.core.repository.promoted_models import PRODUCTION_STAGE
from tuneline.core.repository.registry import Version, decision_in
from tuneline.core.settings import Settings
from tuneline.operations.promotion.gate import PromotionDecision, gate, report
from tuneline.operations.promotion.registry import ConflictError, Registry
from tuneline.operations.runs.checkout import Checkout
from tuneline.operations.runs.commits import CONDITIONS_TRAILER, Run, RunResult, commit_run, earlier_result
from tuneline.operations.runs.pipeline import UNCACHED, Pipeline, push_artifacts
from tuneline.operations.runs.repository import Repository

PROMOTION_WAIT = 3600.0
"""Seconds to wait for the promotion of another run, with whose model the candidate is then compared."""
ATTEMPTS = 3
"""Times that the gate runs if other machines promote models in the meantime."""
UNDECIDED = "Not decided: it is not pushed. The next run that comes to this result decides."

RunOutcome = tuple[RunResult, Version | None]
"""The run's result, and the new version if its model was promoted."""


class NotPushedError(Exception):
    """A result is not in ``origin``, or not all of it is."""


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
    def to_origin(self) -> bool:
        """True if commit and tags are pushed."""
        return self.push and self.repository.has_remote()

    @property
    def conditions(self) -> str:
        """Hash of what a decision depends on besides the result."""
        production = self.registry.production()
        text = f"{self.settings.promotion.model_dump_json()} {production.commit if production else None}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def finish(ended: EndedRun) -> RunOutcome:
    """Decide about the result of a run, commit and push it, and promote the model if it is better.

    The lock of the registry is held, so that runs of one machine are promoted one after the other.

    Raises:
        NotPushedError: The result is on its branch in this clone, and is not pushed.
        ConflictError: Other machines promoted models during every attempt.
    """
    with ended.registry.locked(PROMOTION_WAIT):
        try:
            if ended.push:
                ended.registry.fetch()
            outcome = known_outcome(ended)
            if outcome is not None:
                return outcome
            if ended.push:
                push_artifacts(ended.pipeline, weights=False)
            for _ in range(ATTEMPTS - 1):
                with contextlib.suppress(ConflictError):  # the tags are the tags of origin now: try again
                    return _attempt(ended)
            return _attempt(ended)
        except (GitError, ProgramError) as error:
            if not ended.push:
                raise
            # What is committed stays as it is: origin may have accepted it.
            result = earlier_result(ended.repository, ended.run.id)
            if result is None:
                result = commit_run(ended.repository, ended.checkout, ended.run, UNDECIDED)
            where = result.branch or result.commit[:12]
            raise NotPushedError(
                f"The result is on {where} in this clone, and is not pushed: the next run that comes to it"
                f" decides.\n{error}"
            ) from error


def known_outcome(ended: EndedRun) -> RunOutcome | None:
    """Return the outcome if it needs no decision; else ``None``.

    It needs none if an attempt of the run was promoted, or if the same result was judged before.
    """
    own = earlier_result(ended.repository, ended.run.id)
    version = ended.registry.tags().version_of(own.commit) if own else None
    if own is not None and version is not None and ended.promote:
        get_run_logger().info("An earlier attempt of this run promoted %s.", version.name)
        return own, version
    for commit in _same_results(ended):
        if _is_decided(ended, commit):
            get_run_logger().info("Nothing new: this result was judged before, see %s.", commit[:12])
            return RunResult(commit, None), None
    return None


def _same_results(ended: EndedRun) -> list[str]:
    """Return the commits with the files of this run's result: of other runs, and the one that was run.

    With a push to ``origin``, only what it has counts.
    """
    git = ended.repository.git
    path = ended.checkout.path
    git("add", "--all", cwd=path)
    tree = git("write-tree", cwd=path)
    refs = "refs/remotes/origin/runs" if ended.to_origin else "refs/heads/runs"
    lines = git("for-each-ref", "--format=%(tree) %(objectname)", refs).splitlines()
    commits = [line.split()[1] for line in lines if line.startswith(tree)]
    start = ended.checkout.commit
    if git("rev-parse", f"{start}^{{tree}}") == tree:
        commits.append(start)
    return commits


def _is_decided(ended: EndedRun, commit: str) -> bool:
    """Return True if a decision about a commit holds for a run that ends now."""
    if not ended.promote or ended.registry.tags().version_of(commit) is not None:
        return True
    production = ended.registry.production()
    message = ended.repository.git("log", "-1", "--format=%B", commit)
    decision = decision_in(message)
    if f"{CONDITIONS_TRAILER}: " not in message:
        # A run that changed nothing has made no commit: the history of the gate has its decision.
        name = production.name if production else ""
        pairs = {(entry.commit, entry.production, entry.outcome) for entry in ended.registry.decisions()}
        return (commit, name, "rejected") in pairs
    if f"{CONDITIONS_TRAILER}: {ended.conditions}" not in message:
        return False
    if decision == "withheld":
        return ended.registry.on_hold() is not None
    return decision != "promoted"  # without a tag, the promotion failed


def _attempt(ended: EndedRun) -> RunOutcome:
    """Decide about the candidate once, commit the run with the decision, push, and promote if it passes."""
    conditions = ""
    decision: PromotionDecision | str = "No promotion was requested."
    if ended.promote:
        conditions = ended.conditions
        decision = _decided_before(ended) or gate(ended.pipeline, ended.registry, ended.settings.promotion)
    result = commit_run(ended.repository, ended.checkout, ended.run, str(decision), conditions)

    if isinstance(decision, str):
        get_run_logger().info(decision)
        if ended.to_origin:
            ended.registry.publish(result.refs)
        return result, None
    if decision.entry is not None:
        # Before the push: what was tested is used up, also if another machine was first.
        ended.registry.remember(decision.entry.model_copy(update={"commit": result.commit}))
    if decision.promoted and ended.push:
        # Before the tags, which name what everybody can fetch.
        push_artifacts(ended.pipeline, weights=True)
    version = promote(ended, decision, result)
    return result, version


def _decided_before(ended: EndedRun) -> str | None:
    """Return that the model has the bytes of one that was promoted before; ``None`` if it has not.

    The next run must not undo a rollback, or what a person took back, by promoting the same model again.
    """
    root = ended.checkout.path
    model = read_lock(root).out(ONNX.as_posix())
    # A hold before the first promotion is on a commit that nobody promoted.
    tags = ended.registry.tags().tags
    commits = {tag.commit for tag in tags if tag.version or tag.stage == PRODUCTION_STAGE}
    if not model or not commits:
        return None

    # One program for all versions: each night, there may be one more.
    with contextlib.suppress(GitError):  # git grep fails if no commit has the model
        matches = ended.repository.git(
            "grep", "--name-only", "--fixed-strings", "-e", model, *commits, "--", "dvc.lock"
        )
        commit = matches.partition(":")[0]
        return f"The model is that of {commit[:12]}, which was promoted before: the gate is not run again."
    return None


@task(name="promote", task_run_name="promote", **UNCACHED)
def promote(ended: EndedRun, decision: PromotionDecision, result: RunResult) -> Version | None:
    """Register and promote a candidate that passed the gate, and report the decision either way.

    Returns:
        The new version; ``None`` if the candidate did not pass.

    Raises:
        ConflictError: Another machine promoted a model in the meantime; nothing was changed.
        GitError: ``origin`` refused the push, or cannot be reached.
    """
    registry = ended.registry
    version = None
    if decision.promoted:
        version = registry.promote(result.commit, str(decision), refs=result.refs, push=ended.to_origin)
        get_run_logger().info("%s is in production", version.name)
    elif ended.to_origin:
        registry.publish(result.refs)
    report(decision, version, result.commit)
    return version
