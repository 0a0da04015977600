"""Every split of the source is read once, checked row by row, and kept aside as Parquet: slices need its length first."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stages.errors import DataError
from stages.sources.reading import LABEL, PLACE, Reading, Wanted, rebatch
from stages.sources.slices import Slice
from stages.tables import ROW_GROUP, write_batches

INDEX = "idx"


@dataclass(frozen=True)
class Staged:
    """One split of the source, read and checked.

    Attributes:
        name, unit, label_names: As in ``Reading``.
        path: The Parquet file, of ``Wanted.schema``.
        rows: How many it has.
        labelled: Whether it has labels: some are neither null nor -1.
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
    """Reads a split to its end and checks every row of it.

    Raises:
        DataError: It has no row, or a row is not what it should be.
    """
    schema = wanted.schema.append(pa.field(INDEX, pa.int64(), nullable=False))
    seen = _Seen()
    rows = write_batches(path, schema, rebatch(_checked(reading, wanted, schema, seen), schema))
    if rows == 0:
        raise DataError(f"{reading.name} has no rows.", "Give it some, or take another split in data.splits.")
    return Staged(reading.name, reading.unit, reading.label_names, path, rows, seen.labels)


class _Seen:
    rows = 0
    labels = False


def _checked(reading: Reading, wanted: Wanted, schema: pa.Schema, seen: _Seen) -> Iterator[pa.RecordBatch]:
    for batch in reading.batches:
        check_text(batch, reading, wanted)
        seen.labels = seen.labels or batch[LABEL].null_count < batch.num_rows
        index = pa.array(range(seen.rows, seen.rows + batch.num_rows), pa.int64())
        seen.rows += batch.num_rows
        yield pa.record_batch([*batch.columns, index], schema=schema)


def check_text(batch: pa.RecordBatch, reading: Reading, wanted: Wanted) -> None:
    """Refuses rows without text: a null in any text column, or nothing but white space in all of them."""
    blank = pa.array([True] * batch.num_rows)
    for position, column in enumerate(wanted.text_columns):
        text = batch[f"text_{position}"]
        if text.null_count:
            at = place(batch, pc.is_null(text))
            raise DataError(
                f"{reading.name}, {reading.unit} {at:,}, column {column!r}: no text (null).",
                "Fill it in, or leave the row out.",
            )
        blank = pc.and_(blank, pc.equal(pc.utf8_trim_whitespace(text), ""))
    if blank.true_count:
        columns = " and ".join(repr(column) for column in wanted.text_columns)
        raise DataError(
            f"{reading.name}, {reading.unit} {place(batch, blank):,}, column {columns}: no text, only white space.",
            "Fill it in, or leave the row out.",
        )


def place(batch: pa.RecordBatch, where: pa.BooleanArray) -> int:
    """The place of the first row for which ``where`` holds."""
    return int(batch[PLACE].filter(where)[0].as_py())
