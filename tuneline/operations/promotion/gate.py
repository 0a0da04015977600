"""The promotion gate: a candidate and the model in production on the same rows, and the decision.

Each decision uses up a part of the error budget of a year
(``tuneline/operations/promotion/error_budget.py``): a larger one if the candidate is also better on the
validation rows.
"""

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
from prefect import get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.events import emit_event

from tuneline.core.params.loading import read_yaml
from tuneline.core.paths import ONNX, PARAMS, RAW
from tuneline.core.repository.dvc import read_lock
from tuneline.core.repository.promoted_models import ARTIFACT
from tuneline.core.repository.registry import Version
from tuneline.core.settings import PromotionPolicy
from tuneline.core.stage.tables import SplitReader
from tuneline.judge.metrics.stats import Difference
from tuneline.judge.metrics.table import METRIC_TABLE, primary_metric, project_metric
from tuneline.model.linear.estimators import constant_prediction
from tuneline.model.tasks import Task
from tuneline.operations.criteria import Criterion
from tuneline.operations.experiments.paired import McNemar, PairedComparison
from tuneline.operations.promotion.error_budget import ErrorBudget, GateEntry
from tuneline.operations.promotion.evidence import (
    PairedPredictions,
    check_guards,
    paired_predictions,
    reported_split,
    validation_predictions,
)
from tuneline.operations.promotion.registry import Registry
from tuneline.operations.runs.pipeline import UNCACHED, Pipeline

CONFIDENCE = 0.95
"""Level of the paired bootstrap interval that is shown, and of the tests of the first model."""
GATE_RESAMPLES = 5000
"""Resamples of the bootstrap; of metrics without an exact test more, for the level of a night."""
TAIL_RESAMPLES = 20
"""Resamples of the bootstrap that are beyond the end of an interval which decides, on average."""
HOLD_CRITERION = "hold"
"""Name of the criterion that a person sets (``python -m flows.promotion hold``); it comes first."""


@dataclass(frozen=True)
class PromotionDecision:
    """The decision about a candidate, with its reasons.

    Attributes:
        gain: The metric of the candidate and of the baseline, with the confidence interval of their
            difference.
        production: The version that the candidate was compared with; ``None`` if none was in production.
        entry: What the history of the registry keeps of it; ``None`` if none was in production.
    """

    criteria: tuple[Criterion, ...]
    metric: str
    gain: Difference
    production: Version | None = None
    entry: GateEntry | None = None

    @property
    def unmet(self) -> list[Criterion]:
        """The criteria that are not met."""
        return [criterion for criterion in self.criteria if not criterion.met]

    @property
    def promoted(self) -> bool:
        """True if every criterion is met."""
        return not self.unmet

    @property
    def withheld(self) -> bool:
        """True if nothing but a hold stops the promotion."""
        return [criterion.name for criterion in self.unmet] == [HOLD_CRITERION]

    @property
    def outcome(self) -> str:
        """The decision in one word."""
        if self.promoted:
            return "promoted"
        if self.withheld:
            return "withheld"
        return "rejected"

    @property
    def reason(self) -> str:
        """The criteria that are not met, in one line."""
        if self.withheld:
            return f"every other criterion is met, but {self.criteria[0].value}"
        return "; ".join(map(str, self.unmet)) or "every criterion is met"

    def __str__(self) -> str:
        """Return the decision and every criterion, for a commit message."""
        baseline = "nothing in production yet"
        if self.production:
            baseline = f"{self.production.name} in production"
        head = f"{self.outcome.capitalize()} ({baseline}): {self.reason}."
        lines = [head, ""]
        for criterion in self.criteria:
            sign = "+" if criterion.met else "x"
            lines.append(f"- {sign} {criterion.name}: {criterion.value} (required: {criterion.limit})")
        return "\n".join(lines)


def decide_promotion(
    predictions: PairedPredictions,
    guards: Sequence[Criterion],
    policy: PromotionPolicy,
    production: Version | None = None,
    deciding: str | None = None,
    *,
    budget: ErrorBudget | None = None,
) -> PromotionDecision:
    """Compare the candidate with the model in production, or with the majority baseline if there is none.

    ``guards`` are the criteria from ``check_guards``. ``deciding`` is ``train.metric`` of the project.
    ``budget`` is what is left of the year's error probability; ``None``: no candidate was judged on these
    rows yet. The first model uses up nothing: it is tested once.
    """
    candidate = predictions.candidate
    task = candidate.task
    metric = project_metric(task.judged_as, deciding).name
    has_test = _has_test(task, metric)

    # comparison
    baseline = predictions.production
    if baseline is None:
        # the best predictions without the text
        constant = constant_prediction(task, [candidate.labels])
        baseline = np.full_like(candidate.labels, constant)
        budget = None
    elif budget is None:
        budget = ErrorBudget.of_year((), "", time.time(), policy)
    confidence = CONFIDENCE
    metrics = [METRIC_TABLE[metric]]
    compared = PairedComparison.of(candidate, baseline, metrics, level=confidence, resamples=GATE_RESAMPLES)
    gain = compared.differences[metric]
    interval_decides = not has_test or policy.min_gain < 0
    if budget is not None and budget.level > 0 and interval_decides and gain.low > policy.min_gain:
        # The end of a wider interval takes many resamples: a candidate that fails the usual one needs none.
        confidence = max(confidence, 1 - 2 * budget.level)
        resamples = max(GATE_RESAMPLES, math.ceil(TAIL_RESAMPLES / budget.level))
        compared = PairedComparison.of(candidate, baseline, metrics, level=confidence, resamples=resamples)
        gain = compared.differences[metric]

    # criteria, in the order in which people read them
    criteria = []
    if predictions.incomparable:
        criteria.append(
            Criterion("comparison with production", predictions.incomparable, "possible", met=False)
        )
    rows = "rows of the reported split"
    number = candidate.independent_rows
    if number < len(candidate):
        rows = f"independent {rows}"
    limit = f">= {policy.min_rows:,}"
    criteria.append(Criterion(rows, f"{number:,}", limit, met=number >= policy.min_rows))
    criteria.append(_gain(gain, metric, predictions, policy, confidence))
    if has_test and compared.test is not None:
        criteria.append(_significance(compared.test, policy, budget))
    if budget is not None:
        criteria.append(_budget_left(budget))
    criteria += guards
    return PromotionDecision(tuple(criteria), metric, gain, production)


def _has_test(task: Task, metric: str) -> bool:
    """Return True if McNemar's test is about the metric that decides.

    It counts rows that are right, which a model with a better F1 may have fewer of.
    """
    return task.one_class and metric == primary_metric(task.judged_as).name


def validation_p_value(
    validation: PairedPredictions | None, policy: PromotionPolicy, deciding: str | None = None
) -> float | None:
    """Return the one-sided p-value of a candidate that is no better than production on its validation rows.

    It sets the level of the candidate and decides nothing, so an approximation is good enough where no exact
    test is about the metric: the interval of the difference, taken as a normal distribution's.

    Returns:
        ``None`` if it is not known: there are no such predictions, or production cannot predict the rows.
    """
    if validation is None or validation.production is None or not len(validation.candidate):
        return None
    task = validation.candidate.task
    metric = project_metric(task.judged_as, deciding).name
    compared = PairedComparison.of(
        validation.candidate,
        validation.production,
        [METRIC_TABLE[metric]],
        level=CONFIDENCE,
        resamples=GATE_RESAMPLES,
    )
    test = compared.test
    if test is not None and policy.min_gain >= 0 and _has_test(task, metric):
        if test.first_only > test.second_only:
            return test.p / 2
        return 1 - test.p / 2

    gain = compared.differences[metric]
    above = gain.value - policy.min_gain
    standard_error = (gain.high - gain.low) / (2 * NormalDist().inv_cdf((1 + CONFIDENCE) / 2))
    if not math.isfinite(above) or not math.isfinite(standard_error):
        return None
    if standard_error == 0:  # models that differ in no row
        return 0.0 if above > 0 else 1.0
    return NormalDist().cdf(-above / standard_error)


def _gain(
    gain: Difference,
    metric: str,
    predictions: PairedPredictions,
    policy: PromotionPolicy,
    confidence: float,
) -> Criterion:
    """Require that the whole confidence interval of the gain is above the policy's smallest gain."""
    over = "production"
    if predictions.production is None:
        over = "the majority"
    value = f"{gain.first:.4f} - {gain.second:.4f} = {gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"
    required = f"all of the {100 * confidence:.6g}% interval > {policy.min_gain:+g}"
    is_above = gain.low > policy.min_gain
    return Criterion(f"{metric} over {over}", value, required, met=is_above)


def _significance(test: McNemar, policy: PromotionPolicy, budget: ErrorBudget | None) -> Criterion:
    """Require a significantly better candidate, or no significantly worse one if the policy allows a loss.

    The test against production is one-sided, at the level that the budget has for this candidate. The test of
    the first model is two-sided.
    """
    is_better = test.first_only > test.second_only
    p_value = test.p
    alpha = 1 - CONFIDENCE
    required = f"p < {alpha:.2g}, candidate better"
    met = test.p < alpha and is_better
    if policy.min_gain < 0:
        required = "not significantly worse"
        met = test.p >= alpha or is_better
    elif budget is not None:
        if is_better:
            p_value = test.p / 2
        required = f"p <= {budget.level:.2g}, one-sided, candidate better"
        met = p_value <= budget.level and is_better
    value = (
        f"p = {p_value:.2g} (rows that only one predicts correctly: candidate {test.first_only}, baseline"
        f" {test.second_only})"
    )
    return Criterion("McNemar's test", value, required, met)


def _budget_left(budget: ErrorBudget) -> Criterion:
    """Require that the year's error probability is not used up."""
    reason = "an equal part, without validation rows"
    if budget.is_repeated:
        reason = "as the first time that these two models were compared"
    elif budget.validation_p is not None:
        reason = f"by p = {budget.validation_p:.2g} on the validation rows"
    value = (
        f"{budget.level:.2g} for this candidate, {reason}; {len(budget.entries)} candidates within a year"
        f" have used up {budget.spent:.2g} of {budget.total:g}"
    )
    return Criterion("error budget", value, "some of it left", met=budget.level > 0)


def train_metric(root: Path) -> str | None:
    """Return ``train.metric`` of a checkout; ``None`` if it has no parameters."""
    if not (root / PARAMS).exists():
        return None
    params = read_yaml(root / PARAMS) or {}
    metric = params.get("train", {}).get("metric")
    return None if metric is None else str(metric)


def reported_rows_hash(root: Path, split: str) -> str:
    """Return the SHA-256 of the rows of a raw split, of all of its files; of nothing without a raw split."""
    digest = hashlib.sha256()
    if (root / RAW).exists():
        for path in SplitReader.open(root / RAW, split, made_by="download").paths:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _entry(decision: PromotionDecision, budget: ErrorBudget, production: Version) -> GateEntry:
    """Return what the history keeps of a decision."""
    return GateEntry(
        time=time.time(),
        rows_hash=budget.rows_hash,
        candidate=budget.candidate,
        production=production.name,
        level=budget.cost,
        outcome=decision.outcome,
        validation_p=budget.validation_p,
    )


@task(name="gate", task_run_name="gate", **UNCACHED)
def gate(pipeline: Pipeline, registry: Registry, policy: PromotionPolicy) -> PromotionDecision:
    """Compare the candidate with the model in production, on the same rows."""
    decision = judge_candidate(pipeline, registry, policy)
    get_run_logger().info("The candidate is %s: %s", decision.outcome, decision.reason)
    return decision


def judge_candidate(pipeline: Pipeline, registry: Registry, policy: PromotionPolicy) -> PromotionDecision:
    """Decide about the candidate in the pipeline's checkout, with what the history of the gate has left."""
    checkout = pipeline.programs.cwd
    root = registry.repository.root

    # what both models predict, and what is left of the year's error probability on these rows
    production = registry.production()
    predictions = paired_predictions(pipeline, root, production)
    # from the folder of the flows, as the policy: a candidate cannot change its own gate
    deciding = train_metric(root)
    budget = None
    guards: list[Criterion] = []
    if production is not None and predictions.production is not None:
        validation = validation_predictions(pipeline, root, production)
        if validation is not None and validation.incomparable:
            pipeline.on_line(f"The validation rows are not compared: {validation.incomparable}")
        validation_p = validation_p_value(validation, policy, deciding)
        rows_hash = reported_rows_hash(checkout, reported_split(checkout))
        budget = ErrorBudget.of_year(registry.decisions(), rows_hash, time.time(), policy, validation_p)
        model = read_lock(checkout).out(ONNX.as_posix())
        budget = budget.of_pair(model or "", production.name)
        guards = check_guards(checkout, predictions, policy.guards)
    decision = decide_promotion(predictions, guards, policy, production, deciding, budget=budget)

    # A hold is a criterion of its own: the log says what would have been promoted without it.
    hold = registry.on_hold()
    if hold:
        criterion = Criterion(HOLD_CRITERION, hold, "none", met=False)
        decision = replace(decision, criteria=(criterion, *decision.criteria))
    if budget is not None and production is not None:
        decision = replace(decision, entry=_entry(decision, budget, production))
    return decision


def report(decision: PromotionDecision, promoted: Version | None, commit: str) -> None:
    """Write the artifact of Prefect, and emit ``tuneline.model.promoted`` or ``tuneline.model.rejected``."""
    word = "promoted" if promoted else "rejected"
    title = "Not promoted"
    if promoted:
        title = f"{promoted.name} is in production"
    markdown = f"# {title}\n\nCandidate: `{commit[:12]}`\n\n{decision}"
    create_markdown_artifact(markdown, key="promotion", description=f"{ARTIFACT}: {word}")
    emit_event(
        event=f"tuneline.model.{word}",
        resource={
            "prefect.resource.id": f"tuneline.model.{ARTIFACT}",
            "prefect.resource.name": ARTIFACT,
            "tuneline.commit": commit,
        },
        payload={
            "commit": commit,
            "version": promoted.name if promoted else None,
            "before": decision.production.name if decision.production else None,
            "reason": decision.reason,
            "metric": decision.metric,
            "difference": decision.gain.value,
        },
    )
