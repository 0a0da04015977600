"""The plots of the reported split: CSV files that ``dvc plots`` shows."""

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.core.stage.tables import ROW_GROUP
from tuneline.judge.evaluation.curves import calibration, precision_recall_curve, roc_curve
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.scores import averaging
from tuneline.model.tasks.task import Logits

SCATTERED = 2_000
"""Most points of a scatter plot, evenly spaced rows."""


def plot_columns(predictions: Predictions) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the columns of each plot by the name of the plot.

    The plots of another kind of task have no rows.
    """
    task = predictions.task
    labels = predictions.labels
    logits = predictions.logits

    # regression
    scattered_labels = labels[:0]
    scattered_predictions = logits[:0, 0]
    if not task.has_classes:
        interval = math.ceil(len(labels) / SCATTERED)
        scattered_labels = labels[::interval]
        scattered_predictions = logits[::interval, 0]
        logits = np.empty((0, 1), dtype=np.float32)
        labels = np.empty(0, dtype=np.int64)

    # classes: without rows for a regression
    probability = task.scores(logits)
    average = averaging(task)
    positive = 1 if average == "macro" else average
    return {
        "scatter": {"actual": scattered_labels, "predicted": scattered_predictions},
        "roc": roc_curve(probability, labels, positive),
        "precision_recall": precision_recall_curve(probability, labels, positive),
        "calibration": calibration(probability, labels),
    }


def write_plots(folder: Path, predictions: Predictions) -> None:
    """Write every plot of one split.

    The plots of another kind of task get no rows: DVC warns of a missing file.
    """
    for name, columns in plot_columns(predictions).items():
        rows = zip(*columns.values(), strict=True)
        write_rows(folder / f"{name}.csv", list(columns), map(_rounded, rows))

    task = predictions.task
    confused: Iterable[tuple[str, str]] = ()
    if task.one_class:
        confused = _confused_classes(predictions.logits, predictions.labels, task.class_names)
    write_rows(folder / "confusion.csv", ("actual", "predicted"), confused)


def _confused_classes(
    logits: Logits, labels: NDArray[Any], names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the names of the actual and the predicted class of each row; a part of the rows is in memory."""
    name_of = np.array(names, dtype=object)
    for start in range(0, len(labels), ROW_GROUP):
        actual = labels[start : start + ROW_GROUP]
        predicted = logits[start : start + ROW_GROUP].argmax(axis=1)
        yield from zip(name_of[actual], name_of[predicted], strict=True)


def _rounded(numbers: Sequence[float]) -> list[str]:
    return [f"{number:.6g}" for number in numbers]


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV with a header.

    DVC puts names into a script of its page as they are, so ``<``, which could end the script, is a code.
    """
    with path.open("w", encoding="utf-8", newline="") as file:

        def write_escaped(line: str) -> int:
            return file.write(line.replace("<", r"\u003c"))

        writer = csv.writer(SimpleNamespace(write=write_escaped), lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
