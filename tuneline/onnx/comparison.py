"""An exported model against the trained one, row by row: how far do they agree, and is that enough?

The fp32 model computes the same function as the trained one, so what is measured on the rows is held against
its limits as it is. int8 rounds, and how often that matters on other texts is estimated from the rows
of the reported split: such a model fails if its interval lies beyond a limit. If a limit lies within the
interval, the rows cannot tell, and the model is published with this note.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuneline.core.params.evaluate import Fp32Tolerance, Tolerance
from tuneline.judge.evaluation.curves import probability_scores
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.stats import Difference, Estimate, effective_rows, exact_interval
from tuneline.judge.metrics.table import Metric
from tuneline.model.tasks.task import Logits

SHOWN_ROWS = 10
MOST_DIGITS = 6
"""Digits of ``metrics/compare.json``. Without the digits beyond these, 1 - 0.98 is not more than 0.02."""
LEAST_CLOSE = 1e-3
"""Difference that agrees in any case, in standard deviations of the labels.

A trained model without any error still rounds.
"""


def agreeing_difference(trained: Predictions, close_rmse: float) -> float:
    """Return the largest difference of two predictions of a regression that agree.

    It is ``close_rmse`` root mean squared errors of the model.

    The error of the trained model says how exact a prediction can be meant. If all predictions differed by
    this much, and at random, the error would be ``sqrt(1 + close_rmse**2)`` times as large: 3 % larger with
    0.25. A part of the labels' deviation, the usual choice, says nothing of this: it is strict for a model
    with a large error, and lenient for an exact one.
    """
    rmse = float(np.sqrt(np.mean((trained.values.astype(np.float64) - trained.labels) ** 2)))
    return max(close_rmse * rmse, LEAST_CLOSE * float(trained.labels.std()))


def agreement(trained: Predictions, exported: Predictions, close_rmse: float) -> NDArray[np.float64]:
    """Return how far an exported model predicts the same as the trained one, shape ``(rows,)``.

    It is 1 for a row with the same prediction, and 0 for another class or for a number that differs by more
    than ``agreeing_difference``. Of two sets of labels, it is the labels that both models give a row, twice,
    by all labels that either gives it.

    That is the coefficient of Dice (1945), or the F1 of the exported model's set where the trained model's
    is taken as true. If every row gets one label, its mean is the share of equal predictions, so that
    ``compare.*.min_agreement`` means the same as for one label per row. The share of equal sets falls
    with the number of labels, and the share of equal decisions says little where most labels are rare.
    """
    task = trained.task
    expected = trained.values
    predicted = exported.values
    if not task.has_classes:
        difference = np.abs(expected.astype(np.float64) - predicted)
        return np.asarray(difference <= agreeing_difference(trained, close_rmse), np.float64)
    if not task.label_shape:
        return np.asarray(expected == predicted, np.float64)
    shared = 2.0 * (expected & predicted).sum(axis=1)
    given = expected.sum(axis=1) + predicted.sum(axis=1)
    # two empty sets are equal
    return np.asarray(np.where(given > 0, shared / np.maximum(given, 1), 1.0))


def quality(predictions: Predictions, metric: Metric) -> dict[str, float]:
    """Return a metric of predictions, and how true the probabilities of their task are."""
    metrics = {metric.name: predictions.score(metric)}
    probabilities = probability_scores(predictions)
    if "calibration_error" in probabilities:
        metrics["calibration_error"] = probabilities["calibration_error"]
    return metrics


@dataclass(frozen=True)
class LogitComparison:
    """Comparison of one exported model with the trained model.

    Attributes:
        metric: Name of the metric whose drop is limited.
        agreement: Mean of ``agreement`` over the rows.
        drop: The metric of the trained model and of the exported one.
        exported: Predictions of the exported model, with 0 for NaN and infinity.
        difference: Largest difference of a logit in each row, of shape ``(rows,)``.
        flipped: Rows with another prediction, the largest difference first.
        not_finite: Rows with NaN or infinity.
    """

    metric: str
    agreement: Estimate
    drop: Difference
    exported: Predictions
    difference: NDArray[np.float64]
    flipped: NDArray[np.int64]
    not_finite: NDArray[np.int64]

    @property
    def max_abs_diff(self) -> float:
        """Largest difference of a logit."""
        return round(float(self.difference.max()), MOST_DIGITS)

    @property
    def metrics(self) -> dict[str, float]:
        """Its entries in ``reports/compare/comparison.json``."""
        drop = f"{self.metric}_drop"
        return {
            "max_abs_diff": self.max_abs_diff,
            "agreement": self.agreement.value,
            "agreement_low": self.agreement.low,
            "agreement_high": self.agreement.high,
            "flips": len(self.flipped),
            drop: self.drop.value,
            f"{drop}_low": self.drop.low,
            f"{drop}_high": self.drop.high,
        }


def finite(logits: Logits) -> Logits:
    """Return logits with 0 for NaN and infinity."""
    return np.nan_to_num(logits, nan=0.0, posinf=0.0, neginf=0.0)


def compare_logits(
    trained: Predictions, logits: Logits, metric: Metric, close_rmse: float, seed: int
) -> LogitComparison:
    """Compare the logits of an exported model with the logits of the trained model, of the same shape.

    NaN and infinity count as 0, and their rows as ``not_finite``. ``metric`` is the one whose drop is
    limited: it decides in the project.
    """
    not_finite = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    exported = Predictions.of_logits(trained.labels, finite(logits), trained.task, trained.clusters)
    per_row = np.abs(trained.logits.astype(np.float64) - exported.logits).max(axis=1)

    # agreement of predictions
    agreeing = agreement(trained, exported, close_rmse)
    agreeing[not_finite] = 0.0
    flipped = np.flatnonzero(agreeing < 1.0)
    independent = effective_rows(agreeing, trained.clusters)
    mean = float(agreeing.mean())
    interval = exact_interval(mean * independent, independent)
    # A stable sort: rows of equal difference stay in the order of the split.
    flipped = flipped[np.argsort(-per_row[flipped], kind="stable")]

    drop = trained.difference(metric, exported.values, seed=seed)
    estimate = Estimate(mean, interval.low, interval.high)
    return LogitComparison(metric.name, estimate, drop, exported, per_row, flipped, not_finite)


def judge_comparison(comparison: LogitComparison, tolerance: Tolerance) -> tuple[list[str], list[str]]:
    """Hold a comparison against the limits of its precision: values of fp32, else intervals.

    Returns:
        Messages about exceeded limits; and about limits that may be exceeded: the rows do not show it.
    """
    is_exact = isinstance(tolerance, Fp32Tolerance)
    violations = []
    unclear = []
    if len(comparison.not_finite):
        violations.append(f"no finite logits for {rows_named(comparison.not_finite)}")
    largest = comparison.max_abs_diff
    if isinstance(tolerance, Fp32Tolerance) and largest > tolerance.max_abs_diff:
        row = int(comparison.difference.argmax())
        violations.append(
            f"a logit of row {row} differs by {largest:.6g}, more than max_abs_diff"
            f" {tolerance.max_abs_diff:g}"
        )

    agreement = _rounded(comparison.agreement, is_exact=is_exact)
    measured = f"agreement is {_measured(comparison, agreement)}"
    limit = tolerance.min_agreement
    if agreement.high < limit:
        flips = rows_named(comparison.flipped)
        violations.append(f"{measured}, less than min_agreement {limit:g}: it flips {flips}")
    elif agreement.low < limit:
        unclear.append(f"{measured}, and min_agreement is {limit:g}")

    drop = _rounded(comparison.drop, is_exact=is_exact)
    measured = f"{comparison.metric} drops by {_measured(comparison, drop)}"
    limit = tolerance.max_metric_drop
    if drop.low > limit:
        violations.append(f"{measured}, more than max_metric_drop {limit:g}")
    elif drop.high > limit:
        unclear.append(f"{measured}, and max_metric_drop is {limit:g}")
    return violations, unclear


def _rounded(estimate: Estimate | Difference, *, is_exact: bool) -> Estimate:
    """Return a value with its interval, which is the value itself if that is exact."""
    value = round(estimate.value, MOST_DIGITS)
    if is_exact:
        return Estimate(value, value, value)
    return Estimate(value, round(estimate.low, MOST_DIGITS), round(estimate.high, MOST_DIGITS))


def _measured(comparison: LogitComparison, estimate: Estimate) -> str:
    """Return a value with the rows that it stands on, and its interval if it has one."""
    measured = f"{estimate.value:.4f} on {len(comparison.difference):,} rows"
    if estimate.low < estimate.high:
        measured += f" (95 % interval {estimate.low:.4f} to {estimate.high:.4f})"
    return measured


def rows_named(rows: NDArray[np.int64]) -> str:
    """Return row numbers for a message: the first ten in ascending order, and how many more there are."""
    numbers = ", ".join(str(row) for row in np.sort(rows[:SHOWN_ROWS]))
    if len(rows) > SHOWN_ROWS:
        return f"rows {numbers} and {len(rows) - SHOWN_ROWS} more"
    if len(rows) > 1:
        return f"rows {numbers}"
    return f"row {numbers}"
