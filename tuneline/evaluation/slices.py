"""The metrics of rows with a common property: the slices of ``reports/slices.json``."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.evaluation.probability_scores import slice_metric
from tuneline.evaluation.records import SliceMetrics, Slices
from tuneline.evaluation.scoring import SplitPredictions
from tuneline.metrics.scores import compute_metric
from tuneline.metrics.stats import LEVEL
from tuneline.metrics.table import primary_metric
from tuneline.tasks import Task

ENOUGH_ROWS = 20
"""Fewest rows of a slice that can be the worst: with fewer, its interval is too wide."""


@dataclass(frozen=True)
class RowSlice:
    """Rows of the reported split with a common property.

    ``by`` is the property: ``length``, ``label``, or a column. ``name`` is its value.
    """

    by: str
    name: str
    rows: NDArray[np.int64]


def length_slices(lengths: NDArray[np.int64]) -> Iterator[RowSlice]:
    """Yield four slices of about equal size, by number of tokens; fewer if many rows have the same length."""
    # With many rows of one length, quartiles coincide.
    edges = np.unique(np.quantile(lengths, [0.25, 0.5, 0.75], method="lower"))
    bucket = np.searchsorted(edges, lengths).astype(np.int8)
    for index in np.unique(bucket):
        rows = np.flatnonzero(bucket == index)
        yield RowSlice("length", f"{lengths[rows].min()} to {lengths[rows].max()} tokens", rows)


def label_slices(labels: NDArray[Any], task: Task) -> Iterator[RowSlice]:
    """Yield one slice for each class that occurs. Accuracy within it is the recall of the class."""
    for index, name in enumerate(task.class_names):
        rows = np.flatnonzero(task.members(labels, index))
        if len(rows):
            yield RowSlice("label", name, rows)


def score_slices(slices: Iterable[RowSlice], split: SplitPredictions) -> list[SliceMetrics]:
    """Return the metrics of each slice, the primary metric of the task with its interval.

    The metric that decides in the project need not be defined in a slice: F1 and correlations compare
    classes, and a slice may have one. So slices are compared by accuracy, which is the recall where a slice
    is a class, and the metric that decides stands beside it.

    Each slice is scored before the next is made.
    """
    compared = primary_metric(split.task.kind)
    beside = split.deciding
    if beside is compared:
        beside = slice_metric(split.task)
    scored = []
    for row_slice in slices:
        rows = split.take(row_slice.rows)
        estimate = rows.interval(compared)
        values = {
            "by": row_slice.by,
            "slice": row_slice.name,
            "rows": len(rows.labels),
            compared.name: estimate.value,
            "low": estimate.low,
            "high": estimate.high,
        }
        if row_slice.by != "label":  # where all rows have the same label, it is meaningless
            values[beside.name] = compute_metric(beside, rows.labels, rows.values, split.average)
        scored.append(SliceMetrics.model_validate(values))
    return scored


def slices_report(scored: Sequence[SliceMetrics], metric: str) -> Slices:
    """Return every slice, the smallest one, and the worst one by the primary metric.

    The worst one has at least ``ENOUGH_ROWS`` rows.
    """
    # A slice of a few rows is often the worst by chance.
    large = [slice_metrics for slice_metrics in scored if slice_metrics.rows >= ENOUGH_ROWS]
    return Slices(
        metric=metric,
        level=LEVEL,
        smallest=min(scored, key=lambda slice_metrics: slice_metrics.rows, default=None),
        worst=min(large, key=lambda slice_metrics: slice_metrics.metrics[metric], default=None),
        slices=scored,
    )
