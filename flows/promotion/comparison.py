"""Compare two models on the same rows: the difference of a metric with its interval, and McNemar's test."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.metrics import METRIC_TABLE, Averaging, Task, metrics_for, primary_metric
from tuneline.stats import mcnemar_p_value, paired_difference

Ids = NDArray[np.int64]


def promotion_metric(name: str | None, task: Task) -> str:
    """Return the metric that decides a promotion: the one that the policy names, else accuracy or Pearson's r.

    Raises:
        ValueError: The named metric is not one of the task, or a difference of it has no interval.
    """
    known = [metric.name for metric in metrics_for(task) if metric.resampled and metric.greater_is_better]
    if name is not None and name not in known:
        raise ValueError(f"promotion.metric in conf/flows.yaml: {name!r} cannot decide a {task}; choose one of {', '.join(known)}")
    return name or primary_metric(task).name


@dataclass(frozen=True)
class Interval:
    """A difference of a metric, candidate less baseline.

    Attributes:
        candidate: Metric of the candidate on all rows.
        baseline: Metric of the other model on all rows.
        low: Lower end of the interval of the difference.
        high: Upper end.
    """

    candidate: float
    baseline: float
    low: float
    high: float

    @property
    def difference(self) -> float:
        """Difference on all rows."""
        return self.candidate - self.baseline


def interval(
    metric: str,
    labels: NDArray[Any],
    candidate: NDArray[Any],
    baseline: NDArray[Any],
    *,
    binary: bool = False,
    resamples: int = 5000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Return the paired bootstrap interval of the difference of a metric.

    Args:
        metric: Name in the metric table.
        labels: Shape ``(rows,)``: class ids, or numbers.
        candidate: Predictions of the candidate, of the same shape.
        baseline: Predictions of the other model.
        binary: True if F1 is that of class 1; else it is the mean over classes.
        resamples: Number of draws.
        confidence: Level of the two-sided interval, for example 0.95.
        seed: Seed of the draws: the same predictions give the same decision.
    """
    average: Averaging = "binary" if binary else "macro"
    result = paired_difference(
        METRIC_TABLE[metric], labels, candidate, baseline, average=average, seed=seed, resamples=resamples, level=confidence
    )
    return Interval(result.first, result.second, result.low, result.high)


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


def mcnemar(labels: Ids, candidate: Ids, baseline: Ids) -> McNemar:
    """Test if both classifiers are right on equally many of the rows that only one predicts correctly; arrays of shape ``(rows,)``."""
    right, other = candidate == labels, baseline == labels
    candidate_only, baseline_only = int((right & ~other).sum()), int((other & ~right).sum())
    return McNemar(candidate_only, baseline_only, mcnemar_p_value(candidate_only, baseline_only))


def commonest(labels: Ids) -> Ids:
    """Return the predictions of the majority baseline: the most frequent label of these rows, shape ``(rows,)``."""
    values, counts = np.unique(labels, return_counts=True)
    return np.full_like(labels, values[counts.argmax()])
