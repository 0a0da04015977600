"""Predictions on the reported split: confusion matrix, metrics of each class, and the largest errors with their texts."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.curves import Softmax
from tuneline.files.schemas import read_table
from tuneline.files.shards import SplitReader
from tuneline.scores import confusion_matrix
from tuneline.stats import Floats

MAX_MATRIX_CLASSES = 14
"""With more classes, the page lists the most frequent confusions instead of the matrix."""
MAX_CONFUSED_PAIRS = 15
MAX_ERRORS = 20
PREVIEW_LENGTH = 280
"""Characters shown of a collapsed text; texts over twice as long are collapsed."""


@dataclass(frozen=True)
class Predictions:
    """Predictions of the trained model on the reported split.

    Attributes:
        labels: int64 class ids or float32 numbers, of shape ``(rows,)``.
        logits: float32 of shape ``(rows, outputs)``.
        names: Class names; ``None`` for a regression.
    """

    labels: NDArray[Any]
    logits: NDArray[np.float32]
    names: tuple[str, ...] | None

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read ``reports/predictions.parquet``; ``None`` if the file is missing or invalid."""
        if not path.is_file():
            return None
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            table = read_table(path, ["idx", "label", "logits"])
            feature = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["label"]
            order = np.argsort(table["idx"].to_numpy(), kind="stable")
            logits = pc.list_flatten(table["logits"]).to_numpy().reshape(len(table), -1)[order].astype(np.float32)
            return cls(table["label"].to_numpy()[order], logits, tuple(feature["names"]) if "names" in feature else None)
        except (pa.ArrowException, KeyError, TypeError, ValueError, OSError):
            return None

    @property
    def predicted(self) -> NDArray[Any]:
        """Predicted class ids, or predicted numbers in a regression, of shape ``(rows,)``."""
        return self.logits[:, 0] if self.names is None else self.logits.argmax(axis=1)


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
    """Confusion matrix and what follows from it.

    Attributes:
        names: Class names.
        counts: Shape ``(classes, classes)``; rows are labels, columns are predictions.
        classes: Metrics of each class.
        most_confused: Largest counts off the diagonal: label, prediction, rows.
    """

    names: Sequence[str]
    counts: Floats
    classes: list[ClassMetrics]
    most_confused: list[tuple[str, str, int]]

    @property
    def is_small(self) -> bool:
        """True if the matrix is small enough to be shown."""
        return len(self.names) <= MAX_MATRIX_CLASSES

    def fraction(self, label: int, predicted: int) -> float:
        """Return the fraction of a label's rows with the given prediction."""
        total = self.counts[label].sum()
        return float(self.counts[label, predicted] / total) if total else 0.0


def compute_confusion(predictions: Predictions) -> Confusion:
    """Return the confusion matrix of a classification and the metrics of its classes."""
    names = predictions.names or ()
    counts = confusion_matrix(predictions.labels, predictions.predicted, len(names))
    errors = counts.copy()
    np.fill_diagonal(errors, 0)
    largest = [np.unravel_index(index, errors.shape) for index in np.argsort(-errors, axis=None, kind="stable")[:MAX_CONFUSED_PAIRS]]
    most_confused = [(names[label], names[other], int(errors[label, other])) for label, other in largest if errors[label, other] > 0]
    return Confusion(names, counts, [_class_metrics(name, index, counts) for index, name in enumerate(names)], most_confused)


def _class_metrics(name: str, index: int, counts: Floats) -> ClassMetrics:
    correct, labelled, predicted = counts[index, index], counts[index].sum(), counts[:, index].sum()
    return ClassMetrics(
        name,
        int(labelled),
        float(correct / predicted) if predicted else None,
        float(correct / labelled) if labelled else None,
        float(2 * correct / (labelled + predicted)) if labelled + predicted else None,
    )


@dataclass(frozen=True)
class ModelError:
    """A row with a wrong prediction.

    Attributes:
        row: Row index in the reported split.
        texts: Name and text of each text column.
        label: Class name or number.
        predicted: Class name or number.
        size: Probability of the predicted class; in a regression, the absolute error.
    """

    row: int
    texts: list[tuple[str, str]]
    label: str
    predicted: str
    size: float

    @property
    def is_long(self) -> bool:
        """True if the page shows the text collapsed."""
        return sum(len(text) for _, text in self.texts) > 2 * PREVIEW_LENGTH

    @property
    def preview(self) -> str:
        """First characters of the text."""
        return " ".join(text for _, text in self.texts)[:PREVIEW_LENGTH]


def largest_errors(predictions: Predictions, raw: SplitReader | None, text_columns: Sequence[str]) -> list[ModelError]:
    """Return the wrong predictions with the highest probability, or the largest absolute errors of a regression.

    Args:
        predictions: Predictions on the reported split.
        raw: The reported split with its texts, in the same order; ``None`` if it is missing.
        text_columns: Its columns to show.
    """
    if predictions.names is None:
        sizes = np.abs(predictions.predicted - predictions.labels)
        wrong = np.arange(len(sizes))
    else:
        sizes = Softmax.of(predictions.logits).highest
        wrong = np.flatnonzero(predictions.predicted != predictions.labels)
    rows = wrong[np.argsort(-sizes[wrong], kind="stable")][:MAX_ERRORS]
    texts = read_texts(raw, rows, text_columns)
    return [
        ModelError(
            row, text, _format(predictions, predictions.labels[row]), _format(predictions, predictions.predicted[row]), float(sizes[row])
        )
        for row, text in zip(rows.tolist(), texts, strict=True)
    ]


def _format(predictions: Predictions, value: Any) -> str:
    return f"{value:.4g}" if predictions.names is None else predictions.names[int(value)]


def read_texts(raw: SplitReader | None, rows: NDArray[np.int64], text_columns: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return column names and texts of the given rows, in their order; no texts if the split is missing or does not fit."""
    columns = [name for name in text_columns if raw and name in raw.schema.names]
    if raw is None or not columns or rows.max(initial=-1) >= raw.rows:
        return [[] for _ in rows]
    order = np.argsort(rows)
    texts = raw.take(rows[order], columns).take(np.argsort(order)).to_pylist()
    return [[(name, str(values[name] or "")) for name in columns] for values in texts]
