"""What is done about faulty data: rows that violate a check are dropped, lines are converted to UTF-8."""

import gzip
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.analysis.corrections import ALL, DROPPED_SCHEMA, KEY, LATER, row_keys
from tuneline.analysis.text import correction, repaired, same_text_keys
from tuneline.core.atomic_files import replace_file
from tuneline.core.errors import DataError, StageError
from tuneline.core.hashes import split_hash
from tuneline.core.paths import CHECKS, FAILING_ROWS, RAW, SPLITS
from tuneline.core.tables import ROW_GROUP, SplitReader, failing_rows_schema, read_table
from tuneline.core.terminal import progress, say
from tuneline.params import Params
from tuneline.readers.files import not_a_file
from tuneline.readers.rows import nearest
from tuneline.readers.text import (
    UTF_16,
    is_cut,
    is_encoded,
    open_bytes,
    probable_encoding,
    read_errors_explained,
)
from tuneline.reports.checks import Checks

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
        checks = list(dict(params.validate_))
        if check not in checks:
            raise StageError(
                f"--check: {check!r} is not a data check{nearest(check, checks)}.",
                "docs/data-checks.md lists them.",
            )
        checked = Checks.read(CHECKS / "checks.json").raw_sha256
        for split in SPLITS:  # a row number of other data would drop another row
            raw = SplitReader.open(RAW, split, "download")
            if checked.get(split) != split_hash(raw.paths):
                raise StageError(
                    f"{CHECKS}/ is about other data than {raw.name}.",
                    "Run `dvc repro validate`, then this command again.",
                )
        path = FAILING_ROWS / f"{check}.parquet"
        return cls(path, params.data.text_columns) if path.exists() else None

    def of_split(self, split: str) -> Rows:
        """Return the violating rows of a split, and its rows that violating rows of other splits name."""
        here = self.split == split
        others = self.other_row[~here & (self.other_split == split)] if self.has_pairs else self.other_row
        return np.union1d(self.row[here], others).astype(np.int64)

    def equal_rows(self, split: str) -> Rows:
        """Return all rows of a split with the texts of a violating row of another split.

        Texts are compared as in the check ``leakage``.
        """
        stored = failing_rows_schema(self._texts, self.has_pairs).names[2 : 2 + len(self._texts)]
        with pq.ParquetFile(self._path) as file:
            keys = [same_text_keys(batch.columns) for batch in file.iter_batches(ROW_GROUP, columns=stored)]
        wanted = np.concatenate(keys)[self.split != split]
        batches = SplitReader.open(RAW, split, "download").batches(self._texts)
        matches = [np.isin(same_text_keys(batch.columns), wanted) for batch in batches]
        return np.flatnonzero(np.concatenate([np.empty(0, bool), *matches]))


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
    splits = SPLITS if from_split is None else (from_split,)
    chosen = {split: failing.of_split(split) for split in splits}
    if check == "leakage" and from_split:  # the check names one row that a row repeats, and there may be more
        chosen[from_split] = np.union1d(chosen[from_split], failing.equal_rows(from_split))

    chosen = {split: rows for split, rows in chosen.items() if len(rows)}
    entries = [
        _entries(check, split, rows, failing, params.data.text_columns) for split, rows in chosen.items()
    ]
    joined = pa.concat_tables([DROPPED_SCHEMA.empty_table(), *entries])
    if (
        not failing.has_pairs and from_split is None
    ):  # a single row is wrong wherever it is; one of a pair only beside the other
        joined = joined.set_column(1, DROPPED_SCHEMA.field("split"), pa.array([""] * joined.num_rows))
    sides = (failing.split, failing.other_split) if failing.has_pairs else (failing.split,)
    left = int((~np.isin(np.stack(sides), splits).any(axis=0)).sum())
    return RowsToDrop({split: len(rows) for split, rows in chosen.items()}, distinct(joined), left)


def _entries(check: str, split: str, rows: Rows, failing: ViolatingRows, texts: Sequence[str]) -> pa.Table:
    keys = keys_of_rows(split, rows, texts)
    which = np.full(len(rows), ALL, dtype=object)
    if check == "duplicates":
        # the hash cannot tell the first one of copies with the same texts, which stays, from the others
        first, place = np.unique(failing.other_row[failing.split == split], return_inverse=True)
        which[keys == keys_of_rows(split, first, texts)[place]] = LATER
    columns = [keys.tolist(), [split] * len(rows), which.tolist(), [check] * len(rows)]
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=DROPPED_SCHEMA)


def distinct(entries: pa.Table) -> pa.Table:
    """Return one line for each hash and split: the first reason, and ``all`` rows if any line says so."""
    grouped = entries.group_by([KEY, "split"], use_threads=False).aggregate(
        [("rows", "min"), ("reason", "first")]
    )  # all < later
    return grouped.rename_columns([KEY, "split", "rows", "reason"]).cast(DROPPED_SCHEMA)


def added(dropped: pa.Table, entries: pa.Table) -> pa.Table:
    """Return the present lines and new ones; a row that every split drops already needs no other line."""
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


SHOWN_LINES = 10
SHOWN_CHARACTERS = 20
GUESSED_BYTES = 1 << 20
"""Bytes of lines that are not UTF-8 from which their encoding is guessed."""


def recode_file(path: Path, encoding: str | None, mojibake: bool, output: Path | None) -> None:
    """Show the lines of a text file that are not UTF-8, and write a copy in which they are.

    Args:
        path: CSV, TSV or JSON Lines, plain or gzip.
        encoding: Encoding of these lines; ``None``: the one in which they read most like a text.
        mojibake: Convert also lines that were decoded with a wrong encoding before they were saved.
        output: File to write; ``None``: only show.
    """
    if ".parquet" in path.suffixes:
        raise StageError(
            f"{path}: texts in Parquet files are always UTF-8.",
            "Correct mojibake in the program that writes it.",
        )
    if problem := not_a_file(path):  # it is read twice, so a pipe will not do
        raise StageError(f"{path} {problem}.", "Name a file.")
    if output is not None and output.exists():
        raise StageError(f"{output} exists.", "Name another file in --output; the source is never changed.")
    encoding = encoding or _guessed_encoding(path)
    parts = _show_changes(path, encoding, mojibake)
    if parts and output is None:
        say(f"To convert: {parts}. Nothing is written without --output; --encoding names another encoding.")
    elif parts and output is not None:
        _write(output, _converted_lines(path, encoding, mojibake))
        say(f"{output}: converted lines: {parts}. Compare it with {path}, and replace that.")


def _show_changes(path: Path, encoding: str, mojibake: bool) -> str:
    """Show the first lines to convert, and return how many there are; an empty text if there are none."""
    counts: Counter[str] = Counter()
    total = valid = 0
    for total, line, converted in _converted_lines(path, encoding, mojibake):
        if converted == line:
            valid += not line.isascii()
            continue
        counts[_kind(line, encoding)] += 1
        if counts.total() <= SHOWN_LINES:
            say(f"line {total:,}: {_change(line, converted, encoding)}")

    more = counts.total() - SHOWN_LINES
    if more > 0:
        say(f"and {more:,} more lines")
    else:
        say(f"{path}: {total:,} lines; {valid:,} beyond ASCII are right utf-8.")
    return " and ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))


def _kind(line: bytes, encoding: str) -> str:
    """Say what is wrong with a line that is converted."""
    if is_encoded(line, "utf-8"):
        return "of mojibake"
    return "with a cut character" if is_cut(line) else f"in {encoding}"


def _write(output: Path, lines: Iterator[tuple[int, bytes, bytes]]) -> None:
    with replace_file(output) as partial, partial.open("wb") as file:
        packed: Any = (
            gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0)
            if output.suffix == ".gz"
            else nullcontext(file)
        )
        with packed as target:
            target.writelines(converted for _, _, converted in lines)


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with (
        read_errors_explained(str(path)),
        open_bytes(path) as (content, _),
        progress(f"data recode: {path}", unit="lines") as step,
    ):
        for step.done, line in enumerate(content, 1):
            if b"\0" in line:
                raise DataError(f"{path}, line {step.done:,}: a zero byte.", UTF_16)
            yield step.done, line


def _guessed_encoding(path: Path) -> str:
    """Return the probable encoding of the lines that are not UTF-8, by the first of them."""
    sample = b""
    for _, line in _read_lines(path):
        if not is_encoded(line, "utf-8") and not is_cut(line):
            sample += line
        if len(sample) >= GUESSED_BYTES:
            break
    return probable_encoding(sample) if sample else "utf-8"


def _converted_lines(path: Path, encoding: str, mojibake: bool) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number of each line, and the line before and after its conversion."""
    for number, line in _read_lines(path):
        if not is_encoded(line, "utf-8"):
            yield number, line, _decoded(path, number, line, encoding).encode()
        else:
            yield number, line, repaired(line.decode()).encode() if mojibake else line


def _decoded(path: Path, number: int, line: bytes, encoding: str) -> str:
    if is_cut(line):
        return line.decode(errors="replace")
    try:
        return repaired(line.decode(encoding))  # a line can have characters of both encodings
    except UnicodeDecodeError as error:
        hint = "Name another in --encoding, or correct this line by hand."
        known = "not utf-8" if encoding == "utf-8" else f"neither utf-8 nor {encoding}"
        raise DataError(f"{path}, line {number:,}: {known}: byte 0x{line[error.start]:02x}.", hint) from None


def _change(line: bytes, converted: bytes, encoding: str) -> str:
    """Say what a line reads now and after the conversion."""
    try:
        return str(correction(line.decode().strip()))
    except UnicodeDecodeError as error:
        around = slice(max(0, error.start - SHOWN_CHARACTERS), error.start + SHOWN_CHARACTERS)
        what = "of a cut character" if is_cut(line) else f"in {encoding}"
        return f"byte 0x{line[error.start]:02x} {what}: {converted.decode()[around].strip()!r}"
