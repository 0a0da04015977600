"""The rows that violate a data check, listed in ``data/corrections/dropped.csv``: what ``data drop`` does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.analysis.corrections import ALL, DROPPED_SCHEMA, KEY, LATER, row_keys
from tuneline.analysis.text import same_text_keys
from tuneline.core.hashes import split_hash
from tuneline.core.tables import ROW_GROUP, SplitReader, failing_rows_schema, read_table
from tuneline.params import Params
from tuneline.params.validate import ERROR_CHECKS, WARNING_CHECKS
from tuneline.paths import CHECKS, FAILING_ROWS, RAW, SPLITS
from tuneline.readers.rows import nearest
from tuneline.reports.checks import Checks
from tuneline.runtime.errors import StageError

Rows = NDArray[np.int64]
HashedRows = NDArray[np.object_]


class ViolatingRows:
    """The rows that violate a check, as ``reports/checks/rows/CHECK.parquet`` has them.

    Texts are read in batches.

    Attributes:
        has_pairs: True if the check compares rows.
        split, row, other_split, other_row: As in the file, each of shape ``(rows,)``; the last two are empty
            without pairs.
    """

    def __init__(self, path: Path, texts: Sequence[str]) -> None:
        self._path = path
        self._texts = texts
        self.has_pairs = "other_row" in pq.read_schema(path).names
        table = read_table(path, ["split", "row"])
        self.split: NDArray[Any] = np.asarray(table["split"].to_pylist())
        self.row: NDArray[Any] = np.asarray(table["row"].to_pylist())
        self.other_split: NDArray[Any] = np.empty(0, str)
        self.other_row: NDArray[Any] = np.empty(0, np.int64)
        if self.has_pairs:
            pairs = read_table(path, ["other_split", "other_row"])
            self.other_split = np.asarray(pairs["other_split"].to_pylist())
            self.other_row = np.asarray(pairs["other_row"].to_pylist())

    @classmethod
    def of(cls, check: str, params: Params) -> "ViolatingRows | None":
        """Return the rows that violate a check; ``None`` if there are none.

        Raises:
            StageError: There is no such check, or it has not run on this data.
        """
        checks = ERROR_CHECKS + WARNING_CHECKS
        if check not in checks:
            raise StageError(
                f"--check: {check!r} is not a data check{nearest(check, checks)}.",
                "docs/data-checks.md lists them.",
            )
        # a row number of other data would drop another row
        checked = Checks.read(CHECKS / "checks.json").raw_sha256
        for split in SPLITS:
            raw = SplitReader.open(RAW, split, "download")
            if checked.get(split) != split_hash(raw.paths):
                raise StageError(
                    f"{CHECKS}/ is about other data than {raw.name}.",
                    "Run `dvc repro validate`, then this command again.",
                )
        path = FAILING_ROWS / f"{check}.parquet"
        if not path.exists():
            return None
        return cls(path, params.data.text_columns)

    def of_split(self, split: str) -> Rows:
        """Return the violating rows of a split, and its rows that violating rows of other splits name."""
        here = self.split == split
        named = self.other_row
        if self.has_pairs:
            named = named[~here & (self.other_split == split)]
        return np.union1d(self.row[here], named).astype(np.int64)

    def equal_rows(self, split: str) -> Rows:
        """Return all rows of a split with the texts of a violating row of another split.

        Texts are compared as in the check ``leakage``.
        """
        # hashes of the violating rows of other splits; their texts follow split and row
        stored = failing_rows_schema(self._texts, self.has_pairs).names[2 : 2 + len(self._texts)]
        with pq.ParquetFile(self._path) as file:
            keys = [same_text_keys(batch.columns) for batch in file.iter_batches(ROW_GROUP, columns=stored)]
        wanted = np.concatenate(keys)[self.split != split]

        # rows with one of these hashes; the empty array is for a split without rows
        matches = [np.empty(0, bool)]
        for batch in SplitReader.open(RAW, split, "download").batches(self._texts):
            matches.append(np.isin(same_text_keys(batch.columns), wanted))
        return np.flatnonzero(np.concatenate(matches))


def keys_of_rows(split: str, rows: Rows, texts: Sequence[str]) -> HashedRows:
    """Return the hashes of rows of a raw split, as ``corrections.row_keys`` does.

    A row that is not there has an empty string. Row numbers ascend.
    """
    raw = SplitReader.open(RAW, split, "download")
    keys: HashedRows = np.full(len(rows), "", dtype=object)
    for start in range(0, int(np.searchsorted(rows, raw.rows)), ROW_GROUP):
        table = raw.take(rows[start : start + ROW_GROUP], texts)
        keys[start : start + len(table)] = row_keys([table[name] for name in texts]).to_pylist()
    return keys


@dataclass(frozen=True)
class RowsToDrop:
    """The rows to drop for a check.

    Attributes:
        rows: Their number by split, without splits that keep all rows.
        entries: The lines of ``dropped.csv``, of ``DROPPED_SCHEMA``.
        left: Number of violating rows that stay, because ``--from`` names no split of them.
    """

    rows: Mapping[str, int]
    entries: pa.Table
    left: int


def choose_rows(check: str, params: Params, from_split: str | None) -> RowsToDrop:
    """Choose the rows to drop for a check: from one split, or from the split of each violating row.

    Raises:
        StageError: The check is unknown or has not run on this data; or it is about pairs of two splits, and
            ``from_split`` is missing.
    """
    failing = ViolatingRows.of(check, params)
    if failing is None:
        return RowsToDrop({}, DROPPED_SCHEMA.empty_table(), 0)
    if failing.has_pairs and from_split is None and (failing.split != failing.other_split).any():
        problem = f"{check} is about rows in two splits, and --from is missing."
        raise StageError(
            problem, "Add --from train to drop those of train, so that validation and test stay as they are."
        )

    # rows of each split
    splits = SPLITS if from_split is None else (from_split,)
    numbers = {}
    entries = [DROPPED_SCHEMA.empty_table()]
    for split in splits:
        rows = failing.of_split(split)
        if check == "leakage" and from_split:
            # The check names one row that a row repeats, and there may be more.
            rows = np.union1d(rows, failing.equal_rows(split))
        if len(rows):
            numbers[split] = len(rows)
            entries.append(_entries(check, split, rows, failing, params.data.text_columns))

    # A single row is wrong wherever it is; a row of a pair only beside the other one.
    joined = pa.concat_tables(entries)
    if not failing.has_pairs and from_split is None:
        joined = joined.set_column(1, DROPPED_SCHEMA.field("split"), pa.array([""] * joined.num_rows))

    # violating rows that stay: neither side is in one of the splits
    is_dropped = np.isin(failing.split, splits)
    if failing.has_pairs:
        is_dropped |= np.isin(failing.other_split, splits)
    left = int((~is_dropped).sum())
    return RowsToDrop(numbers, distinct(joined), left)


def _entries(check: str, split: str, rows: Rows, failing: ViolatingRows, texts: Sequence[str]) -> pa.Table:
    keys = keys_of_rows(split, rows, texts)
    which = np.full(len(rows), ALL, dtype=object)
    if check == "duplicates":
        # The hash cannot tell the first one of copies with the same texts, which stays, from the others.
        first, place = np.unique(failing.other_row[failing.split == split], return_inverse=True)
        which[keys == keys_of_rows(split, first, texts)[place]] = LATER
    columns = [keys.tolist(), [split] * len(rows), which.tolist(), [check] * len(rows)]
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=DROPPED_SCHEMA)


def distinct(entries: pa.Table) -> pa.Table:
    """Return one line for each hash and split: the first reason, and ``all`` rows if any line says so."""
    # without threads, so that the order of the lines stays; "all" < "later"
    groups = entries.group_by([KEY, "split"], use_threads=False)
    grouped = groups.aggregate([("rows", "min"), ("reason", "first")])
    return grouped.rename_columns([KEY, "split", "rows", "reason"]).cast(DROPPED_SCHEMA)


def added(dropped: pa.Table, entries: pa.Table) -> pa.Table:
    """Return the lines of the file and new ones; a row that every split drops already needs no other line."""
    is_everywhere = pc.and_(pc.equal(dropped["split"], ""), pc.equal(dropped["rows"], ALL))
    everywhere = dropped.filter(is_everywhere)[KEY].combine_chunks()
    is_listed = pc.is_in(entries[KEY], value_set=everywhere)
    return distinct(pa.concat_tables([dropped, entries.filter(pc.invert(is_listed))]))


def refuse_empty_splits(choice: RowsToDrop) -> None:
    """Check that every split keeps rows."""
    for split, number in choice.rows.items():
        if number == rows_of_split(split):
            raise StageError(
                f"No row of {split} would be left; nothing was written.",
                "Drop the rows of another split: --from.",
            )


def rows_of_split(split: str) -> int:
    """Return the number of rows of a raw split."""
    return SplitReader.open(RAW, split, "download").rows
