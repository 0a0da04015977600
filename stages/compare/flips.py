"""The rows on which two models do not agree, as a person wants to see them: text, label, and what each model says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.compare.comparison import Comparison, Logits, Rows
from tuneline.curves import probabilities

DIGITS = 6
LIMIT = 100
"""Flipped rows written per model: those whose logits differ most."""


def describe_flips(found: Comparison, rows: Rows, raw: Path, text_columns: Sequence[str]) -> list[dict[str, Any]]:
    """One entry for each flipped row, the largest difference first, at most ``LIMIT``.

    Args:
        found: The comparison.
        rows: LabelSchema and the trained model's logits.
        raw: Parquet file with the text of the same rows in the same order.
        text_columns: Columns of ``raw`` to show.
    """
    places = found.flipped[:LIMIT]
    texts = read_rows(raw, places, text_columns)
    return [
        {
            "row": int(place),
            "text": text,
            "label": _label(rows, place),
            "trained": _said(rows, rows.trained, place),
            "exported": _said(rows, found.logits, place),
            "difference": round(float(found.difference[place]), DIGITS),
        }
        for place, text in zip(places, texts, strict=True)
    ]


def read_rows(path: Path, places: NDArray[np.int64], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Some rows of a Parquet file, in the order asked for; one row group is in memory at a time."""
    found: dict[int, dict[str, Any]] = {}
    with pq.ParquetFile(path) as file:
        start = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            inside = np.sort(places[(places >= start) & (places < start + rows)])
            if len(inside):
                table = file.read_row_group(group, columns=list(columns)).take(pa.array(inside - start))
                found.update(zip(inside.tolist(), table.to_pylist(), strict=True))
            start += rows
    return [found[place] for place in places.tolist()]


def _label(rows: Rows, place: int) -> str | float:
    names = rows.label_schema.names
    return round(float(rows.labels[place]), DIGITS) if names is None else names[rows.labels[place]]


def _said(rows: Rows, logits: Logits, place: int) -> dict[str, Any]:
    names = rows.label_schema.names
    if names is None:
        return {"prediction": round(float(logits[place, 0]), DIGITS)}
    (shares,) = probabilities(logits[place : place + 1])
    best = int(shares.argmax())
    return {"prediction": names[best], "probability": round(float(shares[best]), DIGITS)}
