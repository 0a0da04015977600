"""Arrow tables from Parquet files and from the hub, brought into the shape of a reading."""

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from stages.download.columns import find_columns
from stages.download.reading import LABEL, Wanted
from stages.download.textfile import open_bytes
from stages.download.values import class_names, is_text, label_values
from tuneline.errors import DataError
from tuneline.files.schemas import ROW_GROUP


@dataclass(frozen=True)
class Columnar:
    """Turns batches of any source into batches of ``wanted.schema``.

    Attributes:
        name: The file or data set, for messages.
        wanted: The columns asked for.
        names: Class names by id, where the source declares them.
    """

    name: str
    wanted: Wanted
    names: tuple[str, ...] | None

    def convert(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Converts batch by batch; ``place`` is the row, counted from 1.

        Raises:
            DataError: A column is of no use as text or label; while reading.
        """
        first = 1
        for batch in batches:
            yield self._batch(batch, first)
            first += batch.num_rows

    def _batch(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        has_label = find_columns(batch.schema.names, self.wanted, self.name)
        columns = [self._text(batch[column], column) for column in self.wanted.text_columns]
        labels = pa.nulls(batch.num_rows, self.wanted.schema.field(LABEL).type)
        if has_label:
            labels = self._labels(batch[self.wanted.label_column], first)
        places = pa.array(range(first, first + batch.num_rows), pa.int64())
        return pa.record_batch([*columns, labels, places], schema=self.wanted.schema)

    def _text(self, values: pa.Array, column: str) -> pa.Array:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if not is_text(values.type) and not pa.types.is_null(values.type):
            raise DataError(f"{self.name}: column {column!r} holds {values.type}, not text.", "Take another in data.text_columns.")
        return values.cast(pa.string())

    def _labels(self, values: pa.Array, first: int) -> pa.Array:
        def where(row: int) -> str:
            return f"{self.name}, row {first + row:,}, column {self.wanted.label_column!r}"

        if self.names is not None and pa.types.is_integer(values.type) and not self.wanted.regression:
            return class_names(values, self.names, where)
        return label_values(values, self.wanted.regression, where)


def read_parquet(path: Path, wanted: Wanted) -> tuple[Iterator[pa.RecordBatch], tuple[str, ...] | None]:
    """Reads a Parquet file, plain or gzip, in batches of ``wanted.schema``.

    Returns:
        The batches, and the class names that the datasets library left in the file's schema, if it did.

    Raises:
        DataError: It is no Parquet file, or a damaged one; here or while reading.
    """
    names = _declared_names(_schema(path), wanted.label_column)
    return Columnar(str(path), wanted, names).convert(_batches(path, wanted)), names


def _schema(path: Path) -> pa.Schema:
    with _opened(path) as file:
        return file.schema_arrow


def _batches(path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    with _opened(path) as file:
        present = file.schema_arrow.names
        has_label = find_columns(present, wanted, str(path))
        yield from file.iter_batches(batch_size=ROW_GROUP, columns=wanted.columns(has_label))


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        with ExitStack() as stack:
            whole = path if path.suffix != ".gz" else _unpacked(path, stack.enter_context(tempfile.TemporaryFile()))
            yield stack.enter_context(pq.ParquetFile(whole))
    except pa.ArrowException as error:
        raise DataError(f"{path}: no Parquet file, or a damaged one: {str(error).splitlines()[0]}", "Write it again.") from None
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise DataError(f"{path}: no Parquet file, or a damaged one: {reason}", "Write it again.") from None


def _unpacked(path: Path, target: IO[bytes]) -> IO[bytes]:
    """Parquet is read from its end, which gzip cannot do."""
    with open_bytes(path) as packed:
        shutil.copyfileobj(packed, target)
    target.seek(0)
    return target


def _declared_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    try:
        feature = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"][column]
        return tuple(feature["names"]) if feature["_type"] == "ClassLabel" else None
    except (KeyError, TypeError, ValueError):
        return None
