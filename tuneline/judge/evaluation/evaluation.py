"""The evaluation of predictions on labelled rows: of the reported split, or of another file.

The stage ``evaluate`` and the command ``tuneline evaluate`` differ in where rows and logits come from.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tuneline.core.runtime.terminal import phase
from tuneline.judge.evaluation.scoring import (
    baseline_metrics,
    leak_metrics,
    split_metrics,
    spread_metrics,
)
from tuneline.judge.evaluation.slices import (
    RowSlice,
    Slices,
    label_slices,
    length_slices,
    score_slices,
    slices_report,
)
from tuneline.judge.metrics.functions import CustomMetric
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import Metric, primary_metric
from tuneline.model.tasks.task import Labels


def evaluate_predictions(
    predictions: Predictions,
    lengths: NDArray[np.int64],
    baselines: Mapping[str, Labels],
    *,
    deciding: Metric,
    seed: int,
    custom: Sequence[CustomMetric] = (),
    custom_slices: Sequence[RowSlice] = (),
    leaked: NDArray[np.bool_] | None = None,
) -> tuple[dict[str, float], Slices]:
    """Compute the metrics of predictions of all rows, and by length, class and function of the user.

    Args:
        predictions: Labels and logits of the rows.
        lengths: Tokens of each row, shape ``(rows,)``.
        baselines: Predictions of the simple models for the same rows, by name.
        deciding: The metric that decides in the project of the model.
        seed: Seed of the bootstrap.
        custom: Metrics of the user.
        custom_slices: Slices of the user.
        leaked: Which rows repeat or resemble a row of another split, shape ``(rows,)``; ``None`` if that is
            not known.

    Returns:
        The metrics of the model and of the simple models, with the metric of the worst slice; and the slices.
    """
    phase("slices")
    slices = chain(length_slices(lengths), label_slices(predictions), custom_slices)
    scored = score_slices(slices, predictions, seed)
    report = slices_report(scored, primary_metric(predictions.task.judged_as).name)

    phase("metrics")
    metrics = split_metrics(predictions, custom)
    metrics |= spread_metrics(predictions, deciding, seed)
    for name, values in baselines.items():
        metrics |= baseline_metrics(predictions, name, values, deciding, seed)
    if leaked is not None:
        metrics |= leak_metrics(predictions, leaked, baselines, deciding, seed)
    if report.worst is not None:
        metrics[f"worst_slice_{report.metric}"] = report.value(report.worst)
    return metrics, report
