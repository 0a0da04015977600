"""What every source gives: rows in batches, with the place of each row for messages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from tuneline.files.schemas import ROW_GROUP

LABEL = "label"
PLACE = "place"


@dataclass(frozen=True)
class Wanted:
    """The columns that the line asks of a source.

    Attributes:
        text_columns: One or two names.
        label_column: Its name.
        regression: Whether labels are numbers; else they are class names.
        label_optional: Whether the split may come without the label column.
    """

    text_columns: tuple[str, ...]
    label_column: str
    regression: bool = False
    label_optional: bool = False

    def columns(self, has_label: bool) -> list[str]:
        """The text columns, and the label column where there is one."""
        return [*self.text_columns, *([self.label_column] if has_label else [])]

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches of a reading: text, ``label`` (class name or number, null where there is none), ``place``."""
        text = [pa.field(f"text_{position}", pa.string()) for position in range(len(self.text_columns))]
        label = pa.float64() if self.regression else pa.string()
        return pa.schema([*text, pa.field(LABEL, label), pa.field(PLACE, pa.int64(), nullable=False)])


@dataclass(frozen=True)
class Reading:
    """One split of a source, while it is read.

    Attributes:
        name: What messages call it: a file, or a data set and its split.
        unit: What ``place`` counts, from 1: ``line`` in a text file, ``row`` elsewhere.
        batches: Of ``Wanted.schema``. Reading on may raise a ``DataError``.
        label_names: Class names in the order of their ids, where the source knows them.
    """

    name: str
    unit: str
    batches: Iterator[pa.RecordBatch]
    label_names: tuple[str, ...] | None = None


class Source(Protocol):
    """Where rows come from."""

    def read(self, split: str, wanted: Wanted) -> Reading:
        """Opens one split.

        Raises:
            DataError: The source has no such split or column.
        """
        ...

    def provenance(self) -> dict[str, Any]:
        """What ``source.json`` says about where the rows came from. No clock, no path of the machine."""
        ...


def batches_of(rows: Iterator[Sequence[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Gathers rows of Python values into batches of ``ROW_GROUP``."""
    batch: list[Sequence[Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == ROW_GROUP:
            yield _batch(batch, schema)
            batch = []
    if batch:
        yield _batch(batch, schema)


def _batch(rows: list[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def rebatch(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly ``ROW_GROUP``, but for the last: what is written does not tell how it was read."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROW_GROUP:
            table = pa.Table.from_batches(waiting, schema).combine_chunks()
            whole = rows - rows % ROW_GROUP
            yield from table.slice(0, whole).to_batches(max_chunksize=ROW_GROUP)
            waiting, rows = table.slice(whole).to_batches(), rows - whole
    if rows:
        yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()
