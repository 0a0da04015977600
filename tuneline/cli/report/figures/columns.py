"""Read the CSV and TSV files of ``plots/``."""

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[np.float64]]


def read_columns(path: Path, suffix: str | None = None) -> Columns | None:
    """Return the columns of a CSV or TSV file of numbers; ``None`` if it is missing, invalid or has no rows.

    Args:
        path: The file.
        suffix: ``.csv`` or ``.tsv``, for a file in DVC's cache, whose name is its hash.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = list(csv.reader(file, delimiter="\t" if (suffix or path.suffix) == ".tsv" else ","))
        values = np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])
    except (OSError, ValueError):
        return None
    return dict(zip(header, values.T, strict=True)) if rows else None
