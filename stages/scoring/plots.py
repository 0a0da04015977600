"""Files of ``plots/evaluation/``, for the templates that dvc.yaml gives them."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stages.scoring.curves import Columns, calibration, precision_recall_curve, probabilities, roc_curve
from stages.tables import Labels

SCATTERED = 2_000
"""Most points of a scatter plot: every so many rows, from the first on."""


def write_plots(folder: Path, logits: NDArray[np.float32], labels: NDArray[Any], spec: Labels) -> None:
    """Writes every plot of one split.

    Args:
        folder: Where to.
        logits: Shape ``[rows, outputs]``.
        labels: Shape ``[rows]``.
        spec: What they mean.
    """
    if spec.names is None:
        step = -(-len(labels) // SCATTERED)
        write_columns(folder / "scatter.csv", {"actual": labels[::step], "predicted": logits[::step, 0]})
        return
    names = np.array(spec.names, dtype=object)
    write_rows(folder / "confusion.csv", ("actual", "predicted"), zip(names[labels], names[logits.argmax(axis=1)], strict=True))
    probability = probabilities(logits)
    write_columns(folder / "roc.csv", roc_curve(probability, labels))
    write_columns(folder / "precision_recall.csv", precision_recall_curve(probability, labels))
    write_columns(folder / "calibration.csv", calibration(probability, labels))


def write_columns(path: Path, columns: Columns | dict[str, NDArray[Any]]) -> None:
    """Writes numbers, with 6 significant digits."""
    write_rows(path, list(columns), ([f"{value:.6g}" for value in row] for row in zip(*columns.values(), strict=True)))


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes a CSV with a header."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
