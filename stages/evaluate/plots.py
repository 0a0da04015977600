"""Files of ``plots/evaluation/``, for the templates that dvc.yaml gives them."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.curves import Columns, calibration, precision_recall_curve, probabilities, roc_curve
from tuneline.files.schemas import LabelSchema
from tuneline.records.evaluation import Slices

SCATTERED = 2_000
"""Most points of a scatter plot, evenly spaced rows."""


def write_plots(folder: Path, logits: NDArray[np.float32], labels: NDArray[Any], label_schema: LabelSchema) -> None:
    """Write every plot of one split. Plots of the other task get a header and no rows: DVC warns of a missing file.

    Args:
        folder: Folder of the plots.
        logits: Shape ``(rows, outputs)``.
        labels: Shape ``(rows,)``.
        label_schema: Label schema.
    """
    if label_schema.is_regression:
        every = -(-len(labels) // SCATTERED)
        write_scatter(folder, labels[::every], logits[::every, 0])
        write_class_plots(folder, np.empty((0, 1), dtype=np.float32), np.empty(0, dtype=np.int64), ())
    else:
        write_scatter(folder, np.empty(0), np.empty(0))
        write_class_plots(folder, logits, labels, label_schema.names or ())


def write_scatter(folder: Path, actual: NDArray[Any], predicted: NDArray[Any]) -> None:
    """Write the plot of a regression."""
    write_columns(folder / "scatter.csv", {"actual": actual, "predicted": predicted})


def write_class_plots(folder: Path, logits: NDArray[np.float32], labels: NDArray[Any], names: Sequence[str]) -> None:
    """Write the plots of a classification."""
    named = np.array(names, dtype=object)
    write_rows(folder / "confusion.csv", ("actual", "predicted"), zip(named[labels], named[logits.argmax(axis=1)], strict=True))
    probability = probabilities(logits)
    write_columns(folder / "roc.csv", roc_curve(probability, labels))
    write_columns(folder / "precision_recall.csv", precision_recall_curve(probability, labels))
    write_columns(folder / "calibration.csv", calibration(probability, labels))


def write_slices_plot(folder: Path, report: Slices) -> None:
    """Write the score of each slice."""
    rows = [(f"{one.by}: {one.name}", f"{report.value(one):.6g}", one.rows) for one in report.slices]
    write_rows(folder / "slices.csv", ("slice", "score", "rows"), rows)


def write_columns(path: Path, columns: Columns | dict[str, NDArray[Any]]) -> None:
    """Write numbers, with 6 significant digits."""
    write_rows(path, list(columns), ([f"{value:.6g}" for value in row] for row in zip(*columns.values(), strict=True)))


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV with a header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
