"""What the model answered: confusion matrix, figures per class, and the mistakes it was surest of."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuneline.cli.report.reading import Predictions
from tuneline.metrics import confusion_matrix
from tuneline.stats import Floats

MATRIX = 14
"""Classes up to which the whole matrix is shown."""
CONFUSED = 15
SHOWN = 20
LONG = 280
"""Characters shown of a text that is folded, because it has twice as many."""


@dataclass(frozen=True)
class ClassFigures:
    """One class."""

    name: str
    rows: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True)
class Confusion:
    """Which class was taken for which.

    Attributes:
        names: Of the classes.
        counts: Shape ``[classes, classes]``; rows are labels.
        classes: Figures per class.
        most: The largest numbers off the diagonal: label, answer, rows.
    """

    names: Sequence[str]
    counts: Floats
    classes: list[ClassFigures]
    most: list[tuple[str, str, int]]

    @property
    def fits(self) -> bool:
        """Whether the matrix is small enough to be read."""
        return len(self.names) <= MATRIX

    def share(self, row: int, column: int) -> float:
        """Share of a label's rows that got an answer."""
        total = self.counts[row].sum()
        return float(self.counts[row, column] / total) if total else 0.0


def confusion(predictions: Predictions) -> Confusion:
    """Counts labels against answers."""
    names = predictions.names or ()
    counts = confusion_matrix(predictions.labels, predictions.answers, len(names))
    off = counts.copy()
    np.fill_diagonal(off, 0)
    places = [np.unravel_index(place, off.shape) for place in np.argsort(-off, axis=None, kind="stable")[:CONFUSED]]
    most = [(names[label], names[answer], int(off[label, answer])) for label, answer in places if off[label, answer] > 0]
    return Confusion(names, counts, [_class(name, place, counts) for place, name in enumerate(names)], most)


def _class(name: str, place: int, counts: Floats) -> ClassFigures:
    right, labelled, answered = counts[place, place], counts[place].sum(), counts[:, place].sum()
    return ClassFigures(
        name,
        int(labelled),
        float(right / answered) if answered else None,
        float(right / labelled) if labelled else None,
        float(2 * right / (labelled + answered)) if labelled + answered else None,
    )


@dataclass(frozen=True)
class Mistake:
    """A row that the model got wrong.

    Attributes:
        row: Its place in the reported split.
        texts: Text column and text.
        label, answer: Class names, or numbers.
        sure: Probability of the answer; in a regression, how far off it is.
    """

    row: int
    texts: list[tuple[str, str]]
    label: str
    answer: str
    sure: float

    @property
    def is_long(self) -> bool:
        """Whether the text is folded."""
        return sum(len(text) for _, text in self.texts) > 2 * LONG

    @property
    def beginning(self) -> str:
        """What is shown of a folded text."""
        return " ".join(text for _, text in self.texts)[:LONG]


def mistakes(predictions: Predictions, raw: Path, text_columns: Sequence[str]) -> list[Mistake]:
    """The wrong answers of which the model was surest, or the numbers that are farthest off.

    Args:
        predictions: The model's.
        raw: The reported split with its texts, in the same order.
        text_columns: Columns of it to show.
    """
    if predictions.names is None:
        sure = np.abs(predictions.answers - predictions.labels)
        wrong = np.arange(len(sure))
    else:
        sure = predictions.probabilities.max(axis=1)
        wrong = np.flatnonzero(predictions.answers != predictions.labels)
    rows = wrong[np.argsort(-sure[wrong], kind="stable")][:SHOWN]
    texts = texts_of(raw, rows.tolist(), text_columns)
    return [
        Mistake(row, text, _said(predictions, predictions.labels[row]), _said(predictions, predictions.answers[row]), float(sure[row]))
        for row, text in zip(rows.tolist(), texts, strict=True)
    ]


def _said(predictions: Predictions, value: Any) -> str:
    return f"{value:.4g}" if predictions.names is None else predictions.names[int(value)]


def texts_of(raw: Path, rows: Sequence[int], text_columns: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Column names and texts of some rows, in their order; nothing where the file is not there or has other columns."""
    if not raw.is_file():
        return [[] for _ in rows]
    import pyarrow.parquet as pq

    columns = [name for name in text_columns if name in pq.read_schema(raw).names]
    table = pq.read_table(raw, columns=columns)
    if not rows or not columns or max(rows) >= table.num_rows:
        return [[] for _ in rows]
    return [[(name, str(values[name] or "")) for name in columns] for values in table.take(list(rows)).to_pylist()]
