"""Reads chosen rows of a Parquet file, a row group at a time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def take_rows(path: Path, rows: Rows, columns: Sequence[str]) -> pa.Table:
    """The chosen rows of a file.

    Args:
        path: A Parquet file.
        rows: Their numbers, ascending. Those beyond the end are left out.
        columns: What to read of them.
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


def spread(total: int, number: int) -> Rows:
    """At most ``number`` rows of ``total``, evenly spread."""
    return np.unique(np.linspace(0, max(total - 1, 0), min(number, total)).astype(np.int64))
