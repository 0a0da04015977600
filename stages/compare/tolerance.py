"""Is an exported model within its tolerance: yes, no, or do the rows not show it?

The fp32 model computes the same function as the trained one, so what is measured on the rows is held against
its limits as it is. int8 rounds, and how often that matters on other texts is estimated from the rows
of the reported split: such a model fails if its interval lies beyond a limit. If a limit lies within the
interval, the rows cannot tell, and the model is published with this note.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.compare.logits import LogitComparison
from tuneline.metrics.stats import Estimate
from tuneline.params.evaluate import Fp32Tolerance, Tolerance

SHOWN_ROWS = 10
MOST_DIGITS = 6


@dataclass(frozen=True)
class ToleranceJudgement:
    """Messages about the limits of a model.

    Attributes:
        violations: Messages about exceeded limits.
        unclear: Messages about limits that may be exceeded: the rows do not show it.
    """

    violations: Sequence[str] = ()
    unclear: Sequence[str] = ()

    def __add__(self, other: "ToleranceJudgement") -> "ToleranceJudgement":
        return ToleranceJudgement([*self.violations, *other.violations], [*self.unclear, *other.unclear])


def judge_comparison(comparison: LogitComparison, tolerance: Tolerance, metric: str) -> ToleranceJudgement:
    """Hold a comparison against the limits of its precision: values of fp32, else intervals."""
    judgement = _judge_logits(comparison, tolerance)
    if isinstance(tolerance, Fp32Tolerance):
        judgement += _judge_values(comparison, tolerance, metric)
    else:
        judgement += _judge_agreement(comparison, tolerance.min_agreement)
        judgement += _judge_drop(comparison, tolerance.max_metric_drop, metric)
    return judgement


def _judge_logits(comparison: LogitComparison, tolerance: Tolerance) -> ToleranceJudgement:
    violations = []
    if len(comparison.not_finite):
        violations.append(f"no finite logits for {rows_named(comparison.not_finite)}")
    largest = comparison.metrics["max_abs_diff"]
    if isinstance(tolerance, Fp32Tolerance) and largest > tolerance.max_abs_diff:
        row = int(comparison.difference.argmax())
        violations.append(
            f"a logit of row {row} differs by {largest:.6g}, more than max_abs_diff"
            f" {tolerance.max_abs_diff:g}"
        )
    return ToleranceJudgement(violations)


def _judge_values(comparison: LogitComparison, tolerance: Tolerance, metric: str) -> ToleranceJudgement:
    violations = []
    agreement = comparison.metrics["agreement"]
    drop = comparison.metrics[f"{metric}_drop"]
    if agreement < tolerance.min_agreement:
        flips = rows_named(comparison.flipped)
        violations.append(
            f"agreement is {agreement:.6g}, less than min_agreement {tolerance.min_agreement:g}: it flips"
            f" {flips}"
        )
    if drop > tolerance.max_metric_drop:
        violations.append(
            f"{metric} drops by {drop:.6g}, more than max_metric_drop {tolerance.max_metric_drop:g}"
        )
    return ToleranceJudgement(violations)


def _judge_agreement(comparison: LogitComparison, limit: float) -> ToleranceJudgement:
    agreement = _estimate(comparison, "agreement")
    measured = f"agreement is {_measured(comparison, agreement)}"
    if agreement.high < limit:
        flips = rows_named(comparison.flipped)
        violation = f"{measured}, less than min_agreement {limit:g}: it flips {flips}"
        return ToleranceJudgement(violations=[violation])
    if agreement.low < limit:
        return ToleranceJudgement(unclear=[f"{measured}, and min_agreement is {limit:g}"])
    return ToleranceJudgement()


def _judge_drop(comparison: LogitComparison, limit: float, metric: str) -> ToleranceJudgement:
    drop = _estimate(comparison, f"{metric}_drop")
    measured = f"{metric} drops by {_measured(comparison, drop)}"
    if drop.low > limit:
        return ToleranceJudgement(violations=[f"{measured}, more than max_metric_drop {limit:g}"])
    if drop.high > limit:
        return ToleranceJudgement(unclear=[f"{measured}, and max_metric_drop is {limit:g}"])
    return ToleranceJudgement()


def _estimate(comparison: LogitComparison, name: str) -> Estimate:
    """Return a metric with its interval, in the digits of ``metrics/compare.json``.

    Without the digits beyond these, 1 - 0.98 is not more than 0.02.
    """
    metrics = comparison.metrics
    ends = (metrics[name], metrics[f"{name}_low"], metrics[f"{name}_high"])
    return Estimate(*(round(end, MOST_DIGITS) for end in ends))


def _measured(comparison: LogitComparison, estimate: Estimate) -> str:
    """Return a value with its interval, and the rows that it stands on."""
    rows = f"{len(comparison.difference):,} rows"
    return f"{estimate.value:.4f} on {rows} (95 % interval {estimate.low:.4f} to {estimate.high:.4f})"


def rows_named(rows: NDArray[np.int64]) -> str:
    """Return row numbers for a message: the first ten in ascending order, and how many more there are."""
    numbers = ", ".join(str(row) for row in np.sort(rows[:SHOWN_ROWS]))
    if len(rows) > SHOWN_ROWS:
        return f"rows {numbers} and {len(rows) - SHOWN_ROWS} more"
    if len(rows) > 1:
        return f"rows {numbers}"
    return f"row {numbers}"
