"""Parquet files, plain or gzip, read in batches.

What their rows take is counted while they are decoded, and has limits.
"""

import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tuneline.core.disk_errors import cannot_write
from tuneline.core.errors import DataError, UnreadableError
from tuneline.readers.files import DataFile, RemoteFile
from tuneline.readers.rows import DEFAULT_LIMITS, MB, PARAMETERS, Limits, OptionNames, too_large
from tuneline.readers.text import CHUNK, is_gzip, open_bytes, read_errors_explained

BUFFER = 1 << 20
"""Bytes of a column that are read ahead. Without a limit, a whole row group would be, however large."""
BATCH = 16 * MB
"""Bytes of a batch, decoded. Batches have fewer rows where their rows might take more, at least one."""
SAMPLE = 16
"""Rows at the start of a row group that show how large rows are when decoded: a dictionary makes large rows from few bytes."""


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
        """Read the footer; a ``DataError`` if it is not that of a Parquet file."""
        self._path, self._options, self._limits = path, options, limits
        with _explained(path):
            file = stack.enter_context(pq.ParquetFile(content, buffer_size=BUFFER, pre_buffer=False))
            self.schema: pa.Schema = file.schema_arrow
        self._file = file
        self._leaves = {file.schema.column(position).path: position for position in range(len(file.schema))}
        self.rows = self._counted_rows()

    def _counted_rows(self) -> int:
        """Return the number of rows, if all that the footer says of it agrees: a wrong total would hide rows, or reserve memory for none.

        Raises:
            DataError: The counts differ, or there are more rows than a file may have bytes when decoded.
        """
        metadata = self._file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        rows = sum(int(group.num_rows) for group in groups)
        if metadata.num_rows != rows:
            self._refuse_counts(f"{metadata.num_rows:,} rows, and its row groups have {rows:,}")
        flat = [
            position
            for position in self._leaves.values()
            if not self._file.schema.column(position).max_repetition_level
        ]
        for number, group in enumerate(groups, start=1):
            for position in flat:
                values = group.column(position).num_values
                if values != group.num_rows or values < 0:
                    self._refuse_counts(
                        f"{group.num_rows:,} rows for row group {number}, and a column of it has {values:,}"
                        " values"
                    )
        if rows > self._limits.unpacked:  # each takes a byte at least
            raise too_large(
                str(self._path),
                "its rows take more",
                f"{self._limits.unpacked / MB:,.0f} MB",
                self._options.unpacked,
            )
        return rows

    def _refuse_counts(self, difference: str) -> NoReturn:
        problem = f"{self._path}: not a Parquet file, or a damaged one: its footer counts {difference}"
        raise DataError(f"{problem}.", "Write it again.")

    def batches(
        self, rows: int, columns: Sequence[str], part: range | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most ``rows`` rows.

        ``part`` has the numbers of the rows to read, from 0. Columns with dictionaries are decoded.

        Raises:
            DataError: The file is damaged or larger than a limit, or one of the columns holds lists or
                objects.
        """
        for name in columns:
            if pa.types.is_nested(kind := self.schema.field(name).type):
                raise DataError(
                    f"{self._path}: column {name!r} holds {kind}, not text or numbers.",
                    "Name another column.",
                )
        size = 0
        with _explained(self._path):
            for group, first in self._groups(part or range(self.rows)):
                for batch in self._decode(group, rows, columns, first, size):
                    if found := (
                        batch
                        if part is None
                        else batch[max(part.start - first + 1, 0) : max(part.stop - first + 1, 0)]
                    ):
                        yield found
                    first, size = first + batch.num_rows, size + batch.nbytes  # noqa: PLW2901

    def _groups(self, part: range) -> Iterator[tuple[int, int]]:
        """Yield the number of each row group that has rows of a part, and the number of its first row, from 1."""
        first = 1
        for number in range(self._file.num_row_groups):
            after = first + self._file.metadata.row_group(number).num_rows
            if after - 1 > part.start and first - 1 < part.stop:
                yield number, first
            first = after

    def _decode(
        self, group: int, rows: int, columns: Sequence[str], first: int, before: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one row group, whose first row has the number ``first``; ``before`` are the bytes of the groups before it."""
        metadata = self._file.metadata.row_group(group)
        encoded = sum(metadata.column(self._leaves[name]).total_uncompressed_size for name in columns)
        self._check_group(group, encoded)
        size = read_rows = 0
        read = partial(self._file.iter_batches, row_groups=[group], columns=list(columns))
        sample = next(map(_plain, read(SAMPLE)), None)
        large = max(encoded / max(1, metadata.num_rows), sample.nbytes / len(sample) if sample else 0, 1)
        for batch in map(_plain, read(max(1, min(rows, int(BATCH / large))))):
            self._check_cells(batch, first)
            size += batch.nbytes
            self._check_group(group, size)
            if before + size > self._limits.unpacked:
                raise too_large(
                    str(self._path),
                    "its rows take more",
                    f"{self._limits.unpacked / MB:,.0f} MB",
                    self._options.unpacked,
                )
            yield batch
            first += batch.num_rows
            read_rows += batch.num_rows
        if read_rows != metadata.num_rows:
            self._refuse_counts(
                f"{metadata.num_rows:,} rows for row group {group + 1}, and it has {read_rows:,}"
            )

    def _check_group(self, number: int, size: int) -> None:
        limit = self._limits.row_group
        if size > limit:
            where = f"{self._path}, row group {number + 1}"
            raise too_large(where, "its rows take more", f"{limit / MB:,.0f} MB", self._options.row_group)

    def _check_cells(self, batch: pa.RecordBatch, first: int) -> None:
        """Check that texts are UTF-8 and not longer than the limit."""
        limit = self._limits.cell
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
            if not (is_text or pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
                continue
            try:
                values.validate(full=True)
            except pa.ArrowInvalid:
                where = f"{self._path}, rows {first:,} to {first + len(values) - 1:,}, column {name!r}"
                raise DataError(f"{where}: a text is not utf-8.", "Write the file again.") from None
            if (pc.max(pc.binary_length(values)).as_py() or 0) > limit:
                self._refuse_long(
                    name, pc.utf8_length(values) if is_text else pc.binary_length(values), first
                )

    def _refuse_long(self, name: str, lengths: pa.Array, first: int) -> None:
        longest = pc.max(lengths)
        if longest.as_py() > self._limits.cell:
            where = f"{self._path}, row {first + pc.index(lengths, longest).as_py():,}, column {name!r}"
            raise too_large(
                where, f"{longest.as_py():,} characters, more", f"{self._limits.cell:,}", self._options.cell
            )


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
        if is_gzip(path):
            content: Path | io.BufferedIOBase = stack.enter_context(_unpacked(path, options, limits))
        else:
            content = (
                stack.enter_context(path.open_bytes(in_order=False)) if isinstance(path, RemoteFile) else path
            )
        yield ParquetReader(content, path, options, limits, stack)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without dictionaries and views, whose sizes would not be those of its cells."""
    columns = [
        values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        for values in batch.columns
    ]
    columns = [
        values.cast(pa.string()) if pa.types.is_string_view(values.type) else values for values in columns
    ]
    return pa.record_batch(columns, names=batch.schema.names)


@contextmanager
def _explained(path: DataFile) -> Iterator[None]:
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException as well
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or (str(error).splitlines() or ["unknown error"])[0]
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
