"""The files of ``data/raw``: rows are written shard by shard, and get their names when their number is known.

A shard that a killed process has written whole is not written again.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import pyarrow as pa

from stages.download.source import rebatch
from tuneline.files import replace_file
from tuneline.files.schemas import write_batches
from tuneline.files.shards import shard_file


def write_shards(folder: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch], shard_rows: int) -> int:
    """Write rows as ``00000.parquet``, ``00001.parquet``, ... in a folder, and return their number.

    Args:
        folder: The folder; it may have files with the first of these rows.
        schema: Schema of the rows.
        batches: The rows.
        shard_rows: Rows of each file; the last one may have fewer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = 0
    for number, numbered in groupby(_cut(batches, shard_rows), itemgetter(0)):
        shard, path = (batch for _, batch in numbered), folder / f"{number:05d}.parquet"
        if path.exists():
            rows += sum(batch.num_rows for batch in shard)
        else:
            with replace_file(path) as partial:
                rows += write_batches(partial, schema, rebatch(shard, schema))
    return rows


def _cut(batches: Iterator[pa.RecordBatch], shard_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows with the number of their shard."""
    row = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, shard_rows - row % shard_rows)
            yield row // shard_rows, part
            row, start = row + part.num_rows, start + part.num_rows


def named_shards(written: Path, rows: int, shard_rows: int, folder: Path, split: str) -> Iterator[tuple[Path, Path]]:
    """Yield each file of a split as ``write_shards`` wrote it, and the path that it gets in ``data/raw``."""
    count = -(-rows // shard_rows)
    for number in range(count):
        yield written / f"{number:05d}.parquet", shard_file(folder, split, number, count)
