"""The rows that violate a data check, listed in ``data/corrections/dropped.csv``: what ``data drop`` does."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.checks.results import Checks
from tuneline.core.params import Params
from tuneline.core.paths import CHECKS, FAILING_ROWS, RAW, SPLITS
from tuneline.core.runtime.errors import StageError
from tuneline.core.stage.arrays import RowNumbers
from tuneline.core.stage.records import split_hash
from tuneline.core.stage.tables import SplitReader, failing_rows_schema, read_table
from tuneline.core.stage.texts import same_text_keys
from tuneline.rows.reading.rows import nearest
from tuneline.rows.splits.corrections import ALL, DROPPED_SCHEMA, KEY, LATER, row_keys


def choose_rows(check: str, params: Params, from_split: str | None) -> tuple[dict[str, int], pa.Table]:
    """Choose the rows to drop for a check: from one split, or from the split of each violating row.

    Returns:
        Their number by split, without splits that keep all rows, and the lines of ``dropped.csv``, of
        ``DROPPED_SCHEMA``.

    Raises:
        StageError: The check is unknown or has not run on this data, or it is about pairs of two splits, and
            ``from_split`` is missing.
    """
    failing = _violations(check, params.validate_.checks)
    entries = [DROPPED_SCHEMA.empty_table()]
    numbers: dict[str, int] = {}
    if failing is None:
        return numbers, entries[0]
    has_pairs = "other_row" in failing.column_names
    split = _array(failing, "split")
    other_split = _array(failing, "other_split") if has_pairs else split
    if from_split is None and (split != other_split).any():
        raise StageError(
            f"{check} is about rows in two splits, and --from is missing.",
            "Add --from train to drop those of train, so that validation and test stay as they are.",
        )

    texts = params.data.text_columns
    for name in SPLITS if from_split is None else (from_split,):
        rows = _array(failing, "row")[split == name]
        if has_pairs:
            named = (split != name) & (other_split == name)
            rows = np.union1d(rows, _array(failing, "other_row")[named])
        if check == "leakage" and from_split:  # the check names one row that a row repeats
            rows = np.union1d(rows, _equal_rows(name, failing.filter(pa.array(split != name)), texts))
        if not len(rows):
            continue
        raw = SplitReader.open(RAW, name, "download")
        numbers[name] = len(rows)
        keys = _keys(raw, rows, texts)
        which = np.full(len(rows), ALL, dtype=object)
        if check == "duplicates":
            # the hash cannot tell the first one of copies with the same texts, which stays, from the others
            first, place = np.unique(_array(failing, "other_row")[split == name], return_inverse=True)
            which[keys == _keys(raw, first, texts)[place]] = LATER
        # a single row is wrong wherever it is; a row of a pair only beside the other one
        only_split = name if has_pairs or from_split else ""
        columns = [keys.tolist(), [only_split] * len(rows), which.tolist(), [check] * len(rows)]
        entries.append(pa.table([pa.array(column, pa.string()) for column in columns], DROPPED_SCHEMA))
    return numbers, distinct(pa.concat_tables(entries))


def _violations(check: str, checks: Sequence[str]) -> pa.Table | None:
    """Read the rows that violate one of all checks; ``None`` if there are none."""
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
    return read_table(path) if path.exists() else None


def _array(table: pa.Table, column: str) -> NDArray[Any]:
    return np.asarray(table[column].to_pylist())


def _equal_rows(split: str, failing: pa.Table, texts: list[str]) -> RowNumbers:
    """Return all rows of a split with the texts of violating rows, compared as in the check ``leakage``."""
    stored = failing_rows_schema(texts, pairs=True).names[2 : 2 + len(texts)]
    wanted = same_text_keys([failing[name].combine_chunks() for name in stored])
    matches = [np.empty(0, bool)]
    for batch in SplitReader.open(RAW, split, "download").batches(texts):
        matches.append(np.isin(same_text_keys(batch.columns), wanted))
    return np.flatnonzero(np.concatenate(matches))


def _keys(raw: SplitReader, rows: RowNumbers, texts: list[str]) -> NDArray[np.object_]:
    """Return the hashes of rows of a raw split, as ``corrections.row_keys`` does; row numbers ascend."""
    table = raw.take(rows, texts)
    return np.array(row_keys([table[name] for name in texts]).to_pylist(), dtype=object)


def distinct(entries: pa.Table) -> pa.Table:
    """Return one line for each hash and split: the first reason, and ``all`` rows if any line says so."""
    # without threads, so that the order of the lines stays; "all" < "later"
    groups = entries.group_by([KEY, "split"], use_threads=False)
    grouped = groups.aggregate([("rows", "min"), ("reason", "first")])
    return grouped.rename_columns([KEY, "split", "rows", "reason"]).cast(DROPPED_SCHEMA)
