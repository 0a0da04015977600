"""Every metric of the pipeline: what training computes, and what only evaluation computes.

Everything that shows or compares a metric reads ``ALL_METRICS``: evaluation, comparison, report, model card,
``tuneline show`` and ``tuneline evaluate``. To add a metric, add a formula and an entry here, a title in
``tuneline/words/titles.py``, a test, and a line in the docs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuneline.metrics.table import CLASSES, METRIC_TABLE, SETS, Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from tuneline.evaluation.curves import ClassProbabilities
    from tuneline.tasks import Task

    ProbabilityScore = Callable[["ClassProbabilities", NDArray[Any]], float | None]
    """From probabilities and labels of a split to the metric; ``None`` where it is not defined."""


@dataclass(frozen=True, kw_only=True)
class ProbabilityMetric(Metric):
    """A metric of the probabilities of classes.

    Attributes:
        probability_score: Formula.
    """

    probability_score: ProbabilityScore


def _roc_auc(probability: ClassProbabilities, labels: NDArray[Any]) -> float | None:
    from tuneline.evaluation.curves import roc_area

    return roc_area(probability, labels)


def _calibration_error(probability: ClassProbabilities, labels: NDArray[Any]) -> float | None:
    from tuneline.evaluation.curves import calibration, calibration_error

    return calibration_error(calibration(probability, labels))


def _log_loss(probability: ClassProbabilities, labels: NDArray[Any]) -> float | None:
    """Return the mean negative logarithm of the probability of the label; of several labels, over all."""
    import numpy as np

    from tuneline.evaluation.curves import has_class
    from tuneline.tasks.probabilities import SMALLEST

    total = 0.0
    for label in range(probability.classes):
        positive = has_class(labels, label)
        of_class = probability.of_class(label)
        total -= float(np.log(np.maximum(of_class[positive], SMALLEST)).sum())
        if labels.ndim == 2:
            total -= float(np.log(np.maximum(1 - of_class[~positive], SMALLEST)).sum())
    return total / labels.size


_PROBABILITY_METRICS = (
    ProbabilityMetric(name="roc_auc", kinds=CLASSES + SETS, probability_score=_roc_auc),
    ProbabilityMetric(
        name="log_loss",
        kinds=CLASSES + SETS,
        greater_is_better=False,
        probability_score=_log_loss,
    ),
    ProbabilityMetric(
        name="calibration_error",
        kinds=CLASSES + SETS,
        greater_is_better=False,
        probability_score=_calibration_error,
    ),
)
ALL_METRICS: Mapping[str, Metric] = {
    **{name: metric for name, metric in METRIC_TABLE.items() if metric.of_predictions},
    **{metric.name: metric for metric in _PROBABILITY_METRICS},
    "loss": METRIC_TABLE["loss"],
}
"""Every metric by name, in the order in which people see them."""


def reported_metrics(task: Task) -> list[Metric]:
    """Return the metrics of a task, in the order in which people see them."""
    from tuneline.metrics.judging import task_metrics

    names = [metric.name for metric in task_metrics(task)]
    reported = []
    for metric in ALL_METRICS.values():
        if metric.name in names or (metric.name not in METRIC_TABLE and task.kind in metric.kinds):
            reported.append(metric)
    return reported
