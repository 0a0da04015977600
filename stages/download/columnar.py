"""Conversion of Arrow tables, from Parquet files and from the hub, to the batches of a source."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from stages.download.bad_values import BadValues
from stages.download.source import LABEL, Cursor, SourceColumns, SourceFile
from stages.download.values import class_names, group_values, is_text, label_values
from tuneline.errors import DataError
from tuneline.files.schemas import ROW_GROUP
from tuneline.readers.bad_rows import BadRows
from tuneline.readers.limits import Limits
from tuneline.readers.parquet import open_parquet


@dataclass(frozen=True)
class ColumnConverter:
    """Converts Arrow batches to batches of ``SourceColumns.schema``.

    Attributes:
        bad: The bad rows of the file or data set.
        columns: The columns to read.
        names: Class names by id, where the source declares them.
    """

    bad: BadRows
    columns: SourceColumns
    names: tuple[str, ...] | None

    def convert(self, batches: Iterable[pa.RecordBatch], cursor: Cursor) -> Iterator[pa.RecordBatch]:
        """Convert batch by batch; ``position`` is the row number, from 1. The first batch begins behind the cursor.

        Raises:
            DataError: A column cannot be used as text or label, or a row cannot and bad rows are an error; while reading.
        """
        for batch in batches:
            first = cursor.position + 1
            cursor.position += batch.num_rows
            yield self._batch(batch, first)

    def _batch(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        has_label = self.columns.check(batch.schema.names, self.bad.name)
        positions = range(first, first + batch.num_rows)
        bad = BadValues(self.bad, positions, {name: batch[name] for name in self.columns.names(has_label)})
        texts = [self._text(batch[column], column) for column in self.columns.text_columns]
        groups = [group_values(batch[column], bad.place(column)) for column in self.columns.grouped]
        labels = pa.nulls(batch.num_rows, self.columns.schema.field(LABEL).type)
        if has_label:
            labels = self._labels(batch[self.columns.label_column], bad)
        values = [*texts, *groups, labels, pa.array(positions, pa.int64())]
        return bad.without(pa.record_batch(values, schema=self.columns.schema))

    def _text(self, values: pa.Array, column: str) -> pa.Array:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if not is_text(values.type) and not pa.types.is_null(values.type):
            raise DataError(f"{self.bad.name}: column {column!r} holds {values.type}, not text.", "Name another in data.text_columns.")
        return values.cast(pa.string())

    def _labels(self, values: pa.Array, bad: BadValues) -> pa.Array:
        column = self.columns.label_column
        if self.names is not None and pa.types.is_integer(values.type) and not self.columns.regression:
            return class_names(values, self.names, bad, column)
        return label_values(values, self.columns.regression, bad, column)


def read_parquet(path: Path, columns: SourceColumns, limits: Limits) -> SourceFile:
    """Open a Parquet file, with the class names that the datasets library stored in its schema, if any.

    Raises:
        DataError: It is not a Parquet file, or a damaged one; here or while reading.
    """
    with open_parquet(path, limits=limits) as file:
        names = _declared_names(file.schema, columns.label_column)
    converter = ColumnConverter(columns.bad_rows(str(path), "row"), columns, names)

    def batches(cursor: Cursor) -> Iterator[pa.RecordBatch]:
        return converter.convert(_batches(path, columns, limits, cursor.position), cursor)

    return SourceFile(converter.bad, batches, names)


def _batches(path: Path, columns: SourceColumns, limits: Limits, skip: int) -> Iterator[pa.RecordBatch]:
    with open_parquet(path, limits=limits) as file:
        has_label = columns.check(file.schema.names, str(path))
        for batch in file.batches(ROW_GROUP, columns.names(has_label)):
            if skip < batch.num_rows:
                yield batch.slice(skip)
            skip = max(skip - batch.num_rows, 0)


def _declared_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    try:
        feature = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][column]
        return tuple(feature["names"]) if feature["_type"] == "ClassLabel" else None
    except (KeyError, TypeError, ValueError):
        return None
