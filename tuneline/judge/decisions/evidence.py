"""Rows by which a model can promise how often its answers are wrong: ``evidence.parquet`` beside the models.

Of each row it has what the model answers, how sure it is, and whether that is right; no text. There are two
parts. The rows that promise are of the reported split, which has chosen nothing of the model. The rows that
choose are of validation, which has chosen the weights, the thresholds and the temperature: they may choose
what is tried, and promise nothing. Rows of one cluster (copies, near-duplicates, one group) are right or
wrong together, so one row of each counts, drawn by chance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.runtime.files import replace_file

EVIDENCE_FILE = "evidence.parquet"
"""Name of the file in a folder of models."""
MOST_ROWS = 100_000
"""Rows of a model at most: they know a risk of 0.001 to 0.0002."""
NO_CLASS = -1
"""Answer of a row that has no single class: a set of labels."""


@dataclass(frozen=True)
class JudgedAnswers:
    """Answers of a model to independent rows.

    Attributes:
        answers: Class ids, ``(rows,)``; ``NO_CLASS`` for a set of labels.
        confidence: Probability that the answer is right, as the model says, ``(rows,)``.
        right: Whether it is, ``(rows,)``.
    """

    answers: NDArray[np.int32]
    confidence: NDArray[np.float64]
    right: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.answers)

    def take(self, rows: NDArray[Any]) -> Self:
        """Return chosen rows, numbers or a mask."""
        return type(self)(self.answers[rows], self.confidence[rows], self.right[rows])


@dataclass(frozen=True)
class Evidence:
    """Answers of a model to the rows that promise, and to those that choose what is tried."""

    promising: JudgedAnswers
    choosing: JudgedAnswers


def independent_sample(clusters: NDArray[Any] | None, rows: int) -> NDArray[np.int64]:
    """Return one row of each cluster, drawn by chance and always the same ones, in ascending order.

    Args:
        clusters: Cluster of each row, ``(rows,)``; ``None``: each row is on its own.
        rows: Number of rows.
    """
    order = np.random.default_rng(0).permutation(rows)
    if clusters is not None:
        _, first = np.unique(clusters[order], return_index=True)
        order = order[np.sort(first)]
    return np.sort(order[:MOST_ROWS])


def write_evidence(path: Path, evidence: Mapping[str, Evidence]) -> None:
    """Write the evidence of each model, by precision."""
    tables = []
    for precision, parts in evidence.items():
        for rows, promises in ((parts.promising, True), (parts.choosing, False)):
            columns = {
                "precision": pa.array([precision] * len(rows), pa.string()),
                "promises": pa.array([promises] * len(rows), pa.bool_()),
                "answer": pa.array(rows.answers, pa.int32()),
                "confidence": pa.array(rows.confidence, pa.float64()),
                "right": pa.array(rows.right, pa.bool_()),
            }
            tables.append(pa.table(columns))
    with replace_file(path) as partial:
        pq.write_table(pa.concat_tables(tables), partial)


def read_evidence(path: Path, precision: str) -> Evidence:
    """Read the evidence of one model."""
    parts = []
    for promises in (True, False):
        table = pq.read_table(path, filters=[("precision", "=", precision), ("promises", "=", promises)])
        arrays = [table[name].to_numpy() for name in ("answer", "confidence", "right")]
        parts.append(JudgedAnswers(*arrays))
    return Evidence(*parts)
