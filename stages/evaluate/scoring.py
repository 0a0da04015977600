"""Metrics of predictions: those of the pipeline, those that ``evaluate.metrics`` names, and those of the majority baseline."""

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

from tuneline.analysis.stats import LEVEL, Estimate, leak_difference, metric_interval, paired_difference
from tuneline.core.errors import DataError, StageError
from tuneline.core.files import full_disk
from tuneline.core.tables import ROW_GROUP, LabelSchema
from tuneline.metrics.scores import compute_metric, prediction_metrics, task_of
from tuneline.metrics.table import LEAKED_ROWS, METRIC_TABLE, Averaging, Metric, Task, metrics_for, primary_metric
from tuneline.reports.evaluation import SliceMetrics, Slices

os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")  # read when evaluate is imported: no telemetry when a metric is loaded

LIBRARY = "evaluate-metric"
"""Where the evaluate library keeps its own metrics on the Hub. Its loader takes a bare name for a local folder first."""


@dataclass(frozen=True)
class SplitPredictions:
    """Labels and predictions of the model for the reported split, shape ``(rows,)``; how F1 is averaged; the seed of the bootstrap."""

    labels: NDArray[Any]
    values: NDArray[Any]
    schema: LabelSchema
    average: Averaging
    seed: int

    @property
    def primary(self) -> Metric:
        """The primary metric of the task."""
        return primary_metric(task_of(self.schema))


def score(references: NDArray[Any], predictions: NDArray[Any], average: Averaging, others: Sequence[str] = ()) -> dict[str, float]:
    """Compute the metrics of the pipeline, then those of ``others``; of metrics with the same name, the last one counts.

    References, int64 classes or float32 numbers, and predictions have the shape ``(rows,)``. ``others`` are ``NAME`` or ``NAME:CONFIG`` of
    the evaluate library's own metrics; it takes seconds to import. Each must give finite numbers.
    """
    task: Task = "regression" if np.issubdtype(references.dtype, np.floating) else "classification"
    scores = prediction_metrics(task, references, predictions, average)
    for text in others:
        scores.update(_score_one(text, references, predictions, average))
    return scores


def _score_one(text: str, references: NDArray[Any], predictions: NDArray[Any], average: str) -> dict[str, float]:
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
            f"evaluate.metrics: {name!r} cannot score this: {error}", "It must score predictions against references."
        ) from None
    numbers = {key: float(value) for key, value in result.items() if np.ndim(value) == 0 and not isinstance(value, str)}
    if not numbers or not all(map(np.isfinite, numbers.values())):
        raise StageError(f"evaluate.metrics: {name!r} gives no finite numbers: {dict(result)}", "Leave it out.")
    return numbers


def baseline_metrics(
    train: Iterable[NDArray[Any]], labels: NDArray[Any], label_schema: LabelSchema, average: Averaging
) -> dict[str, float]:
    """Return metrics of the majority baseline: always the most frequent class of the train split (labels in batches), or its mean.

    They are ``majority_accuracy`` and ``majority_f1``; for a regression ``mean_mse`` (its correlations are undefined).
    """
    if label_schema.is_regression:
        total, rows = np.sum([(batch.sum(dtype=np.float64), len(batch)) for batch in train], axis=0)
        constant = np.full(len(labels), total / rows)
    else:
        counts = np.sum([np.bincount(batch, minlength=label_schema.outputs) for batch in train], axis=0)
        constant = np.full_like(labels, counts.argmax())
    metrics = [metric for metric in metrics_for(task_of(label_schema)) if metric.baseline]
    return {str(metric.baseline): compute_metric(metric, labels, constant, average) for metric in metrics}


CHECKS_OF_LEAKS = ("leakage", "near_duplicates")


def leaked_rows(folder: Path, split: str, rows: int) -> NDArray[np.bool_]:
    """Return which rows of a split repeat or resemble one of another split, by ``reports/checks/rows/`` of this data; shape ``(rows,)``."""
    leaked = np.zeros(rows, dtype=bool)
    for path in (folder / f"{check}.parquet" for check in CHECKS_OF_LEAKS):
        if path.exists():
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(ROW_GROUP, columns=["split", "row", "other_split"]):
                    inside = pc.and_(pc.equal(batch["split"], split), pc.not_equal(batch["other_split"], split))
                    named = batch["row"].filter(inside).to_numpy()
                    if named.max(initial=-1) >= rows:
                        raise DataError(f"{path} has rows of other data than the split {split!r}.", "Run `dvc repro validate`.")
                    leaked[named] = True
    return leaked


def leak_metrics(split: SplitPredictions, leaked: NDArray[np.bool_]) -> dict[str, float]:
    """Return the number of leaked rows and, if there are some and others, the primary metric without them, with its intervals."""
    metrics: dict[str, float] = {LEAKED_ROWS: int(leaked.sum())}
    if not leaked.any() or leaked.all():
        return metrics
    metric = split.primary
    difference = leak_difference(metric, split.labels, split.values, leaked, average=split.average, seed=split.seed)
    estimate = primary_interval(metric, split.labels[~leaked], split.values[~leaked], average=split.average, seed=split.seed)
    without = dict(zip(metric.without_leaks, (estimate.value, estimate.low, estimate.high), strict=True))
    return metrics | without | dict(zip(metric.from_leaks, (difference.low, difference.high), strict=True))


def primary_interval(metric: Metric, labels: NDArray[Any], predictions: NDArray[Any], **settings: Any) -> Estimate:
    """Return the primary metric with its interval, which the first metric of each task has."""
    estimate = metric_interval(metric, labels, predictions, **settings)
    if estimate is None:
        raise ValueError(f"{metric.name} has no interval; the first metric of a task in tuneline/metrics/table.py needs one")
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
    bucket = np.concatenate([np.searchsorted(_OVERLAPS[1:-1], batch, side="right").astype(np.int8) for batch in overlaps])
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

    The specification is as in ``data.splits``, for example ``train[90%:]+extra``; positions in the source rise within one of its splits.
    """
    names = [match[1] for part in specification.split("+") if (match := _PART.match(part))]
    parts = [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]
    starts = [0, *(np.flatnonzero(positions[1:] <= positions[:-1]) + 1).tolist(), len(positions)]
    if 1 < len(parts) == len(starts) - 1:
        for name in dict.fromkeys(parts):
            own = [np.arange(*ends) for part, ends in zip(parts, itertools.pairwise(starts), strict=True) if part == name]
            yield RowSlice("source", name, np.concatenate(own))


def score_slices(slices: Iterable[RowSlice], split: SplitPredictions) -> list[SliceMetrics]:
    """Return the metrics of each slice, the primary metric with its interval. Each slice is scored before the next is made."""
    scored = []
    for one in slices:
        labels, predictions = split.labels[one.rows], split.values[one.rows]
        estimate = primary_interval(split.primary, labels, predictions, average=split.average)
        metrics = {split.primary.name: estimate.value, "low": estimate.low, "high": estimate.high}
        if split.schema.is_regression:
            metrics["mse"] = compute_metric(METRIC_TABLE["mse"], labels, predictions)
        elif one.by != "label":  # F1 is meaningless where all rows have the same label
            metrics["f1"] = compute_metric(METRIC_TABLE["f1"], labels, predictions, split.average)
        scored.append(SliceMetrics.model_validate({"by": one.by, "slice": one.name, "rows": len(labels), **metrics}))
    return scored


def slices_report(scored: Sequence[SliceMetrics], metric: str) -> Slices:
    """Return every slice, the smallest one, and the one of at least ``ENOUGH_ROWS`` rows with the worst primary metric."""
    large = [one for one in scored if one.rows >= ENOUGH_ROWS]
    return Slices(
        metric=metric,
        level=LEVEL,
        smallest=min(scored, key=lambda one: one.rows, default=None),
        worst=min(large, key=lambda one: one.metrics[metric], default=None),
        slices=scored,
    )


def tfidf_metrics(split: SplitPredictions, baseline: NDArray[Any]) -> dict[str, float]:
    """Return the metrics of the TF-IDF baseline, and the interval of the difference between the model and it."""
    known = [metric for metric in metrics_for(task_of(split.schema)) if metric.of_predictions]
    metrics = {metric.tfidf: compute_metric(metric, split.labels, baseline, split.average) for metric in known}
    difference = paired_difference(split.primary, split.labels, split.values, baseline, average=split.average, seed=split.seed)
    return metrics | dict(zip(split.primary.over_tfidf, (difference.low, difference.high), strict=True))
