"""Parquet files, read in batches whose size in memory is bounded."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.core.runtime.errors import DataError, UnreadableError
from tuneline.core.stage.tables import FEATURES, ROW_GROUP
from tuneline.rows.reading.rows import MB, BadRows, check_columns
from tuneline.rows.reading.tables import FileTable, Format, Input, ValueBatch

BUFFER = 1 << 20
"""Bytes of a column that are read ahead. Without a limit, a whole row group would be, however large."""
BATCH = 16 * MB
"""Bytes of a batch. Batches have fewer rows where their rows take more, at least one."""
PREDICTED_ROWS = 1_000
"""Rows that are decoded at a time where rows are taken one by one."""


class ParquetTable(FileTable):
    """An open Parquet file."""

    def __init__(self, source: Input, stack: ExitStack) -> None:
        """Read the footer; a ``DataError`` if it is not the footer of a Parquet file."""
        super().__init__(source)
        path = source.path
        if path is None or path.suffix.lower() == ".gz":
            raise DataError(
                f"{self.name}: Parquet is read from a plain file, because its directory is at its end.",
                "Unpack it, and name the file.",
            )
        with _explained(self.name):
            self._file = stack.enter_context(pq.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False))
            self.schema: pa.Schema = self._file.schema_arrow

    @property
    def total(self) -> int | None:
        """Number of rows."""
        return int(self._file.metadata.num_rows)

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.schema.names)

    def declared(self, column: str) -> tuple[str, ...] | None:
        """Return the class names that the datasets library stored."""
        return declared_names(self.schema, column)

    def has_lists(self, column: str) -> bool:
        """Return True if there is a column of this name, and it has lists of single values."""
        return column in self.schema.names and is_list(self.schema.field(column).type)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the number and the values of each row."""
        for batch in self._batches(columns, PREDICTED_ROWS):
            values = []
            for name in columns:
                array: Any = batch.columns[name]
                values.append(array.to_pylist())
            yield from zip(batch.positions, zip(*values, strict=True), strict=True)

    def batches(self, columns: Sequence[str], bad: BadRows) -> Iterator[ValueBatch]:  # noqa: ARG002
        """Yield batches of at most ``ROW_GROUP`` rows; no row is bad."""
        return self._batches(columns, ROW_GROUP)

    def _batches(self, columns: Sequence[str], rows: int) -> Iterator[ValueBatch]:
        check_columns(self.names(), columns, self.name)
        first = 1
        with _explained(self.name):
            for group in range(self._file.num_row_groups):
                metadata = self._file.metadata.row_group(group)
                row_bytes = metadata.total_byte_size / max(1, metadata.num_rows)
                batch_rows = max(1, min(rows, int(BATCH / max(1, row_bytes))))
                batches = self._file.iter_batches(batch_rows, row_groups=[group], columns=list(columns))
                for batch in map(_plain, batches):
                    positions = range(first, first + batch.num_rows)
                    self._check_cells(batch, positions)
                    yield ValueBatch(positions, dict(zip(batch.schema.names, batch.columns, strict=True)))
                    first += batch.num_rows

    def _check_cells(self, batch: pa.RecordBatch, positions: range) -> None:
        """Check that texts are UTF-8."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            values = column.flatten() if is_list(column.type) else column
            if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
                continue
            where = f"{self.name}, rows {positions[0]:,} to {positions[-1]:,}, column {name!r}"
            try:
                values.validate(full=True)
            except pa.ArrowInvalid:
                raise DataError(f"{where}: a text is not utf-8.", "Write the file again.") from None


def declared_names(schema: pa.Schema, column: str) -> tuple[str, ...] | None:
    """Return the class names of a column of ids, or of lists of ids, if the datasets library stored them."""
    try:
        feature = json.loads(schema.metadata[FEATURES])["info"]["features"][column]
        while "feature" in feature:  # a list
            feature = feature["feature"]
        return tuple(feature["names"])
    except (KeyError, TypeError, ValueError):
        return None


def is_list(kind: pa.DataType) -> bool:
    """Return True for an Arrow type of lists of single values."""
    is_any_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_any_list and not pa.types.is_nested(kind.value_type))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without dictionaries and views."""
    columns = []
    for values in batch.columns:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()  # noqa: PLW2901
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.string())  # noqa: PLW2901
        if is_list(values.type) and pa.types.is_dictionary(values.type.value_type):
            values = values.cast(pa.list_(values.type.value_type.value_type))  # noqa: PLW2901
        columns.append(values)
    return pa.record_batch(columns, names=batch.schema.names)


@contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException as well
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason, *_ = str(error).splitlines() or ["unknown error"]
        if getattr(error, "errno", None):
            raise UnreadableError(
                f"{name} cannot be read: {reason}", "Check that it exists and that you may read it."
            ) from None
        raise DataError(
            f"{name}: not a Parquet file, or a damaged one: {reason}", "Write it again."
        ) from None


PARQUET = Format("parquet", (".parquet",), ParquetTable, unit="row", is_columnar=True)
