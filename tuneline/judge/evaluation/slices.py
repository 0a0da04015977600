"""The metrics of rows with a common property: the slices of ``reports/slices.json``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from tuneline.core.params import EvaluateParams
from tuneline.core.runtime.terminal import say
from tuneline.core.stage.records import Number, Record
from tuneline.judge.metrics.functions import chosen_rows, load_function
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.stats import LEVEL
from tuneline.judge.metrics.table import primary_metric
from tuneline.model.tasks import Task
from tuneline.model.tasks.task import Labels

ENOUGH_ROWS = 20
"""Fewest rows of a slice that can be the worst: with fewer, its interval is too wide."""


class SliceMetrics(Record):
    """Metrics of one slice: those below, and the primary metric under its name."""

    __pydantic_extra__: dict[str, Number]

    by: str
    """Property that defines the slice: ``length``, ``label``, or ``function``, one of the user."""
    name: str = Field(alias="slice")
    """Value of the property, for people."""
    rows: int
    low: Number
    """Lower end of the interval of the primary metric."""
    high: Number

    @property
    def metrics(self) -> Mapping[str, float]:
        """Metrics by name."""
        return self.__pydantic_extra__


class Slices(Record):
    """Metrics of every slice of the reported split."""

    written_by: ClassVar[str] = "evaluate"

    metric: str
    """Name of the primary metric."""
    level: float
    """Level of its intervals, for example 0.95."""
    worst: SliceMetrics | None
    """The slice with the lowest primary metric, of those with enough rows."""
    slices: Sequence[SliceMetrics]

    def value(self, slice_metrics: SliceMetrics) -> float:
        """Return the primary metric of a slice."""
        return slice_metrics.metrics[self.metric]


@dataclass(frozen=True)
class RowSlice:
    """Rows of the reported split with a common property.

    ``by`` is the property: ``length``, ``label``, ``function``, or a column. ``name`` is its value.
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


def label_slices(predictions: Predictions) -> Iterator[RowSlice]:
    """Yield one slice for each class that occurs. Accuracy within it is the recall of the class."""
    task = predictions.task
    for index, name in enumerate(task.class_names):
        rows = np.flatnonzero(task.members(predictions.labels, index))
        if len(rows):
            yield RowSlice("label", name, rows)


def function_slices(
    params: EvaluateParams, texts: pa.Table, labels: Labels, task: Task, place: str
) -> list[RowSlice]:
    """Return the rows that each function of ``evaluate.slices`` chooses.

    A slice without rows has no metrics, and is left out.

    Args:
        params: The parameters that name the functions of the user.
        texts: The text columns of the rows.
        labels: Labels of shape ``(rows, *label_shape)``.
        task: The task of the labels.
        place: What has these rows, for messages.
    """
    slices = []
    for name in params.slice_functions:
        function = load_function("evaluate.slices", name, "texts")
        rows = np.flatnonzero(chosen_rows(function, texts, labels, task, place))
        if len(rows):
            slices.append(RowSlice("function", name.function, rows))
        else:
            say(f"evaluate.slices: {name} chooses no row of {place}.")
    return slices


def score_slices(slices: Iterable[RowSlice], predictions: Predictions, seed: int) -> list[SliceMetrics]:
    """Return the primary metric of the task in each slice, with its interval.

    The metric that decides in the project need not be defined in a slice: F1 and correlations compare
    classes, and a slice may have one. Each slice is scored before the next is made.
    """
    compared = primary_metric(predictions.task.judged_as)
    scored = []
    for row_slice in slices:
        estimate = predictions.take(row_slice.rows).interval(compared, seed)
        values = {
            "by": row_slice.by,
            "slice": row_slice.name,
            "rows": len(row_slice.rows),
            compared.name: estimate.value,
            "low": estimate.low,
            "high": estimate.high,
        }
        scored.append(SliceMetrics.model_validate(values))
    return scored


def slices_report(scored: Sequence[SliceMetrics], metric: str) -> Slices:
    """Return every slice, and the worst one by the primary metric.

    The worst one has at least ``ENOUGH_ROWS`` rows.
    """
    # A slice of a few rows is often the worst by chance.
    large = [slice_metrics for slice_metrics in scored if slice_metrics.rows >= ENOUGH_ROWS]
    return Slices(
        metric=metric,
        level=LEVEL,
        worst=min(large, key=lambda slice_metrics: slice_metrics.metrics[metric], default=None),
        slices=scored,
    )
