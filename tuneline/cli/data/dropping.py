"""From the rows that violate a check to lines of ``data/corrections/dropped.csv``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tuneline.cli.data.failing_rows import FailingRows, Rows, keys_of_rows
from tuneline.corrections import ALL, DROPPED_SCHEMA, KEY, LATER
from tuneline.errors import StageError
from tuneline.files.shards import SplitReader
from tuneline.params import Params
from tuneline.paths import RAW, SPLITS


@dataclass(frozen=True)
class Choice:
    """The rows to drop for a check.

    Attributes:
        rows: Their number by split, without splits that keep all rows.
        entries: The lines of ``dropped.csv``, of ``DROPPED_SCHEMA``.
        left: Number of violating rows that stay, because ``--from`` names no split of them.
    """

    rows: Mapping[str, int]
    entries: pa.Table
    left: int


def choose(check: str, params: Params, from_split: str | None) -> Choice:
    """Choose the rows to drop for a check.

    Args:
        check: Key of the check.
        params: All parameters.
        from_split: The only split to drop rows from; ``None`` for the split of each violating row.

    Raises:
        StageError: The check is unknown or has not run on this data; or it is about pairs of two splits, and ``from_split`` is missing.
    """
    failing = FailingRows.of(check, params)
    if failing is None:
        return Choice({}, DROPPED_SCHEMA.empty_table(), 0)
    if failing.has_pairs and from_split is None and (failing.split != failing.other_split).any():
        problem = f"{check} is about rows in two splits, and --from is missing."
        raise StageError(problem, "Add --from train to drop those of train, so that validation and test stay as they are.")
    splits = SPLITS if from_split is None else (from_split,)
    chosen = {split: _rows_of(failing, split) for split in splits}
    if check == "leakage" and from_split:  # the check names one row that a row repeats, and there may be more
        chosen[from_split] = np.union1d(chosen[from_split], failing.equal_rows(from_split, params.data.text_columns))
    chosen = {split: rows for split, rows in chosen.items() if len(rows)}
    entries = [DROPPED_SCHEMA.empty_table()]
    for split, rows in chosen.items():
        entries.append(_entries(check, split, rows, failing, params.data.text_columns))
    joined = pa.concat_tables(entries)
    if not failing.has_pairs and from_split is None:  # a single row is wrong wherever it is; one of a pair only beside the other
        joined = joined.set_column(1, DROPPED_SCHEMA.field("split"), pa.array([""] * joined.num_rows))
    sides = (failing.split, failing.other_split) if failing.has_pairs else (failing.split,)
    left = int((~np.isin(np.stack(sides), splits).any(axis=0)).sum())
    return Choice({split: len(rows) for split, rows in chosen.items()}, distinct(joined), left)


def _rows_of(failing: FailingRows, split: str) -> Rows:
    """Return the violating rows of a split, and the rows of it that are the other side of a violating row of another split."""
    here = failing.split == split
    others = failing.other_row[~here & (failing.other_split == split)] if failing.has_pairs else failing.other_row
    return np.union1d(failing.row[here], others).astype(np.int64)


def _entries(check: str, split: str, rows: Rows, failing: FailingRows, texts: Sequence[str]) -> pa.Table:
    keys = keys_of_rows(split, rows, texts)
    which = np.full(len(rows), ALL, dtype=object)
    if check == "duplicates":  # of copies with exactly the same texts, the hash cannot tell the first one, which stays, from the others
        first, place = np.unique(failing.other_row[failing.split == split], return_inverse=True)
        which[keys == keys_of_rows(split, first, texts)[place]] = LATER
    columns = [keys.tolist(), [split] * len(rows), which.tolist(), [check] * len(rows)]
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=DROPPED_SCHEMA)


def distinct(entries: pa.Table) -> pa.Table:
    """Return one line for each hash and split: the first reason, and ``all`` rows if any line says so."""
    grouped = entries.group_by([KEY, "split"], use_threads=False).aggregate([("rows", "min"), ("reason", "first")])  # all < later
    return grouped.rename_columns([KEY, "split", "rows", "reason"]).cast(DROPPED_SCHEMA)


def added(dropped: pa.Table, entries: pa.Table) -> pa.Table:
    """Return the present lines and new ones; rows that are dropped from every split already need no other line."""
    everywhere = dropped.filter(pc.and_(pc.equal(dropped["split"], ""), pc.equal(dropped["rows"], ALL)))[KEY].combine_chunks()
    return distinct(pa.concat_tables([dropped, entries.filter(pc.invert(pc.is_in(entries[KEY], value_set=everywhere)))]))


def refuse_empty_splits(choice: Choice) -> None:
    """Check that every split keeps rows.

    Raises:
        StageError: None would be left.
    """
    for split, number in choice.rows.items():
        if number == rows_of_split(split):
            raise StageError(f"No row of {split} would be left; nothing was written.", "Drop the rows of another split: --from.")


def rows_of_split(split: str) -> int:
    """Return the number of rows of a raw split."""
    return SplitReader.open(RAW, split, "download").rows
