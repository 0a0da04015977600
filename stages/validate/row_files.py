"""All rows that violate a check, with their texts: ``reports/checks/rows/CHECK.parquet``, for people and for ``tuneline data drop``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from stages.validate.rows import Rows, joined
from stages.validate.runner import Outcome
from stages.validate.tables import DerivedData
from stages.validate.violations import checked_columns, other_rows, violations
from tuneline.files.schemas import ROW_GROUP, failing_rows_schema, write_batches
from tuneline.files.shards import SplitReader
from tuneline.terminal import phase

README = "All rows that violate a data check, one file per check. A check without such rows has no file.\n"
"""Keeps the folder, a dependency of the stage ``evaluate``, where no row violates a check: DVC restores no empty folder."""
RELATIONS = {
    "duplicate_of": "repeats",
    "conflict_with": "has another label than",
    "leak_of": "repeats",
    "near_duplicate_of": "resembles",
}

LIMITS = {"at least": "min_value", "at most": "max_value"}


@dataclass(frozen=True)
class FailingRows:
    """Rows of a split that violate a check.

    Attributes:
        rows: Their numbers, ascending.
        columns: ``reason`` and, for a check of repeated rows, ``other_split`` and ``other_row``, each of shape ``(rows,)``.
    """

    rows: Rows
    columns: Mapping[str, pa.Array]

    @classmethod
    def of(cls, parts: Sequence[Self], size: int) -> Self:
        """Join the rows that violate the expectations of a check.

        Args:
            parts: The rows that violate each expectation.
            size: Number of rows of the raw split; a tokenized split of other data may have more.
        """
        rows = np.unique(np.concatenate([part.rows for part in parts]))
        rows = rows[rows < size]
        places = [pc.index_in(pa.array(rows), pa.array(part.rows)) for part in parts]
        columns = {name: [part.columns[name].take(place) for part, place in zip(parts, places, strict=True)] for name in parts[0].columns}
        reasons = pc.binary_join_element_wise(*columns.pop("reason"), "; ", null_handling="skip")
        return cls(rows, {"reason": reasons, **{name: pc.coalesce(*values) for name, values in columns.items()}})

    def batch(self, split: SplitReader, text_columns: Sequence[str]) -> pa.RecordBatch:
        """Return the rows with their texts."""
        texts = split.take(self.rows, text_columns)
        return pa.record_batch(
            [
                pa.repeat(split.split, len(self.rows)),
                pa.array(self.rows),
                *(pa.concat_arrays(texts[name].chunks) for name in text_columns),
                *self.columns.values(),
            ],
            schema=failing_rows_schema(text_columns, "other_row" in self.columns),
        )


def write_row_files(folder: Path, outcomes: Sequence[Outcome], data: DerivedData) -> None:
    """Write the violating rows of each check, also of those that pass within their limit; no file for a check without any.

    Args:
        folder: A folder that does not exist yet.
        outcomes: The results of all expectations.
        data: What they were checked on.
    """
    folder.mkdir()
    (folder / "README.md").write_text(README, encoding="utf-8")
    grouped: dict[str, dict[str, list[Outcome]]] = {}
    for outcome in outcomes:
        if has_rows(outcome) and outcome.failing != 0 and outcome.table.split in data.raw:
            grouped.setdefault(outcome.check, {}).setdefault(outcome.table.split, []).append(outcome)
    for check, splits in grouped.items():
        phase(f"rows of {check}")
        batches = (batch for split in data.raw if split in splits for batch in _batches(splits[split], data))
        if first := next(batches, None):
            groups = joined(chain([first], batches), ROW_GROUP)
            write_batches(folder / f"{check}.parquet", first.schema, (group.combine_chunks().to_batches()[0] for group in groups))


def has_rows(outcome: Outcome) -> bool:
    """Return True if single rows of a split violate or meet the expectation."""
    is_of_rows = outcome.rows is not None or "total" in outcome.arguments
    return is_of_rows and outcome.crashed is None and outcome.table.kind in ("raw", "tokenized")


def _batches(outcomes: Sequence[Outcome], data: DerivedData) -> Iterator[pa.RecordBatch]:
    """Yield the rows that violate the expectations of a check on one split, a batch of rows of the split at a time."""
    split, sizes = outcomes[0].table.split, {name: split_data.rows for name, split_data in data.raw.items()}
    for parts in zip(*map(violations, outcomes), strict=True):
        if any(len(rows) for rows, _ in parts):
            failing = [_failing(outcome, rows, sizes) for outcome, (rows, _) in zip(outcomes, parts, strict=True)]
            found = FailingRows.of(failing, sizes[split])
            if len(found.rows):
                yield found.batch(data.raw[split].source, data.params.data.text_columns)


def _failing(outcome: Outcome, rows: pd.DataFrame, sizes: Mapping[str, int]) -> FailingRows:
    arguments, numbers = outcome.arguments, rows.index.to_numpy(np.int64)

    def shown(column: str) -> tuple[pa.Scalar, pa.Array]:
        return pa.scalar(column.replace("_", " ")), pa.array(rows[column].to_numpy()).cast(pa.string())

    others = other_rows(outcome, rows, sizes)
    if others is not None:
        column = arguments["column"]
        splits, other = pa.array(others[0], pa.string()), pa.array(others[1])
        reason = _joined(pa.scalar(RELATIONS[column]), splits, pa.scalar("row"), other.cast(pa.string()))
        if column == "near_duplicate_of":
            similarity = pa.array(np.round(rows["similarity"].to_numpy(), 3)).cast(pa.string())
            reason = _joined(reason, pa.scalar("with similarity"), similarity)
        return FailingRows(numbers, {"reason": reason, "other_split": splits, "other_row": other})
    names = checked_columns(outcome)
    limits = [f"{word} {arguments[key]:g}" for word, key in LIMITS.items() if arguments.get(key) is not None]
    required = [pa.scalar(f"({', '.join(limits)})")] if limits and arguments.get("column") in names else []
    return FailingRows(numbers, {"reason": _joined(*(part for name in names for part in shown(name)), *required)})


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, " ")
