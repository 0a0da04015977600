"""Parquet files, plain or gzip, read in batches.

What their rows take is counted while they are decoded, and has limits.
"""

import io
import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tuneline.core.tables import FEATURES, ROW_GROUP
from tuneline.readers.files import DataFile, RemoteFile
from tuneline.readers.rows import (
    DEFAULT_LIMITS,
    MB,
    PARAMETERS,
    BadRows,
    Limits,
    OptionNames,
    check_columns,
    too_large,
)
from tuneline.readers.tables import FileTable, Format, Input, Layout, ValueBatch
from tuneline.readers.text import CHUNK, is_gzip, open_bytes, read_errors_explained
from tuneline.runtime.disk_errors import cannot_write
from tuneline.runtime.errors import DataError, UnreadableError

BUFFER = 1 << 20
"""Bytes of a column that are read ahead. Without a limit, a whole row group would be, however large."""
BATCH = 16 * MB
"""Bytes of a batch, decoded. Batches have fewer rows where their rows might take more, at least one."""
SAMPLE = 16
"""Rows at the start of a row group that show how large decoded rows are.

A dictionary makes large rows from few bytes.
"""
VALUE = 8
"""Bytes of a value of a list, decoded, at least."""
PREDICTED_ROWS = 1_000
"""Rows that are decoded at a time where rows are taken one by one."""


@dataclass(frozen=True)
class Parquet(Format):
    """Columns of Arrow types, with a footer that describes them."""

    def described(self, layout: Layout) -> str:  # noqa: ARG002
        """Return its name: the file describes itself."""
        return "Parquet"

    def open(self, source: Input, stack: ExitStack) -> "ParquetTable":
        """Open a file, and read its footer."""
        if source.path is None:
            raise DataError(
                "Parquet cannot be read from standard input: its directory is at its end.", "Name the file."
            )
        return ParquetTable(
            source, stack.enter_context(open_parquet(source.path, source.options, source.limits))
        )

    def count_rows(self, source: Input) -> int | None:
        """Return the number of rows; ``None`` for a gzip file, which would be unpacked for each part."""
        if source.path is None or is_gzip(source.path):
            return None
        with open_parquet(source.path, source.options, source.limits) as file:
            return file.rows


PARQUET = Parquet("parquet", (".parquet",), unit="row", is_columnar=True)


class ParquetReader:
    """Rows of an open Parquet file."""

    def __init__(
        self,
        content: Path | io.BufferedIOBase,
        path: DataFile,
        options: OptionNames,
        limits: Limits,
        stack: ExitStack,
    ) -> None:
        """Read the footer; a ``DataError`` if it is not the footer of a Parquet file."""
        self._path = path
        self._options = options
        self._limits = limits
        with _explained(path):
            file = stack.enter_context(pq.ParquetFile(content, buffer_size=BUFFER, pre_buffer=False))
            self.schema: pa.Schema = file.schema_arrow
        self._file = file
        self._leaves = {file.schema.column(position).path: position for position in range(len(file.schema))}
        self.rows = self._counted_rows()

    def _counted_rows(self) -> int:
        """Return the number of rows, if all that the footer says of it agrees.

        A wrong total would hide rows, or reserve memory for none.

        Raises:
            DataError: The counts differ, or there are more rows than a file may have bytes when decoded.
        """
        metadata = self._file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        rows = sum(int(group.num_rows) for group in groups)
        if metadata.num_rows != rows:
            self._refuse_counts(f"{metadata.num_rows:,} rows, and its row groups have {rows:,}")

        # A column of lists has more values than rows.
        flat = []
        for position in self._leaves.values():
            if not self._file.schema.column(position).max_repetition_level:
                flat.append(position)
        for number, group in enumerate(groups, start=1):
            for position in flat:
                values = group.column(position).num_values
                if values != group.num_rows or values < 0:
                    self._refuse_counts(
                        f"{group.num_rows:,} rows for row group {number}, and a column of it has {values:,}"
                        " values"
                    )

        self._check_size(rows)  # each takes a byte at least
        return rows

    def _check_size(self, size: int) -> None:
        """Check the bytes of all rows that were decoded."""
        limit = self._limits.unpacked
        if size > limit:
            name = str(self._path)
            raise too_large(name, "its rows take more", f"{limit / MB:,.0f} MB", self._options.unpacked)

    def _refuse_counts(self, difference: str) -> NoReturn:
        problem = f"{self._path}: not a Parquet file, or a damaged one: its footer counts {difference}"
        raise DataError(f"{problem}.", "Write it again.")

    def batches(
        self,
        rows: int,
        columns: Sequence[str],
        part: range | None = None,
        lists: Collection[str] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most ``rows`` rows. Columns with dictionaries are decoded.

        Args:
            rows: Most rows of a batch.
            columns: Names of the columns to read.
            part: Numbers of the rows to read, from 0; ``None`` for all.
            lists: The columns that may hold lists of text or numbers.

        Raises:
            DataError: The file is damaged or larger than a limit, or one of the other columns holds lists, or
                any objects.
        """
        for name in columns:
            kind = self.schema.field(name).type
            if pa.types.is_nested(kind) and not (name in lists and is_list(kind)):
                raise DataError(
                    f"{self._path}: column {name!r} holds {kind}, not text or numbers.",
                    "Name another column.",
                )

        size = 0
        with _explained(self._path):
            for group, first in self._groups(part or range(self.rows)):
                before = first - 1  # rows of the file that precede the batch
                for batch in self._decode(group, rows, columns, first, size):
                    selected = batch
                    if part is not None:
                        selected = batch[max(part.start - before, 0) : max(part.stop - before, 0)]
                    if selected:
                        yield selected
                    before += batch.num_rows
                    size += batch.nbytes

    def _groups(self, part: range) -> Iterator[tuple[int, int]]:
        """Yield the number of each row group that has rows of a part, and its first row, from 1."""
        first = 1
        for number in range(self._file.num_row_groups):
            after = first + self._file.metadata.row_group(number).num_rows
            if after - 1 > part.start and first - 1 < part.stop:
                yield number, first
            first = after

    def _decode(
        self, group: int, rows: int, columns: Sequence[str], first: int, before: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one row group.

        ``first`` is the number of its first row, from 1; ``before`` are the bytes of the groups before it.
        """
        metadata = self._file.metadata.row_group(group)
        encoded = sum(self._encoded_size(metadata, name) for name in columns)
        self._check_group(group, encoded)
        read = partial(self._file.iter_batches, row_groups=[group], columns=list(columns))

        # bytes of a row, at least 1: by the footer, or as the first rows are when decoded
        row_bytes = max(1, encoded / max(1, metadata.num_rows))
        sample = next(map(_plain, read(SAMPLE)), None)
        if sample:
            row_bytes = max(row_bytes, sample.nbytes / len(sample))

        size = 0
        read_rows = 0
        batch_rows = max(1, min(rows, int(BATCH / row_bytes)))
        for batch in map(_plain, read(batch_rows)):
            self._check_cells(batch, first)
            size += batch.nbytes
            self._check_group(group, size)
            self._check_size(before + size)
            yield batch
            first += batch.num_rows
            read_rows += batch.num_rows
        if read_rows != metadata.num_rows:
            self._refuse_counts(
                f"{metadata.num_rows:,} rows for row group {group + 1}, and it has {read_rows:,}"
            )

    def _encoded_size(self, metadata: pq.RowGroupMetaData, name: str) -> int:
        """Return the bytes of a column of a row group, by the footer; of lists, at least those of numbers.

        Equal values of a list take nearly no bytes in the file.
        """
        if name in self._leaves:
            return int(metadata.column(self._leaves[name]).total_uncompressed_size)
        size = 0
        for path, position in self._leaves.items():
            is_repeated = self._file.schema.column(position).max_repetition_level > 0
            if is_repeated and path.startswith(f"{name}."):
                column = metadata.column(position)
                size += max(int(column.total_uncompressed_size), int(column.num_values) * VALUE)
        return size

    def _check_group(self, number: int, size: int) -> None:
        limit = self._limits.row_group
        if size > limit:
            where = f"{self._path}, row group {number + 1}"
            raise too_large(where, "its rows take more", f"{limit / MB:,.0f} MB", self._options.row_group)

    def _check_cells(self, batch: pa.RecordBatch, first: int) -> None:
        """Check that texts are UTF-8 and not longer than the limit."""
        limit = self._limits.cell
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            values = column.flatten() if is_list(column.type) else column
            is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
            is_binary = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
            if not is_text and not is_binary:
                continue
            try:
                values.validate(full=True)
            except pa.ArrowInvalid:
                where = f"{self._path}, rows {first:,} to {first + len(column) - 1:,}, column {name!r}"
                raise DataError(f"{where}: a text is not utf-8.", "Write the file again.") from None
            # Bytes come from the offsets, and no text has more characters than bytes: few need to be counted.
            lengths = pc.binary_length(values)
            if (pc.max(lengths).as_py() or 0) > limit:
                if is_text:
                    lengths = pc.utf8_length(values)
                rows = pa.array(np.arange(first, first + len(column)))
                if is_list(column.type):
                    rows = rows.take(pc.list_parent_indices(column))
                self._refuse_long(name, lengths, rows)

    def _refuse_long(self, name: str, lengths: pa.Array, rows: pa.Array) -> None:
        """Refuse a column if its longest text is longer than the limit; ``rows`` has the row of each text."""
        longest = pc.max(lengths)
        if longest.as_py() > self._limits.cell:
            row = rows[pc.index(lengths, longest).as_py()].as_py()
            where = f"{self._path}, row {row:,}, column {name!r}"
            raise too_large(
                where, f"{longest.as_py():,} characters, more", f"{self._limits.cell:,}", self._options.cell
            )


class ParquetTable(FileTable):
    """An open Parquet file as a table."""

    def __init__(self, source: Input, reader: ParquetReader) -> None:
        super().__init__(source)
        self._reader = reader

    @property
    def total(self) -> int | None:
        """Number of rows."""
        return self._reader.rows

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._reader.schema.names)

    def readable_names(self) -> list[str]:
        """Return the names of the columns without objects, and without lists of lists."""
        names = []
        for name in self.names():
            if not pa.types.is_nested(self._reader.schema.field(name).type) or self.has_lists(name):
                names.append(name)
        return names

    def declared(self, column: str) -> tuple[str, ...] | None:
        """Return the class names that the datasets library stored."""
        return declared_names(self._reader.schema, column)

    def has_lists(self, column: str) -> bool:
        """Return True if there is a column of this name, and it has lists of single values."""
        schema = self._reader.schema
        return column in schema.names and is_list(schema.field(column).type)

    def rows(
        self,
        columns: Mapping[str, str],
        everywhere: Collection[str] | None = None,  # noqa: ARG002
        lists: Collection[str] = (),
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the number and the values of each row."""
        for batch in self._batches(columns, PREDICTED_ROWS, lists):
            arrays: list[Any] = [batch.columns[name] for name in columns]
            rows = zip(*(array.to_pylist() for array in arrays), strict=True)
            yield from zip(batch.positions, rows, strict=True)

    def batches(
        self,
        columns: Mapping[str, str],
        bad: BadRows,  # noqa: ARG002
        everywhere: Collection[str] | None = None,  # noqa: ARG002
        lists: Collection[str] = (),
    ) -> Iterator[ValueBatch]:
        """Yield batches of at most ``ROW_GROUP`` rows; no row is bad."""
        return self._batches(columns, ROW_GROUP, lists)

    def _batches(self, columns: Mapping[str, str], rows: int, lists: Collection[str]) -> Iterator[ValueBatch]:
        check_columns(self.names(), columns, self.name)
        part = self.source.part
        first = 1 if part is None else part.start + 1
        yield from ValueBatch.numbered(self._reader.batches(rows, list(columns), part, lists), first)


@contextmanager
def open_parquet(
    path: DataFile, options: OptionNames = PARAMETERS, limits: Limits = DEFAULT_LIMITS
) -> Iterator[ParquetReader]:
    """Open a Parquet file.

    Raises:
        DataError: It is not a Parquet file, or a damaged one.
        DiskError: The folder of temporary files is full.
    """
    with ExitStack() as stack:
        content: Path | io.BufferedIOBase
        if is_gzip(path):
            content = stack.enter_context(_unpacked(path, options, limits))
        elif isinstance(path, RemoteFile):
            content = stack.enter_context(path.open_bytes(in_order=False))
        else:
            content = path
        yield ParquetReader(content, path, options, limits, stack)


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
    """Return a batch without dictionaries and views, which take other sizes than the cells."""
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
def _explained(path: DataFile) -> Iterator[None]:
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException as well
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None)
        if not reason:
            reason, *_ = str(error).splitlines() or ["unknown error"]
        if getattr(error, "errno", None):
            raise UnreadableError(
                f"{path} cannot be read: {reason}", "Check that it exists and that you may read it."
            ) from None
        raise DataError(
            f"{path}: not a Parquet file, or a damaged one: {reason}", "Write it again."
        ) from None


@contextmanager
def _unpacked(path: DataFile, options: OptionNames, limits: Limits) -> Iterator[io.BufferedIOBase]:
    """Unpack into a file without a name: Parquet is read from its end, which gzip cannot do."""
    with tempfile.TemporaryFile() as content:
        with read_errors_explained(str(path)), open_bytes(path, options, limits) as (packed, _):
            while chunk := packed.read(CHUNK):
                try:
                    content.write(chunk)
                except OSError as error:
                    raise cannot_write(Path(tempfile.gettempdir()), error) from error
        content.seek(0)
        yield content
