"""Metrics of the predictions of the trained model, on its slices, and of the simple models."""

import inspect
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.evaluation.keys import (
    INDEPENDENT_ROWS,
    INDEPENDENT_WITHOUT_LEAKS,
    LEAKED_ROWS,
    WITHOUT_LEAKS,
    baseline_key,
    clean_keys,
    interval_keys,
    leak_keys,
    over_keys,
)
from tuneline.evaluation.probability_scores import probability_scores, slice_metric
from tuneline.evaluation.records import SliceMetrics, Slices
from tuneline.evaluation.spread import spread
from tuneline.evaluation.table import reported_metrics
from tuneline.metrics.functions import CustomMetric
from tuneline.metrics.judging import averaging, mean_loss, prediction_scores
from tuneline.metrics.scores import compute_metric
from tuneline.metrics.stats import LEVEL, Estimate, leak_difference, metric_interval, paired_difference
from tuneline.metrics.table import Averaging, Metric, primary_metric, project_metric
from tuneline.params import EvaluateParams
from tuneline.runtime.disk_errors import full_disk
from tuneline.runtime.errors import StageError
from tuneline.tasks import Task

# No telemetry when a metric is loaded: evaluate reads the variable when it is imported.
os.environ.setdefault("HF_UPDATE_DOWNLOAD_COUNTS", "0")

LIBRARY = "evaluate-metric"
"""Where the evaluate library keeps its own metrics on the Hub.

Its loader takes a bare name for a local folder first.
"""


@dataclass(frozen=True)
class SplitPredictions:
    """Labels and predictions of the model for the reported split.

    Attributes:
        labels: Labels of shape ``(rows, *Task.label_shape)``.
        values: Predictions of the same shape.
        task: The task.
        average: How F1 is averaged.
        seed: Seed of the bootstrap.
        metric: ``train.metric``.
        clusters: Cluster of each row, shape ``(rows,)``; ``None``: each row is on its own.
    """

    labels: NDArray[Any]
    values: NDArray[Any]
    task: Task
    average: Averaging
    seed: int
    metric: str | None = None
    clusters: NDArray[Any] | None = None

    def take(self, rows: NDArray[Any]) -> Self:
        """Return chosen rows, numbers or a mask."""
        clusters = None
        if self.clusters is not None:
            clusters = self.clusters[rows]
        return replace(self, labels=self.labels[rows], values=self.values[rows], clusters=clusters)

    def interval(self, metric: Metric) -> Estimate:
        """Return a metric with its interval.

        Raises:
            ValueError: It has none; the first metric of each task, and each that decides, has one.
        """
        estimate = metric_interval(
            metric,
            self.labels,
            self.values,
            average=self.average,
            seed=self.seed,
            clusters=self.clusters,
        )
        if estimate is None:
            raise ValueError(f"{metric.name} has no interval in tuneline/metrics/table.py")
        return estimate

    @property
    def deciding(self) -> Metric:
        """The metric that decides in this project."""
        return project_metric(self.task.metric_kind, self.metric)


def reported_scores(
    task: Task, labels: NDArray[Any], predictions: NDArray[Any], average: Averaging
) -> dict[str, float]:
    """Return every metric that predictions suffice to compute, by name: the metrics of training first."""
    scores = prediction_scores(task, labels, predictions, average)
    for metric in reported_metrics(task):
        if metric.of_predictions and metric.name not in scores:
            scores[metric.name] = compute_metric(metric, labels, predictions, average)
    return scores


def compute_metrics(
    task: Task,
    references: NDArray[Any],
    predictions: NDArray[Any],
    average: Averaging,
    others: Sequence[str] = (),
) -> dict[str, float]:
    """Compute the metrics of a task, then the metrics that ``others`` names.

    Of metrics with the same name, the last one counts.

    References and predictions have the shape ``(rows,)``. ``others`` are ``NAME`` or ``NAME:CONFIG`` of
    the evaluate library's own metrics; it takes seconds to import. Each must give finite numbers.
    """
    scores = reported_scores(task, references, predictions, average)
    for text in others:
        scores.update(_library_scores(text, references, predictions, average))
    return scores


def _library_scores(
    text: str, references: NDArray[Any], predictions: NDArray[Any], average: str
) -> dict[str, float]:
    """Return the numbers that one metric of the evaluate library gives, by name."""
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

    # score; a metric without the argument refuses it
    options = {}
    if "average" in inspect.signature(metric._compute).parameters:
        options["average"] = average
    try:
        result = metric.compute(references=references, predictions=predictions, **options)
    except (ValueError, TypeError) as error:
        raise StageError(
            f"evaluate.metrics: {name!r} cannot score this: {error}",
            "It must score predictions against references.",
        ) from None

    # scores: a metric may also give curves, tables and words
    numbers = {}
    for key, value in result.items():
        if np.ndim(value) == 0 and not isinstance(value, str):
            numbers[key] = float(value)
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
    """Return the metrics of one split.

    Args:
        params: Section ``evaluate`` of the parameters.
        labels: Class ids or numbers, shape ``(rows,)``.
        task: The task.
        logits: Logits, shape ``(rows, outputs)``.
        custom: Metrics of the user.
    """
    metrics = compute_metrics(
        task, labels, task.predictions(logits), averaging(task, params.f1), params.library_metrics
    )
    metrics["loss"] = mean_loss(task, logits, labels)
    metrics["rows"] = len(labels)
    metrics |= probability_scores(task, logits, labels)
    for metric in custom:
        metrics[metric.name] = metric.compute(logits, labels)
    return metrics


def leak_metrics(
    split: SplitPredictions,
    leaked: NDArray[np.bool_],
    baselines: Mapping[str, NDArray[Any]] | None = None,
) -> dict[str, float]:
    """Return the number of leaked rows, and the deciding metric without them, with its intervals.

    Without leaked rows, or without others, there is only the number. The comparisons with the simple models,
    whose predictions are the ``baselines``, are repeated without the leaked rows, too.
    """
    metrics: dict[str, float] = {LEAKED_ROWS: int(leaked.sum())}
    if not leaked.any() or leaked.all():
        return metrics

    # what the leaked rows change
    difference = leak_difference(
        split.deciding,
        split.labels,
        split.values,
        leaked,
        average=split.average,
        seed=split.seed,
        clusters=split.clusters,
    )
    low_key, high_key = leak_keys(split.deciding)
    metrics[low_key] = difference.low
    metrics[high_key] = difference.high

    # the other rows
    clean_baselines = {name: predictions[~leaked] for name, predictions in (baselines or {}).items()}
    return metrics | _clean_metrics(split.take(~leaked), clean_baselines)


def _clean_metrics(clean: SplitPredictions, baselines: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """Return the deciding metric of the rows that are not leaked, of the model and of the simple models."""
    metric = clean.deciding
    estimate = clean.interval(metric)
    value_key, low_key, high_key = clean_keys(metric)
    metrics = {value_key: estimate.value, low_key: estimate.low, high_key: estimate.high}
    if clean.clusters is not None:
        metrics[INDEPENDENT_WITHOUT_LEAKS] = len(np.unique(clean.clusters))
    for model, predictions in baselines.items():
        compared_keys = (baseline_key(metric, model), *over_keys(metric, model))
        for key, value in baseline_metrics(clean, model, predictions).items():
            if key in compared_keys:
                metrics[f"{key}{WITHOUT_LEAKS}"] = value
    return metrics


ENOUGH_ROWS = 20
"""Fewest rows of a slice that can be the worst: with fewer, its interval is too wide."""
_OVERLAPS = (0.0, 0.25, 0.5, 0.75, 1.0)
_WORD = re.compile(r"\w+")
_PART = re.compile(r"\s*([\w.]+)")


@dataclass(frozen=True)
class RowSlice:
    """Rows of the reported split with a common property.

    ``by`` is the property: ``length``, ``overlap``, ``label`` or ``source``. ``name`` is its value.
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


def overlap_slices(batches: Iterable[Sequence[Sequence[str]]]) -> Iterator[RowSlice]:
    """Yield slices by the words that the two texts of a row share.

    The measure is the Jaccard index (1912) of their sets of lower-case words.
    """
    buckets = []
    for batch in batches:
        overlaps = [_overlap(first, second) for first, second in zip(*batch, strict=True)]
        buckets.append(np.searchsorted(_OVERLAPS[1:-1], overlaps, side="right").astype(np.int8))
    bucket = np.concatenate(buckets)

    for index, (low, high) in enumerate(itertools.pairwise(_OVERLAPS)):
        rows = np.flatnonzero(bucket == index)
        if len(rows):
            yield RowSlice("overlap", f"{low:.0%} to {high:.0%} of the words shared", rows)


def _overlap(first: str, second: str) -> float:
    """Return the number of words in both texts by the number of words in either; 0 without words."""
    first_words = set(_WORD.findall(first.lower()))
    second_words = set(_WORD.findall(second.lower()))
    return len(first_words & second_words) / max(len(first_words | second_words), 1)


def label_slices(labels: NDArray[Any], task: Task) -> Iterator[RowSlice]:
    """Yield one slice for each class that occurs. Accuracy within it is the recall of the class."""
    for index, name in enumerate(task.class_names):
        rows = np.flatnonzero(task.members(labels, index))
        if len(rows):
            yield RowSlice("label", name, rows)


def source_slices(specification: str, positions: NDArray[np.int64]) -> Iterator[RowSlice]:
    """Yield one slice for each split of the source that the rows were drawn from.

    There is none if the source has one split or it is unknown.

    The specification is as in ``data.splits``, for example ``train[90%:]+extra``; positions in the source
    rise within one of its splits.
    """
    # splits of the source, in order: "train[:10%]+train[90%:]" is one part, because its positions rise
    parts: list[str] = []
    for text in specification.split("+"):
        match = _PART.match(text)
        if match and match[1] not in parts[-1:]:
            parts.append(match[1])

    # runs of rising positions, one for each part, or else the parts are unknown
    falls = np.flatnonzero(positions[1:] <= positions[:-1]) + 1
    runs = np.split(np.arange(len(positions)), falls)
    if len(parts) < 2 or len(parts) != len(runs):
        return
    rows_by_part: dict[str, list[NDArray[np.int64]]] = {}
    for part, rows in zip(parts, runs, strict=True):
        rows_by_part.setdefault(part, []).append(rows)
    for name, rows_of_part in rows_by_part.items():
        yield RowSlice("source", name, np.concatenate(rows_of_part))


def score_slices(slices: Iterable[RowSlice], split: SplitPredictions) -> list[SliceMetrics]:
    """Return the metrics of each slice, the primary metric of the task with its interval.

    The metric that decides in the project need not be defined in a slice: F1 and correlations compare
    classes, and a slice may have one. So slices are compared by accuracy, which is the recall where a slice
    is a class, and the metric that decides stands beside it.

    Each slice is scored before the next is made.
    """
    compared = primary_metric(split.task.metric_kind)
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


def baseline_metrics(split: SplitPredictions, model: str, predictions: NDArray[Any]) -> dict[str, float]:
    """Return the metrics of a simple model that are defined for it, with the interval of the difference.

    The difference is of the metric that decides, ``trained model - simple model``.

    The majority has ``majority_accuracy`` and ``majority_f1``; a regression has ``mean_mse``, because the
    correlations of a constant are undefined.
    """
    scores = reported_scores(split.task, split.labels, predictions, split.average)
    metrics = {}
    for metric in reported_metrics(split.task):
        key = baseline_key(metric, model)
        if key and metric.name in scores:
            metrics[key] = scores[metric.name]
    # The difference is paired: both models are scored on the same resampled rows.
    if baseline_key(split.deciding, model) not in metrics:
        return metrics

    difference = paired_difference(
        split.deciding,
        split.labels,
        split.values,
        predictions,
        average=split.average,
        seed=split.seed,
        clusters=split.clusters,
    )
    low_key, high_key = over_keys(split.deciding, model)
    metrics[low_key] = difference.low
    metrics[high_key] = difference.high
    return metrics


def spread_metrics(split: SplitPredictions) -> dict[str, float]:
    """Return the interval of the deciding metric, and the spread that tells a collapsed model."""
    estimate = split.interval(split.deciding)
    low_key, high_key = interval_keys(split.deciding)
    metrics = {low_key: estimate.low, high_key: estimate.high}
    if split.clusters is not None:
        metrics[INDEPENDENT_ROWS] = len(np.unique(split.clusters))
    return metrics | spread(split.task, split.values, split.labels)
