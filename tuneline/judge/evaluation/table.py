"""Every metric of the pipeline: what training computes, and what only evaluation computes.

Everything that shows or compares a metric reads ``ALL_METRICS``: evaluation, comparison, report, model card,
``tuneline show`` and ``tuneline evaluate``. To add a metric, add a formula and an entry here, a title in
``tuneline/page/titles.py``, a test, and a line in the docs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuneline.judge.metrics.table import CLASSES, METRIC_TABLE, SETS, Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuneline.model.tasks import Task


_PROBABILITY_METRICS = (
    Metric(name="roc_auc", kinds=CLASSES + SETS),
    Metric(name="calibration_error", kinds=CLASSES + SETS, greater_is_better=False),
)
"""Metrics of probabilities, which ``tuneline/judge/evaluation/curves.py`` computes."""
ALL_METRICS: Mapping[str, Metric] = {
    **{name: metric for name, metric in METRIC_TABLE.items() if metric.of_predictions},
    **{metric.name: metric for metric in _PROBABILITY_METRICS},
    "loss": METRIC_TABLE["loss"],
}
"""Every metric by name, in the order in which people see them."""


def reported_metrics(task: Task) -> list[Metric]:
    """Return the metrics of a task, in the order in which people see them."""
    return [metric for metric in ALL_METRICS.values() if task.judged_as in metric.kinds]
