"""All rows that violate a check, with their texts: ``reports/checks/rows/CHECK.parquet``, for people and for ``tuneline data drop``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stages.validate.rows import Rows
from stages.validate.runner import Outcome
from stages.validate.tables import DerivedData
from stages.validate.violations import checked_columns, excess_of_rows, other_rows
from tuneline.files.schemas import ROW_GROUP, failing_rows_schema, write_batches
from tuneline.paths import split_file

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
    """The rows of one split that violate a check.

    Attributes:
        split: Name of the split.
        rows: Their numbers, ascending.
        columns: ``reason`` and, for a check of repeated rows, ``other_split`` and ``other_row``, each of shape ``(rows,)``.
    """

    split: str
    rows: Rows
    columns: Mapping[str, pa.Array]

    @classmethod
    def of(cls, outcomes: Sequence[Outcome], sizes: Mapping[str, int]) -> Self:
        """Return the rows that violate any expectation of a check on one split.

        Args:
            outcomes: The results of the expectations.
            sizes: Number of rows of each raw split.
        """
        split = outcomes[0].table.split
        parts = [_failing(outcome, sizes) for outcome in outcomes]
        rows = np.unique(np.concatenate([part.rows for part in parts]))
        rows = rows[rows < sizes[split]]  # a tokenized split of other data may have more
        places = [pc.index_in(pa.array(rows), pa.array(part.rows)) for part in parts]
        columns = {name: [part.columns[name].take(place) for part, place in zip(parts, places, strict=True)] for name in parts[0].columns}
        reasons = pc.binary_join_element_wise(*columns.pop("reason"), "; ", null_handling="skip")
        return cls(split, rows, {"reason": reasons, **{name: pc.coalesce(*values) for name, values in columns.items()}})

    def batches(self, path: Path, text_columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their texts, one row group of the raw split at a time."""
        first = 0
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                stop = first + file.metadata.row_group(group).num_rows
                chosen = slice(*np.searchsorted(self.rows, (first, stop)))
                if rows := len(numbers := self.rows[chosen]):
                    texts = file.read_row_group(group, columns=list(text_columns)).take(pa.array(numbers - first)).combine_chunks()
                    yield pa.record_batch(
                        [
                            pa.repeat(self.split, rows),
                            pa.array(numbers),
                            *(texts[name].combine_chunks() for name in text_columns),
                            *(column[chosen] for column in self.columns.values()),
                        ],
                        schema=schema,
                    )
                first = stop


def write_row_files(folder: Path, outcomes: Sequence[Outcome], data: DerivedData) -> None:
    """Write the violating rows of each check, also of those that pass within their limit; no file for a check without any.

    Args:
        folder: A folder that does not exist yet.
        outcomes: The results of all expectations.
        data: What they were checked on.
    """
    folder.mkdir()
    (folder / "README.md").write_text(README, encoding="utf-8")
    sizes = {split: len(split_data.frame) for split, split_data in data.raw.items()}
    text_columns = data.params.data.text_columns
    grouped: dict[str, dict[str, list[Outcome]]] = {}
    for outcome in outcomes:
        if has_rows(outcome) and outcome.table.split in sizes:
            grouped.setdefault(outcome.check, {}).setdefault(outcome.table.split, []).append(outcome)
    for check, splits in grouped.items():
        parts = [part for split in sizes if split in splits and len((part := FailingRows.of(splits[split], sizes)).rows)]
        if parts:
            schema = failing_rows_schema(text_columns, "other_row" in parts[0].columns)
            batches = (batch for part in parts for batch in part.batches(split_file(data.folders.raw, part.split), text_columns, schema))
            write_batches(folder / f"{check}.parquet", schema, _row_groups(batches, schema))


def has_rows(outcome: Outcome) -> bool:
    """Return True if single rows of a split violate or meet the expectation."""
    is_of_rows = outcome.rows is not None or "total" in outcome.arguments
    return is_of_rows and outcome.crashed is None and outcome.table.kind in ("raw", "tokenized")


def _row_groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Join small batches, so that a row group of the file has ``ROW_GROUP`` rows or a few more."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= ROW_GROUP:
            yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()
            waiting = []
    yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()


def _failing(outcome: Outcome, sizes: Mapping[str, int]) -> FailingRows:
    frame, arguments = outcome.table.frame, outcome.arguments
    positions = np.flatnonzero(excess_of_rows(frame, arguments) > 0)
    rows = frame["row"].to_numpy(np.int64)[positions]

    def shown(column: str) -> tuple[pa.Scalar, pa.Array]:
        return pa.scalar(column.replace("_", " ")), pa.array(frame[column].to_numpy()[positions]).cast(pa.string())

    others = other_rows(outcome, positions, sizes)
    if others is not None:
        column = arguments["column"]
        splits, numbers = pa.array(others[0], pa.string()), pa.array(others[1])
        reason = _joined(pa.scalar(RELATIONS[column]), splits, pa.scalar("row"), numbers.cast(pa.string()))
        if column == "near_duplicate_of":
            similarity = pa.array(np.round(frame["similarity"].to_numpy()[positions], 3)).cast(pa.string())
            reason = _joined(reason, pa.scalar("with similarity"), similarity)
        return FailingRows(outcome.table.split, rows, {"reason": reason, "other_split": splits, "other_row": numbers})
    names = checked_columns(outcome)
    limits = [f"{word} {arguments[key]:g}" for word, key in LIMITS.items() if arguments.get(key) is not None]
    required = [pa.scalar(f"({', '.join(limits)})")] if limits and arguments.get("column") in names else []
    return FailingRows(outcome.table.split, rows, {"reason": _joined(*(part for name in names for part in shown(name)), *required)})


def _joined(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, " ")
