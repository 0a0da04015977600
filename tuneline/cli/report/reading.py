"""Read the JSON, CSV and TSV files that the stages write. A missing or invalid file gives ``None``."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[np.float64]]


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object; ``None`` if the file is missing or holds something else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


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
