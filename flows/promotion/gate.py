"""The promotion gate: decides whether a candidate replaces the model in production. Pure functions, no input or output."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.settings.promotion import PromotionPolicy
from tuneline.metrics import METRIC_TABLE, Task, metrics_for, primary_metric
from tuneline.stats import Difference, mcnemar_p_value, paired_difference


@dataclass(frozen=True)
class Predictions:
    """Predictions for the rows of the candidate's reported split.

    Attributes:
        labels: Class ids or numbers, shape ``(rows,)``.
        candidate: Predictions of the candidate, same shape.
        production: Predictions of the model in production, same shape; ``None`` if there is none.
        names: Class names; ``None`` for a regression.
        incomparable: Reason why the model in production cannot predict these rows; ``None`` if it can.
    """

    labels: NDArray[Any]
    candidate: NDArray[Any]
    production: NDArray[Any] | None
    names: tuple[str, ...] | None
    incomparable: str | None = None


@dataclass(frozen=True)
class Measurements:
    """Other measurements of the candidate; ``None`` where a value is missing.

    Attributes:
        agreement: Share of rows for which ``model.onnx`` and the trained model predict the same.
        max_abs_diff: Largest absolute difference of a logit between the two.
        checks_passed: True if the data checks passed.
        megabytes: Size of ``model.onnx`` with its external data.
        latency_ms: Milliseconds for one row, 95th percentile.
    """

    agreement: float | None
    max_abs_diff: float | None
    checks_passed: bool | None
    megabytes: float | None
    latency_ms: float | None


@dataclass(frozen=True)
class Criterion:
    """One condition of a promotion.

    Attributes:
        name: Name of the measured quantity.
        value: The measured value, as text.
        limit: The required value, as text.
        met: True if the value is within the limit.
    """

    name: str
    value: str
    limit: str
    met: bool


@dataclass(frozen=True)
class McNemar:
    """Result of McNemar's test of two classifiers.

    Attributes:
        candidate_only: Rows that only the candidate predicts correctly.
        baseline_only: Rows that only the other model does.
        p: Two-sided, exact.
    """

    candidate_only: int
    baseline_only: int
    p: float


@dataclass(frozen=True)
class Decision:
    """The decision about a candidate, with its reasons.

    Attributes:
        criteria: All criteria; the candidate is promoted if every one is met.
        metric: Name of the compared metric.
        gain: The metric of the candidate and of the baseline, with the confidence interval of their difference.
        test: McNemar's test; ``None`` for a regression.
    """

    criteria: tuple[Criterion, ...]
    metric: str
    gain: Difference
    test: McNemar | None

    @property
    def promoted(self) -> bool:
        """True if every criterion is met."""
        return all(criterion.met for criterion in self.criteria)

    @property
    def reason(self) -> str:
        """The criteria that are not met, in one line."""
        unmet = [f"{criterion.name}: {criterion.value}, required {criterion.limit}" for criterion in self.criteria if not criterion.met]
        return "; ".join(unmet) or "every criterion is met"


def decide(predictions: Predictions, measurements: Measurements, policy: PromotionPolicy) -> Decision:
    """Compare the candidate with the model in production, or with the majority baseline if there is none.

    A criterion whose value is missing is not met.

    Raises:
        ValueError: The policy names a metric of the other kind of task.
    """
    metric = promotion_metric(policy.metric, "regression" if predictions.names is None else "classification")
    baseline = predictions.production if predictions.production is not None else _majority_baseline(predictions)
    rows = (predictions.labels, predictions.candidate, baseline)
    binary = predictions.names is not None and len(predictions.names) == 2
    gain = paired_difference(
        METRIC_TABLE[metric], *rows, average="binary" if binary else "macro", resamples=policy.resamples, level=policy.confidence
    )
    test = None if predictions.names is None else mcnemar(*rows)
    enough = _bounded("rows of the reported split", len(predictions.labels), policy.min_rows, at_least=True)
    criteria = [enough, _gain(gain, metric, predictions, policy), *_significance(test, policy), *_limits(measurements, policy)]
    if predictions.incomparable:
        criteria.insert(0, Criterion("comparison with production", predictions.incomparable, "possible", met=False))
    return Decision(tuple(criteria), metric, gain, test)


def promotion_metric(name: str | None, task: Task) -> str:
    """Return the metric that decides a promotion: the one that the policy names, else accuracy or Pearson's r.

    Raises:
        ValueError: The named metric is not one of the task, or a difference of it has no interval.
    """
    known = [metric.name for metric in metrics_for(task) if metric.resampled and metric.greater_is_better]
    if name is not None and name not in known:
        raise ValueError(f"promotion.metric in conf/flows.yaml: {name!r} cannot decide a {task}; choose one of {', '.join(known)}")
    return name or primary_metric(task).name


def mcnemar(labels: NDArray[Any], candidate: NDArray[Any], baseline: NDArray[Any]) -> McNemar:
    """Test if both classifiers are right on equally many of the rows that only one predicts correctly; arrays of shape ``(rows,)``."""
    right, other = candidate == labels, baseline == labels
    candidate_only, baseline_only = int((right & ~other).sum()), int((other & ~right).sum())
    return McNemar(candidate_only, baseline_only, mcnemar_p_value(candidate_only, baseline_only))


def _majority_baseline(predictions: Predictions) -> NDArray[Any]:
    """Return the predictions of the most frequent label; 0 for a regression, as a constant has no correlation."""
    if predictions.names is None:
        return np.zeros_like(predictions.labels)
    values, counts = np.unique(predictions.labels, return_counts=True)
    return np.full_like(predictions.labels, values[counts.argmax()])


def _gain(gain: Difference, metric: str, predictions: Predictions, policy: PromotionPolicy) -> Criterion:
    over = "the majority" if predictions.production is None else "production"
    value = f"{gain.first:.4f} - {gain.second:.4f} = {gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"
    required = f"all of the {policy.confidence:.0%} interval > {policy.min_gain:+g}"
    return Criterion(f"{metric} over {over}", value, required, gain.low > policy.min_gain)


def _significance(test: McNemar | None, policy: PromotionPolicy) -> list[Criterion]:
    """Require a significantly better candidate; if the policy allows a loss, one that is not significantly worse."""
    if test is None:
        return []
    alpha, better = 1 - policy.confidence, test.candidate_only > test.baseline_only
    value = f"p = {test.p:.2g} (rows that only one predicts correctly: candidate {test.candidate_only}, baseline {test.baseline_only})"
    if policy.min_gain < 0:
        return [Criterion("McNemar's test", value, "not significantly worse", test.p >= alpha or better)]
    return [Criterion("McNemar's test", value, f"p < {alpha:.2g}, candidate better", test.p < alpha and better)]


def _limits(measurements: Measurements, policy: PromotionPolicy) -> Sequence[Criterion]:
    checks = {None: "unknown", True: "passed", False: "failed"}[measurements.checks_passed]
    return [
        _bounded("agreement of model.onnx", measurements.agreement, policy.min_agreement, at_least=True),
        _bounded("logit difference of model.onnx", measurements.max_abs_diff, policy.max_abs_diff),
        Criterion("data checks", checks, "passed", bool(measurements.checks_passed)),
        _bounded("size of model.onnx in MB", measurements.megabytes, policy.max_megabytes),
        _bounded("latency of one row in ms", measurements.latency_ms, policy.max_latency_ms),
    ]


def _bounded(name: str, value: float | None, limit: float, *, at_least: bool = False) -> Criterion:
    required = f"{'>=' if at_least else '<='} {limit:g}"
    if value is None:
        return Criterion(name, "unknown", required, met=False)
    return Criterion(name, f"{value:.4g}", required, value >= limit if at_least else value <= limit)
