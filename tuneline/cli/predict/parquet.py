"""Parquet files, read a few rows at a time."""

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.cli.predict.rows import BadRow, Row, Rows, Wanted
from tuneline.errors import DataError

ROWS_AT_A_TIME = 1_000
BUFFER = 1 << 20
"""Bytes of a column that are read ahead. Without a limit, a whole row group would be, however large."""


@contextmanager
def open_parquet(path: Path | None, name: str, wanted: Wanted) -> Iterator[tuple[Rows, int]]:
    """Opens a Parquet file, plain or gzip.

    Yields:
        Its rows, and how many there are.

    Raises:
        DataError: It is none, or has not the columns that are wanted.
    """
    if path is None:
        raise DataError("Parquet cannot be read from standard input: its directory is at its end.", "Give the file by its name.")
    with ExitStack() as stack:
        whole = stack.enter_context(_unpacked(path)) if path.suffix == ".gz" else path
        try:
            file = stack.enter_context(pq.ParquetFile(whole, buffer_size=BUFFER, pre_buffer=False))
        except pa.ArrowException as error:
            raise _damaged(name, error) from None
        names = file.schema_arrow.names
        if gone := wanted.missing(names):
            hint = f"It has {', '.join(map(repr, names[:20]))}. Name the columns that hold the text with --text."
            raise DataError(f"{name} has no column {gone[0]!r}.", hint)
        yield _rows(file, name, wanted), file.metadata.num_rows


@contextmanager
def _unpacked(path: Path) -> Iterator[Any]:
    """Parquet is read from its end, which gzip cannot do: unpacked to a file without a name."""
    with tempfile.TemporaryFile() as whole:
        with gzip.open(path) as packed:
            shutil.copyfileobj(packed, whole)
        whole.seek(0)
        yield whole


def _damaged(name: str, error: Exception) -> DataError:
    return DataError(f"{name} is no Parquet file, or a damaged one: {str(error).splitlines()[0]}", "Write it again.")


def _rows(file: pq.ParquetFile, name: str, wanted: Wanted) -> Rows:
    number = 0
    columns = list(dict.fromkeys([*wanted.texts, *wanted.kept]))
    try:
        for batch in file.iter_batches(batch_size=ROWS_AT_A_TIME, columns=columns):
            for values in batch.to_pylist():
                number += 1
                yield _row(number, values, wanted)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(name, error) from None


def _row(number: int, values: dict[str, Any], wanted: Wanted) -> Row | BadRow:
    for column in wanted.texts:
        if not isinstance(values[column], str):
            return BadRow(number, f"row {number}", f"{column!r} is {str(values[column])[:40]}, not text")
    return Row(number, tuple([values[column] for column in wanted.texts]), {column: values[column] for column in wanted.kept})
