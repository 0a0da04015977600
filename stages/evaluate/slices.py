"""Metrics by slice of the reported split: a good mean can hide a slice on which the model fails."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.files.schemas import LabelSchema
from tuneline.metrics import METRIC_TABLE, Averaging, primary_metric
from tuneline.records.evaluation import SliceMetrics, Slices
from tuneline.scores import compute_metric, predictions_of, task_of
from tuneline.stats import LEVEL, metric_interval

ENOUGH_ROWS = 20
"""Fewest rows of a slice that can be the worst: with fewer, its interval is too wide."""
_OVERLAPS = (0.0, 0.25, 0.5, 0.75, 1.0)
_WORD = re.compile(r"\w+")
_PART = re.compile(r"\s*([\w.]+)")


@dataclass(frozen=True)
class Slice:
    """Rows of the reported split with a common property.

    Attributes:
        by: Property: ``length``, ``overlap``, ``label``, ``source``.
        name: Value of the property, for people.
        rows: Positions of the rows.
    """

    by: str
    name: str
    rows: NDArray[np.int64]


def length_slices(lengths: NDArray[np.int64]) -> Iterator[Slice]:
    """Yield four slices of about equal size, by number of tokens; fewer if many rows have the same length."""
    edges = np.unique(np.quantile(lengths, [0.25, 0.5, 0.75], method="lower"))
    bucket = np.searchsorted(edges, lengths).astype(np.int8)
    for index in np.unique(bucket):
        rows = np.flatnonzero(bucket == index)
        yield Slice("length", f"{lengths[rows].min()} to {lengths[rows].max()} tokens", rows)


def overlap_slices(batches: Iterable[Sequence[Sequence[str]]]) -> Iterator[Slice]:
    """Yield slices by the words that the two texts of a row share: Jaccard index (1912) of their sets of lower-case words.

    Args:
        batches: The first and the second texts of rows, in batches.
    """
    overlaps = ([_overlap(*pair) for pair in zip(*batch, strict=True)] for batch in batches)
    bucket = np.concatenate([np.searchsorted(_OVERLAPS[1:-1], batch, side="right").astype(np.int8) for batch in overlaps])
    for index, (low, high) in enumerate(itertools.pairwise(_OVERLAPS)):
        if len(rows := np.flatnonzero(bucket == index)):
            yield Slice("overlap", f"{low:.0%} to {high:.0%} of the words shared", rows)


def _overlap(first: str, second: str) -> float:
    one, other = set(_WORD.findall(first.lower())), set(_WORD.findall(second.lower()))
    return len(one & other) / max(len(one | other), 1)


def label_slices(labels: NDArray[Any], names: Sequence[str]) -> Iterator[Slice]:
    """Yield one slice for each class that occurs. Accuracy within it is the recall of the class."""
    for index, name in enumerate(names):
        if len(rows := np.flatnonzero(labels == index)):
            yield Slice("label", name, rows)


def source_slices(specification: str, positions: NDArray[np.int64]) -> Iterator[Slice]:
    """Yield one slice for each split of the source that the rows were drawn from; none if there is one split or it is unknown.

    Args:
        specification: As in ``data.splits``, for example ``train[90%:]+extra``.
        positions: Row numbers in the source: they rise within one of its splits.
    """
    names = [match[1] for part in specification.split("+") if (match := _PART.match(part))]
    parts = [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]
    starts = [0, *(np.flatnonzero(positions[1:] <= positions[:-1]) + 1).tolist(), len(positions)]
    if 1 < len(parts) == len(starts) - 1:
        for name in dict.fromkeys(parts):
            own = [np.arange(*ends) for part, ends in zip(parts, itertools.pairwise(starts), strict=True) if part == name]
            yield Slice("source", name, np.concatenate(own))


def score_slices(
    slices: Iterable[Slice], logits: NDArray[np.float32], labels: NDArray[Any], label_schema: LabelSchema, average: Averaging
) -> list[SliceMetrics]:
    """Return the metrics of each slice, the primary metric with its interval.

    Args:
        slices: Slices of the split; each one is scored before the next is made.
        logits: Shape ``(rows, outputs)``.
        labels: Shape ``(rows,)``.
        label_schema: Label schema.
        average: How F1 is averaged.
    """
    predictions = predictions_of(logits, label_schema)
    return [_score(one, labels[one.rows], predictions[one.rows], label_schema, average) for one in slices]


def _score(one: Slice, labels: NDArray[Any], predictions: NDArray[Any], label_schema: LabelSchema, average: Averaging) -> SliceMetrics:
    primary = primary_metric(task_of(label_schema))
    estimate = metric_interval(primary, labels, predictions, average=average)
    if estimate is None:
        raise ValueError(f"{primary.name} has no interval; the first metric of a task in tuneline/metrics.py needs one")
    metrics = {primary.name: estimate.value, "low": estimate.low, "high": estimate.high}
    if label_schema.is_regression:
        metrics["mse"] = compute_metric(METRIC_TABLE["mse"], labels, predictions)
    elif one.by != "label":  # F1 is meaningless where all rows have the same label
        metrics["f1"] = compute_metric(METRIC_TABLE["f1"], labels, predictions, average)
    return SliceMetrics.model_validate({"by": one.by, "slice": one.name, "rows": len(labels), **metrics})


def slices_report(scored: Sequence[SliceMetrics], metric: str) -> Slices:
    """Return every slice, the smallest one, and the worst one.

    Args:
        scored: Result of ``score_slices``.
        metric: Primary metric, by which the worst slice of at least ``ENOUGH_ROWS`` rows is chosen.
    """
    large = [one for one in scored if one.rows >= ENOUGH_ROWS]
    return Slices(
        metric=metric,
        level=LEVEL,
        smallest=min(scored, key=lambda one: one.rows, default=None),
        worst=min(large, key=lambda one: one.metrics[metric], default=None),
        slices=scored,
    )
