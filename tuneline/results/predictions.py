"""Predictions on the reported split: confusion matrix, metrics of each class, and the largest errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.core.arrays import Floats
from tuneline.core.tables import SplitReader
from tuneline.evaluation.keys import baseline_key
from tuneline.evaluation.table import ALL_METRICS
from tuneline.metrics.judging import averaging
from tuneline.metrics.scores import confusion_matrix
from tuneline.metrics.stats import Estimate, metric_interval
from tuneline.predictions.files import PredictedLogits, read_logits
from tuneline.results.largest_errors import error_size_text, error_sizes, errors_note, thresholds_by_name
from tuneline.results.verdict.facts import PRIMARY_METRICS, rivals
from tuneline.results.verdict.rules import judge_errors
from tuneline.results.verdict.words import statement
from tuneline.runtime.errors import DataError
from tuneline.words.label_texts import label_text
from tuneline.words.titles import title_of

MAX_CONFUSED_PAIRS = 15
MAX_ERRORS = 20


@dataclass(frozen=True)
class ReportedPredictions(PredictedLogits):
    """Predictions of the trained model on the reported split, and what the page shows of them."""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read ``reports/predictions.parquet``; ``None`` if the file is missing or invalid."""
        try:
            predictions = read_logits(path)
        except (DataError, OSError):
            return None
        return cls(predictions.labels, predictions.logits, predictions.task, predictions.clusters)

    @property
    def errors(self) -> NDArray[np.bool_]:
        """Which predictions are errors, of shape ``(rows,)``."""
        return self.task.errors(self.predicted, self.labels)

    @property
    def error_sizes(self) -> Floats:
        """By what errors are ordered, of shape ``(rows,)``."""
        return error_sizes(self.task, self.logits, self.labels)

    @property
    def classes(self) -> "list[ClassMetrics]":
        """The metrics of each class; empty for numbers."""
        predicted = self.predicted
        thresholds = thresholds_by_name(self.task)
        classes = []
        for index, name in enumerate(self.task.class_names):
            has_class = self.task.members(self.labels, index)
            gets_class = self.task.members(predicted, index)
            classes.append(
                ClassMetrics.of(
                    name,
                    labelled=int(has_class.sum()),
                    predicted=int(gets_class.sum()),
                    correct=int((has_class & gets_class).sum()),
                    threshold=thresholds.get(name),
                )
            )
        return classes

    @property
    def about_errors(self) -> str:
        """What the largest errors are, in words."""
        if errors_note(self.task):
            return errors_note(self.task)
        confidences = self.error_sizes
        finding = judge_errors(confidences.tolist(), confidences[self.errors].tolist())
        if finding is None:
            return ""
        return statement(finding).sentence


@dataclass(frozen=True)
class ClassMetrics:
    """Number of rows and metrics of one class; a metric is ``None`` where it is undefined.

    Attributes:
        threshold: Probability above which a row gets the class; ``None`` where the most probable class is
            predicted.
    """

    name: str
    rows: int
    precision: float | None
    recall: float | None
    f1: float | None
    threshold: float | None = None

    @classmethod
    def of(
        cls, name: str, *, labelled: int, predicted: int, correct: int, threshold: float | None = None
    ) -> Self:
        """Return the metrics, given the rows that have the class, the rows that get it, and both."""
        return cls(
            name,
            rows=labelled,
            precision=_quotient(correct, predicted),
            recall=_quotient(correct, labelled),
            f1=_quotient(2 * correct, labelled + predicted),
            threshold=threshold,
        )


@dataclass(frozen=True)
class Confusion:
    """Confusion matrix, shape ``(classes, classes)`` with labels in rows, and what follows from it.

    ``most_confused`` has the most frequent errors: label, prediction, rows.
    """

    names: Sequence[str]
    counts: Floats
    most_confused: list[tuple[str, str, int]]

    @classmethod
    def of(cls, predictions: ReportedPredictions) -> Self | None:
        """Return the confusion matrix; ``None`` unless a row has one class."""
        if not predictions.task.one_class:
            return None
        names = predictions.task.class_names
        counts = confusion_matrix(predictions.labels, predictions.predicted, len(names))

        # errors, the most frequent first
        errors = counts.copy()
        np.fill_diagonal(errors, 0)
        most_confused = []
        for index in np.argsort(-errors, axis=None, kind="stable")[:MAX_CONFUSED_PAIRS]:
            label, predicted = np.unravel_index(index, errors.shape)
            rows = int(errors[label, predicted])
            if rows > 0:
                most_confused.append((names[label], names[predicted], rows))
        return cls(names, counts, most_confused)

    def fraction(self, label: int, predicted: int) -> float:
        """Return the fraction of a label's rows with the given prediction; 0 for a label without rows."""
        return _quotient(self.counts[label, predicted], self.counts[label].sum()) or 0.0


def _quotient(part: float, whole: float) -> float | None:
    """Return the quotient; ``None`` where the whole is 0, which leaves a metric undefined."""
    return float(part / whole) if whole else None


@dataclass(frozen=True)
class ModelError:
    """A row with a wrong prediction; label and prediction are class names or numbers.

    Attributes:
        texts: Name and text of each text column.
        size: As ``Task.error_sizes`` has it: a probability, or the absolute error of a number.
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
    """Return the wrong predictions with the highest probability, or the largest errors of numbers."""
    task = predictions.task
    predicted = predictions.predicted
    sizes = predictions.error_sizes

    wrong = np.flatnonzero(predictions.errors)
    rows = wrong[np.argsort(-sizes[wrong], kind="stable")][:MAX_ERRORS]
    errors = []
    for row, texts in zip(rows.tolist(), read_texts(raw, rows, text_columns), strict=True):
        size = float(sizes[row])
        errors.append(
            ModelError(
                row,
                texts,
                label=label_text(task, predictions.labels[row]),
                predicted=label_text(task, predicted[row]),
                size=size,
                measure=error_size_text(task, size),
            )
        )
    return errors


def read_texts(
    raw: SplitReader | None, rows: NDArray[np.int64], text_columns: Sequence[str]
) -> list[list[tuple[str, str]]]:
    """Return column names and texts of rows, in their order; no texts where the split is another one."""
    columns = []
    if raw is not None and rows.max(initial=-1) < raw.rows:
        columns = [name for name in text_columns if name in raw.schema.names]
    if raw is None or not columns:
        return [[] for _ in rows]

    # ``raw.take`` needs ascending rows; the second ``take`` restores the order.
    order = np.argsort(rows)
    table = raw.take(rows[order], columns).take(np.argsort(order))
    # a missing text is an empty one
    texts = []
    for values in table.to_pylist():
        texts.append([(name, str(values[name] or "")) for name in columns])
    return texts


TOLERANCE = 1e-5
"""Largest difference between a metric computed here and in ``metrics/evaluate.json``.

With a larger one, the metrics are of other predictions.
"""


@dataclass(frozen=True)
class Headline:
    """One metric and what it is compared with.

    Attributes:
        name: Key in ``metrics/evaluate.json``.
        simple: The metric of the simple models, by their title.
        stale: True if the metrics were computed from other predictions.
    """

    name: str
    value: float
    interval: Estimate | None = None
    simple: Mapping[str, float] = field(default_factory=dict)
    stale: bool = False

    @property
    def title(self) -> str:
        """The metric's name for people."""
        return title_of(self.name)


def headline(
    metrics: Mapping[str, float],
    params: Mapping[str, Any],
    predictions: ReportedPredictions | None,
    frozen: bool = False,
) -> Headline | None:
    """Choose the headline metric, ``train.metric`` if it was measured on the reported split, and compare it.

    ``frozen`` says that the model is the linear one on the frozen checkpoint.
    """
    # metric
    name = params.get("train.metric")
    if name not in ALL_METRICS or name not in metrics:
        name = next((metric.name for metric in PRIMARY_METRICS if metric.name in metrics), None)
    if name is None:
        return None
    metric = ALL_METRICS[name]

    # simple models
    simple = {}
    for model, title in rivals(frozen).items():
        key = baseline_key(metric, model)
        if key and key in metrics:
            simple[title] = metrics[key]

    # interval, unless the predictions are not the ones that were measured
    interval = interval_of(name, params, predictions)
    if interval is not None and abs(interval.value - metrics[name]) > TOLERANCE:
        return Headline(name, metrics[name], simple=simple, stale=True)

    return Headline(name, metrics[name], interval, simple)


def interval_of(
    name: str, params: Mapping[str, Any], predictions: ReportedPredictions | None
) -> Estimate | None:
    """Return a metric with its interval; ``None`` without predictions, or for a metric without interval."""
    if predictions is None or len(predictions.labels) == 0:
        return None
    return metric_interval(
        ALL_METRICS[name],
        predictions.labels,
        predictions.predicted,
        average=averaging(predictions.task),
        seed=int(params.get("seed") or 0),
        clusters=predictions.clusters,
    )
