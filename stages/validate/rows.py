"""Rows of Parquet files: all of them in batches, or chosen ones."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

BATCH_ROWS = 65_536
Rows = NDArray[np.int64]


def read_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches; one empty batch for a file without rows, so that its columns are known.

    Args:
        path: A Parquet file.
        columns: Columns to read; all by default.
    """
    with pq.ParquetFile(path) as file:
        if file.metadata.num_rows == 0:
            yield pa.RecordBatch.from_pylist([], schema=file.schema_arrow)
        yield from file.iter_batches(batch_size=BATCH_ROWS, columns=columns)


def take_rows(path: Path, rows: Rows, columns: Sequence[str]) -> pa.Table:
    """Read chosen rows of a file, one row group at a time.

    Args:
        path: A Parquet file.
        rows: Row numbers, ascending. Numbers beyond the last row are ignored.
        columns: Columns to read.
    """
    taken, start = [], 0
    with pq.ParquetFile(path) as file:
        schema = pa.schema([file.schema_arrow.field(name) for name in columns])
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            inside = rows[(rows >= start) & (rows < end)] - start
            if len(inside):
                taken.append(file.read_row_group(group, columns=list(columns)).take(pa.array(inside)))
            start = end
    return pa.concat_tables(taken).select(list(columns)) if taken else schema.empty_table()


def evenly_spaced(total: int, number: int) -> Rows:
    """Return at most ``number`` of ``total`` row numbers, evenly spaced from the first to the last."""
    return np.unique(np.linspace(0, max(total - 1, 0), min(number, total)).astype(np.int64))
