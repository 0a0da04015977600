"""Predictions on the reported split: confusion matrix, metrics of each class, and the largest errors with their texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.core.errors import DataError
from tuneline.core.paths import PREDICTIONS
from tuneline.core.tables import SplitReader, read_table
from tuneline.metrics.scores import confusion_matrix
from tuneline.metrics.stats import Difference, Estimate, Floats, metric_interval, paired_difference
from tuneline.metrics.table import METRIC_TABLE
from tuneline.project.repo import PreviousResult
from tuneline.results.verdict import PRIMARY_METRICS, about_errors, rivals
from tuneline.tasks import Task, read_task

MAX_CONFUSED_PAIRS = 15
MAX_ERRORS = 20


@dataclass(frozen=True)
class ReportedPredictions:
    """Predictions of the trained model on the reported split.

    Attributes:
        labels: int64 class ids or float32 numbers, of shape ``(rows,)``.
        logits: float32 of shape ``(rows, outputs)``.
    """

    labels: NDArray[Any]
    logits: NDArray[np.float32]
    task: Task

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read ``reports/predictions.parquet``; ``None`` if the file is missing or invalid."""
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            table = read_table(path, ["idx", "label", "logits"])
            task = read_task(table.schema, "label")
            order = np.argsort(table["idx"].to_numpy(), kind="stable")
            logits = (
                pc.list_flatten(table["logits"]).to_numpy().reshape(len(table), -1)[order].astype(np.float32)
            )
            return cls(table["label"].to_numpy()[order], logits, task)
        except (DataError, pa.ArrowException, KeyError, ValueError, OSError):
            return None

    @property
    def predicted(self) -> NDArray[Any]:
        """Predicted class ids or numbers, of shape ``(rows,)``."""
        return self.task.predictions(self.logits)

    @property
    def errors(self) -> NDArray[np.bool_]:
        """Which predictions are errors, of shape ``(rows,)``."""
        return self.task.errors(self.predicted, self.labels)

    @property
    def error_sizes(self) -> Floats:
        """By what errors are ordered, of shape ``(rows,)``."""
        return self.task.error_sizes(self.logits, self.labels)

    @property
    def about_errors(self) -> str:
        """What the largest errors are, in words."""
        if self.task.errors_note:
            return self.task.errors_note
        confidences = self.error_sizes
        return about_errors(confidences.tolist(), confidences[self.errors].tolist())


@dataclass(frozen=True)
class ClassMetrics:
    """Number of rows and metrics of one class; a metric is ``None`` where it is undefined."""

    name: str
    rows: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True)
class Confusion:
    """Confusion matrix, shape ``(classes, classes)`` with labels in rows; and its largest errors: label, prediction, rows."""

    names: Sequence[str]
    counts: Floats
    classes: list[ClassMetrics]
    most_confused: list[tuple[str, str, int]]

    @classmethod
    def of(cls, predictions: ReportedPredictions) -> Self | None:
        """Return the confusion matrix and the metrics of the classes; ``None`` for numbers."""
        names = predictions.task.class_names
        if not names:
            return None
        counts = confusion_matrix(predictions.labels, predictions.predicted, len(names))
        errors = counts.copy()
        np.fill_diagonal(errors, 0)
        largest = [
            np.unravel_index(index, errors.shape)
            for index in np.argsort(-errors, axis=None, kind="stable")[:MAX_CONFUSED_PAIRS]
        ]
        most_confused = [
            (names[label], names[other], int(errors[label, other]))
            for label, other in largest
            if errors[label, other] > 0
        ]
        classes = []
        for name, correct, labelled, predicted in zip(
            names, np.diag(counts), counts.sum(axis=1), counts.sum(axis=0), strict=True
        ):
            pairs = (correct, predicted), (correct, labelled), (2 * correct, labelled + predicted)
            classes.append(
                ClassMetrics(
                    name, int(labelled), *(float(part / whole) if whole else None for part, whole in pairs)
                )
            )
        return cls(names, counts, classes, most_confused)

    def fraction(self, label: int, predicted: int) -> float:
        """Return the fraction of a label's rows with the given prediction."""
        total = self.counts[label].sum()
        return float(self.counts[label, predicted] / total) if total else 0.0


@dataclass(frozen=True)
class ModelError:
    """A row with a wrong prediction; label and prediction are class names or numbers.

    Attributes:
        texts: Name and text of each text column.
        size: Probability of the predicted class, or the absolute error of a number.
        measure: The size with its name, as people read it.
    """

    row: int
    texts: list[tuple[str, str]]
    label: str
    predicted: str
    size: float
    measure: str


def largest_errors(
    predictions: ReportedPredictions, raw: SplitReader | None, text_columns: Sequence[str]
) -> list[ModelError]:
    """Return the wrong predictions with the highest probability, or the largest absolute errors of numbers, with their texts."""
    task, labels, predicted, sizes = (
        predictions.task,
        predictions.labels,
        predictions.predicted,
        predictions.error_sizes,
    )
    wrong = np.flatnonzero(predictions.errors)
    rows = wrong[np.argsort(-sizes[wrong], kind="stable")][:MAX_ERRORS]
    errors = []
    for row, text in zip(rows.tolist(), read_texts(raw, rows, text_columns), strict=True):
        label, prediction, size = (
            task.label_text(labels[row]),
            task.label_text(predicted[row]),
            float(sizes[row]),
        )
        errors.append(ModelError(row, text, label, prediction, size, task.error_size_text(size)))
    return errors


def read_texts(
    raw: SplitReader | None, rows: NDArray[np.int64], text_columns: Sequence[str]
) -> list[list[tuple[str, str]]]:
    """Return column names and texts of the given rows, in their order; no texts if the split is missing or does not fit."""
    columns = [name for name in text_columns if raw and name in raw.schema.names]
    if raw is None or not columns or rows.max(initial=-1) >= raw.rows:
        return [[] for _ in rows]
    order = np.argsort(rows)
    texts = raw.take(rows[order], columns).take(np.argsort(order)).to_pylist()
    return [[(name, str(values[name] or "")) for name in columns] for values in texts]


TOLERANCE = 1e-5
"""Largest difference between a metric computed here from the predictions and the one in metrics/evaluate.json."""


@dataclass(frozen=True)
class Headline:
    """One metric and what it is compared with.

    Attributes:
        name: Key in ``metrics/evaluate.json``.
        previous_interval: Interval of the previous value, where its predictions are still in the cache.
        change: From the previous result to this one, on the same rows.
        simple: The metric of the simple models, by their title.
        stale: True if the metrics were computed from other predictions.
    """

    name: str
    value: float
    interval: Estimate | None = None
    simple: Mapping[str, float] = field(default_factory=dict)
    previous: PreviousResult | None = None
    previous_interval: Estimate | None = None
    change: Difference | None = None
    stale: bool = False

    @property
    def title(self) -> str:
        """The metric's name for people."""
        return METRIC_TABLE[self.name].title

    @property
    def previous_value(self) -> float | None:
        """The metric of the previous result."""
        return self.previous.metrics.get(self.name) if self.previous else None

    @property
    def against_previous(self) -> str:
        """Comparison with the previous result, in words."""
        if self.change is None:
            return ""
        gains = [
            one if METRIC_TABLE[self.name].greater_is_better else -one
            for one in (self.change.low, self.change.high)
        ]
        return (
            "clearly better"
            if min(gains) > 0
            else "clearly worse"
            if max(gains) < 0
            else "no clear difference"
        )


def headline(
    metrics: Mapping[str, float],
    params: Mapping[str, Any],
    predictions: ReportedPredictions | None,
    previous: PreviousResult | None,
    frozen: bool = False,
) -> Headline | None:
    """Choose the headline metric, ``train.metric`` if it was measured on the reported split, and compare it.

    ``frozen`` says that the model is the linear one on the frozen checkpoint.
    """
    candidates = (params.get("train.metric"), *(metric.name for metric in PRIMARY_METRICS))
    name = next((name for name in candidates if name in METRIC_TABLE and name in metrics), None)
    if name is None:
        return None
    metric, value = METRIC_TABLE[name], metrics[name]
    simple = {
        title: metrics[key]
        for one, title in rivals(frozen).items()
        if (key := metric.of_baseline(one)) and key in metrics
    }
    interval = interval_of(name, params, predictions)
    if interval is not None and abs(interval.value - value) > TOLERANCE:
        return Headline(name, value, simple=simple, previous=previous, stale=True)
    cached = previous.file(PREDICTIONS.as_posix()) if previous else None
    before, change = ReportedPredictions.read(cached) if cached else None, None
    if before and not (
        predictions and before.task == predictions.task and np.array_equal(before.labels, predictions.labels)
    ):
        before = None
    if predictions and before and metric.resampled and len(predictions.labels):
        models = predictions.predicted, before.predicted
        change = paired_difference(metric, predictions.labels, *models, **_settings(params, predictions))
    return Headline(name, value, interval, simple, previous, interval_of(name, params, before), change)


def interval_of(
    name: str, params: Mapping[str, Any], predictions: ReportedPredictions | None
) -> Estimate | None:
    """Return a metric with its interval; ``None`` without predictions, or if the metric table gives it no interval."""
    if predictions is None or len(predictions.labels) == 0:
        return None
    return metric_interval(
        METRIC_TABLE[name], predictions.labels, predictions.predicted, **_settings(params, predictions)
    )


def _settings(params: Mapping[str, Any], predictions: ReportedPredictions) -> dict[str, Any]:
    average = predictions.task.averaging(params.get("evaluate.f1"))
    return {"average": average, "seed": int(params.get("seed") or 0)}
