"""The rows that violate a check: ``reports/checks/rows/CHECK.parquet``, and the hashes of rows of ``data/raw``."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.corrections import row_keys
from tuneline.errors import StageError
from tuneline.files.schemas import ROW_GROUP, failing_rows_schema, read_table
from tuneline.files.shards import SplitReader
from tuneline.params import Params
from tuneline.paths import CHECKS, FAILING_ROWS, RAW, SPLITS
from tuneline.readers.rows import nearest
from tuneline.records.checks import Checks
from tuneline.records.provenance import split_hash
from tuneline.text import Keys, normalized, text_keys, unordered_row_keys

Rows = NDArray[np.int64]
HashedRows = NDArray[np.object_]


class FailingRows:
    """The rows that violate a check. Texts are read in batches.

    Attributes:
        has_pairs: True if the check compares rows.
        split, row, other_split, other_row: As in the file, each of shape ``(rows,)``; the last two are empty without pairs.
    """

    def __init__(self, path: Path, texts: Sequence[str]) -> None:
        """Read the file."""
        self._path = path
        self.has_pairs = "other_row" in pq.read_schema(path).names
        self._stored = failing_rows_schema(texts, self.has_pairs).names[2 : 2 + len(texts)]
        table = read_table(path, ["split", "row", *(["other_split", "other_row"] if self.has_pairs else [])])
        columns: list[NDArray[Any]] = [np.asarray(column.to_pylist()) for column in table.columns]
        self.split, self.row, self.other_split, self.other_row = (*columns, np.empty(0, str), np.empty(0, np.int64))[:4]

    @classmethod
    def of(cls, check: str, params: Params) -> "FailingRows | None":
        """Return the rows that violate a check; ``None`` if there are none.

        Raises:
            StageError: There is no such check, or it has not run on this data.
        """
        known = list(dict(params.validate_))
        if check not in known:
            raise StageError(f"--check: {check!r} is not a data check{nearest(check, known)}.", "docs/data-checks.md lists them.")
        checked = Checks.read(CHECKS / "checks.json").raw_sha256
        for split in SPLITS:  # a row number of other data would drop another row
            raw = SplitReader.open(RAW, split, "download")
            if checked.get(split) != split_hash(raw.paths):
                raise StageError(f"{CHECKS}/ is about other data than {raw.name}.", "Run `dvc repro validate`, then this command again.")
        path = FAILING_ROWS / f"{check}.parquet"
        return cls(path, params.data.text_columns) if path.exists() else None

    def texts(self) -> Iterator[list[pa.Array]]:
        """Yield batches of texts, one array per text column."""
        with pq.ParquetFile(self._path) as file:
            for batch in file.iter_batches(ROW_GROUP, columns=self._stored):
                yield [batch[name] for name in self._stored]

    def equal_rows(self, split: str, texts: Sequence[str]) -> Rows:
        """Return all rows of a split with the texts of a violating row of another split, compared as in the check ``leakage``."""
        wanted = np.concatenate([normalized_keys(batch) for batch in self.texts()])[self.split != split]
        found, first = [np.empty(0, np.int64)], 0
        for batch in SplitReader.open(RAW, split, "download").batches(texts):
            found.append(first + np.flatnonzero(np.isin(normalized_keys([batch[name] for name in texts]), wanted)))
            first += batch.num_rows
        return np.concatenate(found)


def normalized_keys(texts: Sequence[pa.Array]) -> Keys:
    """Return hashes of rows in which case, white space and the order of a pair make no difference."""
    return unordered_row_keys([text_keys(normalized(pc.fill_null(column, ""))) for column in texts])


def keys_of_rows(split: str, rows: Rows, texts: Sequence[str]) -> HashedRows:
    """Return the hashes of rows of a raw split, as ``row_keys`` does; an empty string for a row that is not there.

    Args:
        split: Name of the split.
        rows: Numbers of the rows, ascending.
        texts: The text columns.
    """
    raw = SplitReader.open(RAW, split, "download")
    keys: HashedRows = np.full(len(rows), "", dtype=object)
    for start in range(0, int(np.searchsorted(rows, raw.rows)), ROW_GROUP):
        table = raw.take(rows[start : start + ROW_GROUP], texts)
        keys[start : start + len(table)] = row_keys([table[name] for name in texts]).to_pylist()
    return keys
