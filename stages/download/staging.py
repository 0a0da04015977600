"""Every split of the source is read once and kept aside as Parquet: slices need its length, labels their names, before rows are written."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stages.download.reading import LABEL, Reading, Wanted, rebatch
from stages.download.slices import Slice
from tuneline.errors import DataError
from tuneline.files.schemas import ROW_GROUP, UNLABELLED, write_batches

INDEX = "idx"
SHOWN = 1_000_000
"""Rows after which a long file shows that it is being read."""


@dataclass(frozen=True)
class Staged:
    """One split of the source, read to its end.

    Attributes:
        name: What messages call it.
        unit: What its places count: ``line`` or ``row``.
        label_names: Class names in the order of their ids, where the source knows them.
        path: The Parquet file: ``Wanted.schema`` and ``idx``, the number of the row.
        rows: How many it has.
        labelled: Whether it has labels: any that is neither null nor -1.
    """

    name: str
    unit: str
    label_names: tuple[str, ...] | None
    path: Path
    rows: int
    labelled: bool

    def batches(self, part: Slice) -> Iterator[pa.RecordBatch]:
        """Rows of a slice. Reads only the row groups it needs."""
        with pq.ParquetFile(self.path) as file:
            for group in range(part.start // ROW_GROUP, -(-part.stop // ROW_GROUP)):
                first = group * ROW_GROUP
                table = file.read_row_group(group)
                start, stop = max(part.start - first, 0), min(part.stop - first, table.num_rows)
                yield from table.slice(start, stop - start).to_batches()


def stage(reading: Reading, wanted: Wanted, path: Path) -> Staged:
    """Reads a split to its end.

    Raises:
        DataError: It has no row, or the source cannot be read on.
    """
    schema = wanted.schema.append(pa.field(INDEX, pa.int64(), nullable=False))
    seen = _Seen(reading.name)
    rows = write_batches(path, schema, rebatch(seen.counted(reading.batches, schema), schema))
    if rows == 0:
        raise DataError(f"{reading.name} has no rows.", "Give it some, or take another split in data.splits.")
    return Staged(reading.name, reading.unit, reading.label_names, path, rows, seen.label)


class _Seen:
    """What is noticed while rows pass."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = 0
        self.label = False

    def counted(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            index = pa.array(range(self.rows, self.rows + batch.num_rows), pa.int64())
            if (self.rows + batch.num_rows) // SHOWN > self.rows // SHOWN:
                print(f"download: {self.name}: {self.rows + batch.num_rows:,} rows so far", flush=True)
            self.rows += batch.num_rows
            self.label = self.label or _any_label(batch[LABEL])
            yield pa.record_batch([*batch.columns, index], schema=schema)


def _any_label(labels: pa.Array) -> bool:
    none = pa.scalar(UNLABELLED).cast(labels.type)
    return bool(pc.any(pc.not_equal(labels, none)).as_py())
