"""Corrections of the data in ``data/corrections/``: labels that people changed, and rows that are left out.

Git versions them. The stage ``download`` applies them to the rows that it writes, so the source stays as it
is. A row is named by a hash of its texts: a correction holds wherever the row is, and no text is in git. Each
correction is one line, and lines are sorted by the hash: ``git blame`` shows who made it and when, and two
branches with different corrections merge.
"""

import csv
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from tuneline.core.paths import CORRECTIONS
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.files import locked, replace_file

KEY = "key"
ALL = "all"
"""Value of the column ``rows``: every row with these texts is left out."""
LATER = "later"
"""Value of the column ``rows``: every row with these texts after the first is left out."""
NEXT_STEPS = (
    "Next: `dvc repro`, then `git add data/corrections dvc.lock metrics` and commit: git keeps who decided,"
    " and when.\n"
    "To take it back: `git stash push --include-untracked -- data/corrections` before the commit,"
    " `git revert COMMIT` after it."
)
_HEX = "^[0-9a-f]{32}$"


def _schema(*names: str) -> pa.Schema:
    return pa.schema([pa.field(name, pa.string(), nullable=False) for name in names])


LABEL_SCHEMA = _schema(KEY, "split", "before", "after")
"""Label corrections: hash of the texts, the split of the row (information only), class names or numbers."""
DROPPED_SCHEMA = _schema(KEY, "split", "rows", "reason")
"""Dropped rows: hash of the texts, the only split (empty: any), ``all`` or ``later``, the check."""


def row_keys(texts: Sequence[pa.Array]) -> pa.Array:
    """Return a hash of each row's exact texts: BLAKE2b, 32 hexadecimal digits.

    It is the same in every version and on every machine. Texts are one array of strings per column, in the
    order of ``data.text_columns``. A missing text is not an empty one.
    """
    columns = [column.cast(pa.binary()).to_pylist() for column in texts]
    keys = []
    for row in zip(*columns, strict=True):
        content = b""
        for text in row:
            if text is None:
                content += b"-"
            else:
                # With the length in front of each text, ("ab", "c") and ("a", "bc") differ.
                content += b"%d:%b" % (len(text), text)
        keys.append(hashlib.blake2b(content, digest_size=16).hexdigest())
    return pa.array(keys, pa.string())


@dataclass(frozen=True)
class Corrections:
    """The content of ``data/corrections/``: tables of ``LABEL_SCHEMA`` and of ``DROPPED_SCHEMA``."""

    labels: pa.Table
    dropped: pa.Table

    @classmethod
    def read(cls, folder: Path = CORRECTIONS) -> Self:
        """Read the files of the folder; what is missing has no rows.

        A DataError names the file, the line and the column.
        """
        path = dropped_file(folder)
        dropped = _read(path, DROPPED_SCHEMA)
        wrong = pc.invert(pc.is_in(dropped["rows"], value_set=pa.array([ALL, LATER])))
        _refuse(path, dropped, "rows", wrong, f"neither {ALL!r} nor {LATER!r}", hint="Correct it.")
        return cls(_read_labels(label_file(folder)), dropped)

    def write(self, folder: Path = CORRECTIONS) -> None:
        """Write both files, each complete or not at all; a file without rows is removed."""
        _write(label_file(folder), self.labels)
        _write(dropped_file(folder), self.dropped)


def label_file(folder: Path = CORRECTIONS) -> Path:
    """Return the path of the label corrections."""
    return folder / "labels.csv"


def dropped_file(folder: Path = CORRECTIONS) -> Path:
    """Return the path of the dropped rows."""
    return folder / "dropped.csv"


@contextmanager
def corrections_locked(folder: Path = CORRECTIONS) -> Iterator[None]:
    """Let only one process at a time read and write the corrections."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder.resolve(), required=False):
        yield


def _read_labels(path: Path) -> pa.Table:
    """Read the label corrections; refuse a second one of the same row."""
    table = _read(path, LABEL_SCHEMA)

    rows = table.group_by([KEY, "before"]).aggregate([("after", "count_distinct")])
    repeated = rows.filter(pc.greater(rows["after_count_distinct"], 1))
    if repeated.num_rows:
        raise DataError(
            f"{path}: two corrections of the row {repeated[KEY][0]}.", "Decide, and remove one of the lines."
        )
    return table


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    if not path.exists():
        return schema.empty_table()
    from pyarrow import csv as arrow_csv

    restore = f"Correct it; `git diff {path}` shows what changed."
    reading = arrow_csv.ReadOptions(use_threads=False)
    parsing = arrow_csv.ParseOptions(newlines_in_values=True)
    types = dict.fromkeys(schema.names, pa.string())
    conversion = arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=False)
    try:
        table = arrow_csv.read_csv(path, reading, parsing, conversion)
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: {error}.", restore) from None
    if table.column_names != schema.names:
        raise DataError(
            f"{path}, line 1: the columns are {', '.join(table.column_names)}, not"
            f" {', '.join(schema.names)}.",
            restore,
        )
    bad = pc.invert(pc.match_substring_regex(table[KEY], _HEX))
    _refuse(path, table, KEY, bad, "not a hash of 32 hexadecimal digits", hint=restore)
    return table.cast(schema).combine_chunks()


def _refuse(
    path: Path, table: pa.Table, column: str, wrong: pa.ChunkedArray, problem: str, *, hint: str
) -> None:
    """Refuse a table if a value of a column is wrong; the message names the first one."""
    row = pc.index(wrong, pa.scalar(True)).as_py()
    if row < 0:
        return
    line = row + 2  # lines count from 1, and the first one is the header
    value = table[column][row].as_py()
    raise DataError(f"{path}, line {line:,}, column {column!r}: {value!r} is {problem}.", hint)


def _write(path: Path, table: pa.Table) -> None:
    if not table.num_rows:
        path.unlink(missing_ok=True)
        return
    with replace_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.column_names)
        order = [(name, "ascending") for name in table.column_names]
        for batch in table.sort_by(order).to_batches(10_000):
            writer.writerows(zip(*(column.to_pylist() for column in batch.columns), strict=True))
