"""Parquet files, plain or gzip, read in batches of bounded size.

A cell may be stored once for a million rows, so neither the size of a file nor the sizes in its footer say how much memory its rows take.
Before a row group is decoded, its largest repeated cell is measured, and batches have as few rows as that demands.
"""

import io
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tuneline.errors import DataError, UnreadableError
from tuneline.files.disk_errors import cannot_write
from tuneline.readers.limits import DEFAULT_LIMITS, MB, Limits, too_large
from tuneline.readers.packed import CHUNK, explained, is_gzip, open_bytes
from tuneline.readers.rows import PARAMETERS, OptionNames
from tuneline.readers.urls import DataFile, RemoteFile

BUFFER = 1 << 20
"""Bytes of a column that are read ahead. Without a limit, a whole row group would be, however large."""
BATCH = 16 * MB
"""Bytes of a batch, decoded. Batches have fewer rows where their rows might take more, at least one."""
FEW_ROWS = 8
"""Rows of a batch where any of them might be as large as the whole row group."""


@dataclass(frozen=True)
class RowGroup:
    """A row group whose columns were measured.

    Attributes:
        number: Its number, from 0.
        rows: Number of rows.
        encoded: Bytes of its columns, decompressed but encoded.
        repeated: Bytes that a row has at most in cells that are stored once for many rows.
        prefixed: The same for cells of which only the difference to the row before is stored.
    """

    number: int
    rows: int
    encoded: int
    repeated: int
    prefixed: int

    @property
    def most(self) -> int:
        """Bytes that the rows take at most."""
        return self.encoded + self.rows * (self.repeated + self.prefixed)

    def batch_rows(self, limit: int) -> int:
        """Return how many rows are decoded at a time, so that they take about ``BATCH`` bytes and never more than ``limit``.

        ``prefixed`` is far more than the rows of ordinary files take; batches of one row would be too slow for those.
        """
        ordinary = BATCH * self.rows // max(1, self.encoded + self.rows * self.repeated)
        if self.prefixed:
            ordinary = min(ordinary, max(BATCH // self.prefixed, min(FEW_ROWS, limit // self.prefixed)))
        return max(1, ordinary)


class ParquetReader:
    """Rows of an open Parquet file.

    Attributes:
        schema: Its Arrow schema.
        rows: Number of rows.
    """

    def __init__(self, content: Path | io.BufferedIOBase, path: DataFile, options: OptionNames, limits: Limits, stack: ExitStack) -> None:
        """Read the footer.

        Raises:
            DataError: It is not a Parquet file, or a damaged one.
        """
        self._path, self._options, self._limits = path, options, limits
        with _explained(path):
            file = stack.enter_context(pq.ParquetFile(content, buffer_size=BUFFER, pre_buffer=False))
            leaves = [file.schema.column(position) for position in range(len(file.schema))]
            texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
            encoded = pq.ParquetFile(content, metadata=file.metadata, read_dictionary=texts, buffer_size=BUFFER, pre_buffer=False)
            self._dictionaries = stack.enter_context(encoded)
            self.schema: pa.Schema = file.schema_arrow
        self._file = file
        self._leaves = {leaf.path: position for position, leaf in enumerate(leaves)}
        self.rows: int = file.metadata.num_rows

    def batches(self, rows: int, columns: Sequence[str], part: range | None = None) -> Iterator[pa.RecordBatch]:
        """Yield batches of at most ``rows`` rows.

        Args:
            rows: Rows per batch.
            columns: The columns to read. Those with dictionaries are decoded.
            part: Numbers of the rows to read, from 0; ``None`` for all.

        Raises:
            DataError: The file is damaged or larger than a limit, or one of the columns holds lists or objects.
        """
        for name in columns:
            if pa.types.is_nested(kind := self.schema.field(name).type):
                raise DataError(f"{self._path}: column {name!r} holds {kind}, not text or numbers.", "Name another column.")
        size = 0
        with _explained(self._path):
            for number, first in self._groups(part or range(self.rows)):
                group = self._measure(number, columns)
                if group.most > self._limits.row_group:
                    for _ in self._decode(group, rows, columns, first, size):
                        pass  # count it first: no row is used of a group that is too large
                for batch in self._decode(group, rows, columns, first, size):
                    if found := batch if part is None else batch[max(part.start - first + 1, 0) : max(part.stop - first + 1, 0)]:
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

    def _measure(self, number: int, columns: Sequence[str]) -> RowGroup:
        """Measure a row group by its footer and its dictionaries.

        Raises:
            DataError: It is larger than the limit before it is decoded.
        """
        metadata = self._file.metadata.row_group(number)
        chunks = {name: metadata.column(self._leaves[name]) for name in columns}
        sizes = {name: chunk.total_uncompressed_size for name, chunk in chunks.items()}
        self._check_group(number, sum(sizes.values()))
        prefixed = {name for name, chunk in chunks.items() if "DELTA_BYTE_ARRAY" in chunk.encodings}
        repeated = sum(self._longest_repeated(number, name, size) for name, size in sizes.items() if name not in prefixed)
        return RowGroup(number, metadata.num_rows, sum(sizes.values()), repeated, sum(sizes[name] for name in prefixed))

    def _longest_repeated(self, number: int, name: str, size: int) -> int:
        """Return the most bytes of a cell of a column, of ``size`` bytes without compression, that is stored once for many rows."""
        leaf = self._file.schema.column(self._leaves[name])
        if leaf.physical_type != "BYTE_ARRAY":
            return int(leaf.length or 8)
        if size * self._file.metadata.row_group(number).num_rows <= BATCH:
            return size
        batch = next(self._dictionaries.iter_batches(1, row_groups=[number], columns=[name]), None)
        if batch is None or not pa.types.is_dictionary(batch.column(0).type):
            return size
        return int(pc.max(pc.binary_length(batch.column(0).dictionary)).as_py() or 0)

    def _decode(self, group: RowGroup, rows: int, columns: Sequence[str], first: int, before: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one row group.

        Args:
            group: The row group.
            rows: As in ``batches``.
            columns: As in ``batches``.
            first: The number of its first row, for messages.
            before: Bytes of the groups before it.
        """
        size = 0
        batch_rows = min(rows, group.batch_rows(self._limits.row_group))
        for encoded in self._file.iter_batches(batch_rows, row_groups=[group.number], columns=list(columns)):
            batch = _plain(encoded)
            self._check_cells(batch, first)
            size += batch.nbytes
            self._check_group(group.number, size)
            if before + size > self._limits.unpacked:
                raise too_large(str(self._path), "its rows take more", f"{self._limits.unpacked / MB:,.0f} MB", self._options.unpacked)
            yield batch
            first += batch.num_rows

    def _check_group(self, number: int, size: int) -> None:
        limit = self._limits.row_group
        if size > limit:
            where = f"{self._path}, row group {number + 1}"
            raise too_large(where, "its rows take more", f"{limit / MB:,.0f} MB", self._options.row_group)

    def _check_cells(self, batch: pa.RecordBatch, first: int) -> None:
        """Check that texts are UTF-8 and not longer than the limit.

        Raises:
            DataError: One is not.
        """
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
                self._refuse_long(name, pc.utf8_length(values) if is_text else pc.binary_length(values), first)

    def _refuse_long(self, name: str, lengths: pa.Array, first: int) -> None:
        longest = pc.max(lengths)
        if longest.as_py() > self._limits.cell:
            where = f"{self._path}, row {first + pc.index(lengths, longest).as_py():,}, column {name!r}"
            raise too_large(where, f"{longest.as_py():,} characters, more", f"{self._limits.cell:,}", self._options.cell)


@contextmanager
def open_parquet(path: DataFile, options: OptionNames = PARAMETERS, limits: Limits = DEFAULT_LIMITS) -> Iterator[ParquetReader]:
    """Open a Parquet file.

    Args:
        path: The file, gzip where its name ends in ``.gz``.
        options: Names of the settings, for hints.
        limits: Largest sizes that are read.

    Raises:
        DataError: It is not a Parquet file, or a damaged one.
        DiskError: The folder of temporary files is full.
    """
    with ExitStack() as stack:
        if is_gzip(path):
            content: Path | io.BufferedIOBase = stack.enter_context(_unpacked(path, options, limits))
        else:
            content = stack.enter_context(path.open_bytes(in_order=False)) if isinstance(path, RemoteFile) else path
        yield ParquetReader(content, path, options, limits, stack)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without dictionaries and views, whose sizes would not be those of its cells."""
    columns = [values.dictionary_decode() if pa.types.is_dictionary(values.type) else values for values in batch.columns]
    columns = [values.cast(pa.string()) if pa.types.is_string_view(values.type) else values for values in columns]
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
            raise UnreadableError(f"{path} cannot be read: {reason}", "Check that it exists and that you may read it.") from None
        raise DataError(f"{path}: not a Parquet file, or a damaged one: {reason}", "Write it again.") from None


@contextmanager
def _unpacked(path: DataFile, options: OptionNames, limits: Limits) -> Iterator[io.BufferedIOBase]:
    """Unpack into a file without a name: Parquet is read from its end, which gzip cannot do."""
    with tempfile.TemporaryFile() as content:
        with explained(str(path)), open_bytes(path, options, limits) as (packed, _):
            while chunk := packed.read(CHUNK):
                try:
                    content.write(chunk)
                except OSError as error:
                    raise cannot_write(Path(tempfile.gettempdir()), error) from error
        content.seek(0)
        yield content
