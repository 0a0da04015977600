"""Reads what the line wrote. What is not there is ``None``: a section of the page then says which command makes it."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[np.float64]]


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object; ``None`` where the file is not there or holds something else."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_columns(path: Path, suffix: str | None = None) -> Columns | None:
    """A CSV or TSV of numbers by column; ``None`` where it is not there or has no rows.

    Args:
        path: The file.
        suffix: That of its name in the project, where it lies in a cache under its hash.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = list(csv.reader(file, delimiter="\t" if (suffix or path.suffix) == ".tsv" else ","))
        values = np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])
    except (OSError, ValueError):
        return None
    return dict(zip(header, values.T, strict=True)) if rows else None


@dataclass(frozen=True)
class Predictions:
    """The trained model's answers on the reported split.

    Attributes:
        labels: int64 ids or float32 numbers, of shape ``[rows]``.
        logits: float32 of shape ``[rows, outputs]``.
        names: Class names; ``None`` for a regression.
    """

    labels: NDArray[Any]
    logits: NDArray[np.float32]
    names: tuple[str, ...] | None

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Reads ``reports/predictions.parquet``; ``None`` where it is not there or is not such a table."""
        if not path.is_file():
            return None
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path).sort_by("idx")
            feature = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]["label"]
            logits = np.stack(table["logits"].to_numpy()).astype(np.float32)
            return cls(table["label"].to_numpy(), logits, tuple(feature["names"]) if "names" in feature else None)
        except (pa.ArrowException, KeyError, TypeError, ValueError, OSError):
            return None

    @property
    def answers(self) -> NDArray[Any]:
        """The class of the highest logit, or the number itself."""
        return self.logits[:, 0] if self.names is None else self.logits.argmax(axis=1)

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Softmax of the logits."""
        wide = self.logits.astype(np.float64)
        exponents = np.exp(wide - wide.max(axis=1, keepdims=True))
        result: NDArray[np.float64] = exponents / exponents.sum(axis=1, keepdims=True)
        return result


def numbers(values: Mapping[str, Any] | None) -> dict[str, float]:
    """The numbers of a JSON object."""
    return {key: value for key, value in (values or {}).items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
