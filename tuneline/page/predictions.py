"""Predictions on the reported split: confusion matrix, metrics of each class, and the largest errors."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.tables import SplitReader
from tuneline.judge.metrics.predictions import Predictions, read_predictions
from tuneline.judge.metrics.scores import confusion_matrix
from tuneline.model.tasks import Multilabel, Task
from tuneline.model.tasks.multilabel import NO_LABELS
from tuneline.model.tasks.probabilities import likelihoods
from tuneline.model.tasks.task import Floats
from tuneline.page.verdict.facts import present_predictions
from tuneline.page.verdict.rules import judge_errors

MAX_CONFUSED_PAIRS = 15
MAX_ERRORS = 20


def read_reported(root: Path) -> Predictions | None:
    """Read the predictions of the present run; ``None`` if they are missing, invalid, or of another run."""
    path = present_predictions(root)
    if path is None:
        return None
    try:
        return read_predictions(path, with_logits=True)
    except (DataError, OSError):
        return None


def error_name(task: Task) -> str:
    """Return the name of the size of an error."""
    if task.has_classes:
        return "confidence"
    return "error"


def error_sizes(predictions: Predictions) -> Floats:
    """Return by what errors are ordered, shape ``(rows,)``: confidence, or distance from the label.

    Of several labels it is the confidence of the wrong decision that the model is surest of; where all
    decisions are right, of the decision that it is least sure of.
    """
    task = predictions.task
    scores = task.scores(predictions.logits)
    if not task.has_classes:
        return np.asarray(np.abs(predictions.values - predictions.labels), dtype=np.float64)
    decided = task.decide(scores)
    if not task.label_shape:
        return task.confidence(scores, decided)
    confidence = likelihoods(scores, decided)
    wrong = decided != predictions.labels
    most_confident_error = np.where(wrong, confidence, 0.0).max(axis=1)
    return np.asarray(np.where(wrong.any(axis=1), most_confident_error, confidence.min(axis=1)))


def ordered_errors(predictions: Predictions) -> tuple[NDArray[np.int64], Floats]:
    """Return the rows with a wrong prediction, of numbers all rows, and their sizes, the largest first."""
    sizes = error_sizes(predictions)
    rows = np.flatnonzero(predictions.errors)
    rows = rows[np.argsort(-sizes[rows], kind="stable")]
    return rows, sizes[rows]


def about_errors(predictions: Predictions) -> str:
    """Return what the largest errors are, in words."""
    if predictions.task.label_shape:
        return (
            "Rows that do not get exactly their labels. The confidence is of the wrong decision on a label"
            " that the model is surest of."
        )
    if not predictions.task.has_classes:
        return "The predictions farthest from their labels."
    confidences = error_sizes(predictions)
    return judge_errors(confidences.tolist(), confidences[predictions.errors].tolist())


class ClassMetrics(NamedTuple):
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
    threshold: float | None


def class_metrics(predictions: Predictions) -> list[ClassMetrics]:
    """Return the metrics of each class; none for numbers."""
    task = predictions.task
    thresholds: list[float | None] = [None] * len(task.class_names)
    if isinstance(task, Multilabel):
        thresholds = task.cuts.tolist()
    classes = []
    for index, name in enumerate(task.class_names):
        has_class = task.members(predictions.labels, index)
        gets_class = task.members(predictions.values, index)
        rows = int(has_class.sum())
        times = int(gets_class.sum())
        correct = int((has_class & gets_class).sum())
        classes.append(
            ClassMetrics(
                name,
                rows,
                precision=_quotient(correct, times),
                recall=_quotient(correct, rows),
                f1=_quotient(2 * correct, rows + times),
                threshold=thresholds[index],
            )
        )
    return classes


class Confusion(NamedTuple):
    """Confusion matrix, shape ``(classes, classes)`` with labels in rows, and what follows from it.

    ``most_confused`` has the most frequent errors: label, prediction, rows.
    """

    names: Sequence[str]
    counts: Floats
    most_confused: list[tuple[str, str, int]]

    @classmethod
    def of(cls, predictions: Predictions) -> Self | None:
        """Return the confusion matrix; ``None`` unless a row has one class."""
        if not predictions.task.one_class:
            return None
        names = predictions.task.class_names
        counts = confusion_matrix(predictions.labels, predictions.values, len(names))

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
    if not whole:
        return None
    return float(part / whole)


def label_text(task: Task, label: Any) -> str:
    """Return a label or a prediction as people read it."""
    value = task.value(label)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "; ".join(value) or NO_LABELS
    return value


class ModelError(NamedTuple):
    """A row with a wrong prediction; label and prediction are class names or numbers.

    Attributes:
        texts: Name and text of each text column.
        measure: The size of the error with its name, as people read it.
    """

    row: int
    texts: list[tuple[str, str]]
    label: str
    predicted: str
    measure: str


def largest_errors(
    predictions: Predictions, raw: SplitReader | None, text_columns: Sequence[str]
) -> list[ModelError]:
    """Return the wrong predictions with the highest probability, or the largest errors of numbers."""
    task = predictions.task
    rows, sizes = ordered_errors(predictions)
    rows = rows[:MAX_ERRORS]
    errors = []
    texts_of_rows = read_texts(raw, rows, text_columns)
    for row, size, texts in zip(rows.tolist(), sizes[:MAX_ERRORS].tolist(), texts_of_rows, strict=True):
        measure = f"error {size:.3g}"
        if task.has_classes:
            measure = f"confidence {100 * size:.1f} %"
        label = label_text(task, predictions.labels[row])
        errors.append(ModelError(row, texts, label, label_text(task, predictions.values[row]), measure))
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
    texts = []
    for values in table.to_pylist():
        texts.append([(name, str(values[name] or "")) for name in columns])  # a missing text is empty
    return texts
