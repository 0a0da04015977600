"""May this model take the place of the one in production? Figures in, a decision with its reasons out; reads and writes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.promotion.comparison import Interval, McNemar, commonest, interval, mcnemar, promotion_metric
from flows.settings import PromotionPolicy


@dataclass(frozen=True)
class Predictions:
    """What models predicted for the rows of the candidate's reported split.

    Attributes:
        labels: Shape ``[rows]``: class ids, or numbers.
        candidate: Of the same shape.
        production: Of the same shape; ``None`` when there is no model in production.
        names: Class names; ``None`` for a regression.
        incomparable: Why the model in production cannot predict these rows.
    """

    labels: NDArray[Any]
    candidate: NDArray[Any]
    production: NDArray[Any] | None
    names: tuple[str, ...] | None
    incomparable: str | None = None


@dataclass(frozen=True)
class Figures:
    """What else is known of the candidate; ``None`` where nothing is.

    Attributes:
        agreement: Share of rows on which ``model.onnx`` predicts what the trained model does.
        max_abs_diff: Largest difference of a logit.
        checks_passed: Whether the data checks passed.
        megabytes: Size of ``model.onnx``.
        latency_ms: Of one row, at the 95th percentile.
    """

    agreement: float | None
    max_abs_diff: float | None
    checks_passed: bool | None
    megabytes: float | None
    latency_ms: float | None


@dataclass(frozen=True)
class Criterion:
    """One condition of the promotion.

    Attributes:
        name: What it is about.
        value: What was found, for people.
        limit: What is wanted.
        met: Whether it is.
    """

    name: str
    value: str
    limit: str
    met: bool


@dataclass(frozen=True)
class Decision:
    """Whether the candidate is promoted, and why.

    Attributes:
        criteria: All of them; the candidate is promoted when every one is met.
        gain: The interval of the metric's difference.
        metric: Its name.
        test: McNemar's, for a classification.
    """

    criteria: tuple[Criterion, ...]
    metric: str
    gain: Interval
    test: McNemar | None

    @property
    def promoted(self) -> bool:
        """Whether every criterion is met."""
        return all(criterion.met for criterion in self.criteria)

    @property
    def reason(self) -> str:
        """In one sentence."""
        unmet = [f"{criterion.name}: {criterion.value}, wanted {criterion.limit}" for criterion in self.criteria if not criterion.met]
        return "; ".join(unmet) or "every criterion is met"


def decide(predictions: Predictions, figures: Figures, policy: PromotionPolicy) -> Decision:
    """Compares the candidate with the model in production, or with the majority where there is none.

    A criterion about which nothing is known is not met.

    Raises:
        ValueError: The policy names a metric of the other task.
    """
    metric = promotion_metric(policy.metric, "regression" if predictions.names is None else "classification")
    baseline = predictions.production if predictions.production is not None else _knows_nothing(predictions)
    rows = (predictions.labels, predictions.candidate, baseline)
    binary = predictions.names is not None and len(predictions.names) == 2
    gain = interval(metric, *rows, binary=binary, resamples=policy.resamples, confidence=policy.confidence)
    test = None if predictions.names is None else mcnemar(*rows)
    possible = (
        [Criterion("comparison with production", predictions.incomparable, "possible", met=False)] if predictions.incomparable else []
    )
    criteria = [
        *possible,
        _gain(gain, metric, predictions, policy),
        *([_significance(test, policy)] if test else []),
        *_limits(figures, policy),
    ]
    return Decision(tuple(criteria), metric, gain, test)


def _knows_nothing(predictions: Predictions) -> NDArray[Any]:
    return np.zeros_like(predictions.labels) if predictions.names is None else commonest(predictions.labels)


def _gain(gain: Interval, metric: str, predictions: Predictions, policy: PromotionPolicy) -> Criterion:
    over = "the majority" if predictions.production is None else "production"
    value = f"{gain.candidate:.4f} - {gain.baseline:.4f} = {gain.difference:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]"
    return Criterion(
        f"{metric} over {over}", value, f"all of the {policy.confidence:.0%} interval > {policy.min_gain:+g}", gain.low > policy.min_gain
    )


def _significance(test: McNemar, policy: PromotionPolicy) -> Criterion:
    """Where a gain is asked for, the candidate must be significantly better; where a loss is allowed, not significantly worse."""
    alpha = 1 - policy.confidence
    value = f"p = {test.p:.2g} ({test.candidate_only} rows only the candidate has right, {test.baseline_only} only the other)"
    if policy.min_gain < 0:
        met = test.p >= alpha or test.candidate_only > test.baseline_only
        return Criterion("McNemar's test", value, "not significantly worse", met)
    return Criterion("McNemar's test", value, f"p < {alpha:.2g}, in favour", test.p < alpha and test.candidate_only > test.baseline_only)


def _limits(figures: Figures, policy: PromotionPolicy) -> Sequence[Criterion]:
    return [
        _bounded("agreement of model.onnx", figures.agreement, policy.min_agreement, at_least=True),
        _bounded("logit difference of model.onnx", figures.max_abs_diff, policy.max_abs_diff),
        Criterion(
            "data checks", {None: "unknown", True: "passed", False: "failed"}[figures.checks_passed], "passed", bool(figures.checks_passed)
        ),
        _bounded("size of model.onnx in MB", figures.megabytes, policy.max_megabytes),
        _bounded("latency of one row in ms", figures.latency_ms, policy.max_latency_ms),
    ]


def _bounded(name: str, value: float | None, limit: float, *, at_least: bool = False) -> Criterion:
    wanted = f"{'>=' if at_least else '<='} {limit:g}"
    if value is None:
        return Criterion(name, "unknown", wanted, met=False)
    return Criterion(name, f"{value:.4g}", wanted, value >= limit if at_least else value <= limit)
