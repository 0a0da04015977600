"""Conversion of Arrow tables, from Parquet files and from the hub, to the batches of a source."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from stages.download.source import LABEL, SourceColumns
from stages.download.values import Where, class_names, group_values, is_text, label_values
from tuneline.errors import DataError
from tuneline.files.schemas import ROW_GROUP
from tuneline.readers.limits import Limits
from tuneline.readers.parquet import open_parquet


@dataclass(frozen=True)
class ColumnConverter:
    """Converts Arrow batches to batches of ``SourceColumns.schema``.

    Attributes:
        name: The file or data set, for messages.
        columns: The columns to read.
        names: Class names by id, where the source declares them.
    """

    name: str
    columns: SourceColumns
    names: tuple[str, ...] | None

    def convert(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert batch by batch; ``position`` is the row number, from 1.

        Raises:
            DataError: A column cannot be used as text or label; while reading.
        """
        first = 1
        for batch in batches:
            yield self._batch(batch, first)
            first += batch.num_rows

    def _batch(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        has_label = self.columns.check(batch.schema.names, self.name)
        texts = [self._text(batch[column], column) for column in self.columns.text_columns]
        groups = [group_values(batch[column], self._where(column, first)) for column in self.columns.grouped]
        labels = pa.nulls(batch.num_rows, self.columns.schema.field(LABEL).type)
        if has_label:
            labels = self._labels(batch[self.columns.label_column], first)
        positions = pa.array(range(first, first + batch.num_rows), pa.int64())
        return pa.record_batch([*texts, *groups, labels, positions], schema=self.columns.schema)

    def _text(self, values: pa.Array, column: str) -> pa.Array:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if not is_text(values.type) and not pa.types.is_null(values.type):
            raise DataError(f"{self.name}: column {column!r} holds {values.type}, not text.", "Name another in data.text_columns.")
        return values.cast(pa.string())

    def _where(self, column: str, first: int) -> Where:
        return lambda row: f"{self.name}, row {first + row:,}, column {column!r}"

    def _labels(self, values: pa.Array, first: int) -> pa.Array:
        where = self._where(self.columns.label_column, first)
        if self.names is not None and pa.types.is_integer(values.type) and not self.columns.regression:
            return class_names(values, self.names, where)
        return label_values(values, self.columns.regression, where)


def read_parquet(path: Path, columns: SourceColumns, limits: Limits) -> tuple[Iterator[pa.RecordBatch], tuple[str, ...] | None]:
    """Read a Parquet file in batches of ``columns.schema``.

    Returns:
        The batches, and the class names that the datasets library stored in the file's schema, if any.

    Raises:
        DataError: It is not a Parquet file, or a damaged one; here or while reading.
    """
    with open_parquet(path, limits=limits) as file:
        names = _declared_names(file.schema, columns.label_column)
    return ColumnConverter(str(path), columns, names).convert(_batches(path, columns, limits)), names


def _batches(path: Path, columns: SourceColumns, limits: Limits) -> Iterator[pa.RecordBatch]:
    with open_parquet(path, limits=limits) as file:
        has_label = columns.check(file.schema.names, str(path))
        yield from file.batches(ROW_GROUP, columns.names(has_label))


def _declared_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    try:
        feature = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][column]
        return tuple(feature["names"]) if feature["_type"] == "ClassLabel" else None
    except (KeyError, TypeError, ValueError):
        return None
