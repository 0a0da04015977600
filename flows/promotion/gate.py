"""The promotion gate: decides whether a candidate replaces the model in production. Pure functions, no input or output."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.promotion.comparison import Interval, McNemar, commonest, interval, mcnemar, promotion_metric
from flows.settings import PromotionPolicy


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
class Decision:
    """The decision about a candidate, with its reasons.

    Attributes:
        criteria: All criteria; the candidate is promoted if every one is met.
        metric: Name of the compared metric.
        gain: Confidence interval of the metric's difference.
        test: McNemar's test; ``None`` for a regression.
    """

    criteria: tuple[Criterion, ...]
    metric: str
    gain: Interval
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
    gain = interval(metric, *rows, binary=binary, resamples=policy.resamples, confidence=policy.confidence)
    test = None if predictions.names is None else mcnemar(*rows)
    comparable = (
        [Criterion("comparison with production", predictions.incomparable, "possible", met=False)] if predictions.incomparable else []
    )
    criteria = [
        *comparable,
        _gain(gain, metric, predictions, policy),
        *([_significance(test, policy)] if test else []),
        *_limits(measurements, policy),
    ]
    return Decision(tuple(criteria), metric, gain, test)


def _majority_baseline(predictions: Predictions) -> NDArray[Any]:
    """Return the predictions of the most frequent label; 0 for a regression, as a constant has no correlation."""
    return np.zeros_like(predictions.labels) if predictions.names is None else commonest(predictions.labels)


def _gain(gain: Interval, metric: str, predictions: Predictions, policy: PromotionPolicy) -> Criterion:
    over = "the majority" if predictions.production is None else "production"
    value = f"{gain.candidate:.4f} - {gain.baseline:.4f} = {gain.difference:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"
    return Criterion(
        f"{metric} over {over}", value, f"all of the {policy.confidence:.0%} interval > {policy.min_gain:+g}", gain.low > policy.min_gain
    )


def _significance(test: McNemar, policy: PromotionPolicy) -> Criterion:
    """Require a significantly better candidate; if the policy allows a loss, one that is not significantly worse."""
    alpha, better = 1 - policy.confidence, test.candidate_only > test.baseline_only
    value = f"p = {test.p:.2g} (rows that only one predicts correctly: candidate {test.candidate_only}, baseline {test.baseline_only})"
    if policy.min_gain < 0:
        return Criterion("McNemar's test", value, "not significantly worse", test.p >= alpha or better)
    return Criterion("McNemar's test", value, f"p < {alpha:.2g}, candidate better", test.p < alpha and better)


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
