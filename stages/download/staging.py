"""Temporary Parquet copies of the source's splits: row counts and label names must be known before the first row is written."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stages.download.slices import Slice
from stages.download.source import LABEL, SourceColumns, SourceSplit, rebatch
from tuneline.errors import DataError
from tuneline.files.schemas import ROW_GROUP, UNLABELLED, write_batches

INDEX = "idx"
SHOWN = 1_000_000
"""Rows between two progress messages."""


@dataclass(frozen=True)
class StagedSplit:
    """A split of the source as a temporary Parquet file.

    Attributes:
        name: Its file, or its data set and split, for messages.
        unit: What ``position`` counts: ``line`` or ``row``.
        label_names: Class names in the order of their ids, where the source declares them.
        path: The Parquet file: ``SourceColumns.schema`` and ``idx``, the row number from 0.
        rows: Number of rows.
        labelled: True if any label is neither null nor -1.
    """

    name: str
    unit: str
    label_names: tuple[str, ...] | None
    path: Path
    rows: int
    labelled: bool

    def batches(self, part: Slice) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a slice. Only the row groups that contain them are read."""
        with pq.ParquetFile(self.path) as file:
            for group in range(part.start // ROW_GROUP, -(-part.stop // ROW_GROUP)):
                first = group * ROW_GROUP
                table = file.read_row_group(group)
                start, stop = max(part.start - first, 0), min(part.stop - first, table.num_rows)
                yield from table.slice(start, stop - start).to_batches()


def stage_split(split: SourceSplit, columns: SourceColumns, path: Path) -> StagedSplit:
    """Copy a split of the source to a Parquet file.

    Raises:
        DataError: It has no rows, or cannot be read.
    """
    schema = columns.schema.append(pa.field(INDEX, pa.int64(), nullable=False))
    progress = _Progress(split.name)
    rows = write_batches(path, schema, rebatch(progress.indexed(split.batches, schema), schema))
    if rows == 0:
        raise DataError(f"{split.name} has no rows.", "Add rows, or name another split in data.splits.")
    return StagedSplit(split.name, split.unit, split.label_names, path, rows, progress.labelled)


class _Progress:
    """Numbers the rows, prints progress, and notes whether there are labels."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = 0
        self.labelled = False

    def indexed(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            index = pa.array(range(self.rows, self.rows + batch.num_rows), pa.int64())
            if (self.rows + batch.num_rows) // SHOWN > self.rows // SHOWN:
                print(f"download: {self.name}: {self.rows + batch.num_rows:,} rows so far", flush=True)
            self.rows += batch.num_rows
            self.labelled = self.labelled or _any_label(batch[LABEL])
            yield pa.record_batch([*batch.columns, index], schema=schema)


def _any_label(labels: pa.Array) -> bool:
    none = pa.scalar(UNLABELLED).cast(labels.type)
    return bool(pc.any(pc.not_equal(labels, none)).as_py())
