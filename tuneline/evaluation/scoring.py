"""Metrics of predictions: those of the pipeline, those that ``evaluate.metrics`` names, and those of the simple models."""

import inspect
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.disk_errors import full_disk
from tuneline.core.errors import DataError, StageError
from tuneline.core.stage import require
from tuneline.core.tables import ROW_GROUP, read_table
from tuneline.evaluation.records import SliceMetrics, Slices
from tuneline.metrics.functions import CustomMetric
from tuneline.metrics.scores import compute_metric, prediction_metrics
from tuneline.metrics.stats import LEVEL, Estimate, leak_difference, metric_interval, paired_difference
from tuneline.metrics.table import (
    LEAKED_ROWS,
    Averaging,
    Metric,
)
from tuneline.params import EvaluateParams
from tuneline.tasks import Task

os.environ.setdefault(
    "HF_UPDATE_DOWNLOAD_COUNTS", "0"
)  # read when evaluate is imported: no telemetry when a metric is loaded

LIBRARY = "evaluate-metric"
"""Where the evaluate library keeps its own metrics on the Hub.

Its loader takes a bare name for a local folder first.
"""


@dataclass(frozen=True)
class SplitPredictions:
    """Labels and predictions of the model for the reported split, shape ``(rows,)``; how F1 is averaged; the seed of the bootstrap."""

    labels: NDArray[Any]
    values: NDArray[Any]
    task: Task
    average: Averaging
    seed: int

    @property
    def primary(self) -> Metric:
        """The primary metric of the task."""
        return self.task.primary_metric


def compute_metrics(
    task: Task,
    references: NDArray[Any],
    predictions: NDArray[Any],
    average: Averaging,
    others: Sequence[str] = (),
) -> dict[str, float]:
    """Compute the metrics of a task, then those of ``others``; of metrics with the same name, the last one counts.

    References and predictions have the shape ``(rows,)``. ``others`` are ``NAME`` or ``NAME:CONFIG`` of
    the evaluate library's own metrics; it takes seconds to import. Each must give finite numbers.
    """
    scores = prediction_metrics(task.metric_kind, references, predictions, average)
    for text in others:
        scores.update(_score_one(text, references, predictions, average))
    return scores


def _score_one(
    text: str, references: NDArray[Any], predictions: NDArray[Any], average: str
) -> dict[str, float]:
    import evaluate

    name, _, config = text.partition(":")
    try:
        metric = evaluate.load(f"{LIBRARY}/{name}", config or None, keep_in_memory=True)
    except (OSError, ValueError, ImportError) as error:  # FileNotFoundError and ConnectionError among them
        if full_disk(error):
            raise
        raise StageError(
            f"evaluate.metrics: {name!r} cannot be loaded: {str(error).strip().splitlines()[0]}",
            "A name is looked up on the Hub, which must be reachable.",
        ) from None
    options = {"average": average} if "average" in inspect.signature(metric._compute).parameters else {}
    try:
        result = metric.compute(references=references, predictions=predictions, **options)
    except (ValueError, TypeError) as error:
        raise StageError(
            f"evaluate.metrics: {name!r} cannot score this: {error}",
            "It must score predictions against references.",
        ) from None
    numbers = {
        key: float(value)
        for key, value in result.items()
        if np.ndim(value) == 0 and not isinstance(value, str)
    }
    if not numbers or not all(map(np.isfinite, numbers.values())):
        raise StageError(
            f"evaluate.metrics: {name!r} gives no finite numbers: {dict(result)}", "Leave it out."
        )
    return numbers


def split_metrics(
    params: EvaluateParams,
    labels: NDArray[Any],
    task: Task,
    logits: NDArray[np.float32],
    custom: Sequence[CustomMetric] = (),
) -> dict[str, float]:
    """Return the metrics of one split, from labels ``(rows,)`` and logits ``(rows, outputs)``; ``custom`` are the user's metrics."""
    metrics = compute_metrics(
        task, labels, task.predictions(logits), task.averaging(params.f1), params.library_metrics
    )
    metrics |= {"loss": task.mean_loss(logits, labels), "rows": len(labels)}
    metrics |= task.probability_metrics(logits, labels)
    return metrics | {metric.name: metric.compute(logits, labels) for metric in custom}


CHECKS_OF_LEAKS = ("leakage", "near_duplicates")


def leaked_rows(folder: Path, split: str, rows: int) -> NDArray[np.bool_]:
    """Return which rows of a split repeat or resemble one of another split, by ``reports/checks/rows/`` of this data; shape ``(rows,)``."""
    leaked = np.zeros(rows, dtype=bool)
    for path in (folder / f"{check}.parquet" for check in CHECKS_OF_LEAKS):
        if path.exists():
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(ROW_GROUP, columns=["split", "row", "other_split"]):
                    inside = pc.and_(
                        pc.equal(batch["split"], split), pc.not_equal(batch["other_split"], split)
                    )
                    named = batch["row"].filter(inside).to_numpy()
                    if named.max(initial=-1) >= rows:
                        raise DataError(
                            f"{path} has rows of other data than the split {split!r}.",
                            "Run `dvc repro validate`.",
                        )
                    leaked[named] = True
    return leaked


def leak_metrics(split: SplitPredictions, leaked: NDArray[np.bool_]) -> dict[str, float]:
    """Return the number of leaked rows and, if there are some and others, the primary metric without them, with its intervals."""
    metrics: dict[str, float] = {LEAKED_ROWS: int(leaked.sum())}
    if not leaked.any() or leaked.all():
        return metrics
    metric = split.primary
    difference = leak_difference(
        metric, split.labels, split.values, leaked, average=split.average, seed=split.seed
    )
    estimate = primary_interval(
        metric, split.labels[~leaked], split.values[~leaked], average=split.average, seed=split.seed
    )
    without = dict(zip(metric.without_leaks, (estimate.value, estimate.low, estimate.high), strict=True))
    return metrics | without | dict(zip(metric.from_leaks, (difference.low, difference.high), strict=True))


def primary_interval(
    metric: Metric, labels: NDArray[Any], predictions: NDArray[Any], **settings: Any
) -> Estimate:
    """Return the primary metric with its interval, which the first metric of each task has."""
    estimate = metric_interval(metric, labels, predictions, **settings)
    if estimate is None:
        raise ValueError(
            f"{metric.name} has no interval; the first metric of a task in tuneline/metrics/table.py"
            " needs one"
        )
    return estimate


ENOUGH_ROWS = 20
"""Fewest rows of a slice that can be the worst: with fewer, its interval is too wide."""
_OVERLAPS = (0.0, 0.25, 0.5, 0.75, 1.0)
_WORD = re.compile(r"\w+")
_PART = re.compile(r"\s*([\w.]+)")


@dataclass(frozen=True)
class RowSlice:
    """Rows of the reported split with a common property: ``length``, ``overlap``, ``label`` or ``source``, and its value, the name."""

    by: str
    name: str
    rows: NDArray[np.int64]


def length_slices(lengths: NDArray[np.int64]) -> Iterator[RowSlice]:
    """Yield four slices of about equal size, by number of tokens; fewer if many rows have the same length."""
    edges = np.unique(np.quantile(lengths, [0.25, 0.5, 0.75], method="lower"))
    bucket = np.searchsorted(edges, lengths).astype(np.int8)
    for index in np.unique(bucket):
        rows = np.flatnonzero(bucket == index)
        yield RowSlice("length", f"{lengths[rows].min()} to {lengths[rows].max()} tokens", rows)


def overlap_slices(batches: Iterable[Sequence[Sequence[str]]]) -> Iterator[RowSlice]:
    """Yield slices by the words that the two texts of a row share: Jaccard index (1912) of their sets of lower-case words."""

    def overlap(first: str, second: str) -> float:
        one, other = set(_WORD.findall(first.lower())), set(_WORD.findall(second.lower()))
        return len(one & other) / max(len(one | other), 1)

    overlaps = ([overlap(*pair) for pair in zip(*batch, strict=True)] for batch in batches)
    bucket = np.concatenate(
        [np.searchsorted(_OVERLAPS[1:-1], batch, side="right").astype(np.int8) for batch in overlaps]
    )
    for index, (low, high) in enumerate(itertools.pairwise(_OVERLAPS)):
        if len(rows := np.flatnonzero(bucket == index)):
            yield RowSlice("overlap", f"{low:.0%} to {high:.0%} of the words shared", rows)


def label_slices(labels: NDArray[Any], names: Sequence[str]) -> Iterator[RowSlice]:
    """Yield one slice for each class that occurs. Accuracy within it is the recall of the class."""
    for index, name in enumerate(names):
        if len(rows := np.flatnonzero(labels == index)):
            yield RowSlice("label", name, rows)


def source_slices(specification: str, positions: NDArray[np.int64]) -> Iterator[RowSlice]:
    """Yield one slice for each split of the source that the rows were drawn from; none if there is one split or it is unknown.

    The specification is as in ``data.splits``, for example ``train[90%:]+extra``; positions in the source
    rise within one of its splits.
    """
    names = [match[1] for part in specification.split("+") if (match := _PART.match(part))]
    parts = [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]
    starts = [0, *(np.flatnonzero(positions[1:] <= positions[:-1]) + 1).tolist(), len(positions)]
    if 1 < len(parts) == len(starts) - 1:
        for name in dict.fromkeys(parts):
            own = [
                np.arange(*ends)
                for part, ends in zip(parts, itertools.pairwise(starts), strict=True)
                if part == name
            ]
            yield RowSlice("source", name, np.concatenate(own))


def score_slices(slices: Iterable[RowSlice], split: SplitPredictions) -> list[SliceMetrics]:
    """Return the metrics of each slice, the primary metric with its interval.

    Each slice is scored before the next is made.
    """
    scored = []
    for row_slice in slices:
        labels, predictions = split.labels[row_slice.rows], split.values[row_slice.rows]
        estimate = primary_interval(split.primary, labels, predictions, average=split.average)
        metrics = {split.primary.name: estimate.value, "low": estimate.low, "high": estimate.high}
        if row_slice.by != "label":  # where all rows have the same label, it is meaningless
            metric = split.task.slice_metric
            metrics[metric.name] = compute_metric(metric, labels, predictions, split.average)
        scored.append(
            SliceMetrics.model_validate(
                {"by": row_slice.by, "slice": row_slice.name, "rows": len(labels), **metrics}
            )
        )
    return scored


def slices_report(scored: Sequence[SliceMetrics], metric: str) -> Slices:
    """Return every slice, the smallest one, and the one of at least ``ENOUGH_ROWS`` rows with the worst primary metric."""
    large = [slice_metrics for slice_metrics in scored if slice_metrics.rows >= ENOUGH_ROWS]
    return Slices(
        metric=metric,
        level=LEVEL,
        smallest=min(scored, key=lambda slice_metrics: slice_metrics.rows, default=None),
        worst=min(large, key=lambda slice_metrics: slice_metrics.metrics[metric], default=None),
        slices=scored,
    )


def read_baselines(path: Path, rows: int) -> dict[str, NDArray[Any]]:
    """Read the predictions of the simple models for the reported split, by name; each of shape ``(rows,)``."""
    table = read_table(require(path, made_by="baseline"))
    if len(table) != rows:
        raise DataError(
            f"{path} has {len(table):,} rows, and the reported split has {rows:,}.",
            "Run `dvc repro baseline`.",
        )
    return {name: table[name].to_numpy() for name in table.column_names}


def baseline_metrics(split: SplitPredictions, model: str, predictions: NDArray[Any]) -> dict[str, float]:
    """Return the metrics of a simple model that are defined for it, and the interval of the difference between the trained model and it.

    Those of the majority are ``majority_accuracy`` and ``majority_f1``; for a regression ``mean_mse``, its
    correlations are undefined.
    """
    every = {metric.of_baseline(model): metric for metric in split.task.metrics if metric.of_predictions}
    metrics = {
        key: compute_metric(metric, split.labels, predictions, split.average)
        for key, metric in every.items()
        if key
    }
    if split.primary.of_baseline(model) not in metrics:
        return metrics
    difference = paired_difference(
        split.primary, split.labels, split.values, predictions, average=split.average, seed=split.seed
    )
    return metrics | dict(zip(split.primary.over(model), (difference.low, difference.high), strict=True))


def spread_metrics(split: SplitPredictions) -> dict[str, float]:
    """Return the interval of the primary metric, and how the predictions spread: what tells a collapsed model."""
    estimate = primary_interval(
        split.primary, split.labels, split.values, average=split.average, seed=split.seed
    )
    metrics: dict[str, float] = dict(zip(split.primary.ends, (estimate.low, estimate.high), strict=True))
    return metrics | split.task.spread(split.values, split.labels)
