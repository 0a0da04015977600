"""Parquet files, plain or gzip, read batch by batch."""

import gzip
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.errors import DataError, UnreadableError
from tuneline.readers.text import explained, is_gzip

BUFFER = 1 << 20
"""Bytes of a column that are read ahead. Without a limit, a whole row group would be, however large."""


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file. Read its rows with ``read_batches``.

    Args:
        path: The file, gzip where its name ends in ``.gz``.

    Raises:
        DataError: It is not a Parquet file, or a damaged one.
    """
    with ExitStack() as stack:
        content = stack.enter_context(_unpacked(path)) if is_gzip(path) else path
        with _explained(path):
            file = stack.enter_context(pq.ParquetFile(content, buffer_size=BUFFER, pre_buffer=False))
        yield file


def read_batches(file: pq.ParquetFile, path: Path, rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most ``rows`` rows.

    Args:
        file: The open file.
        path: Its path, for messages.
        rows: Rows per batch.
        columns: The columns to read. Default: all.

    Raises:
        DataError: The file is damaged.
    """
    with _explained(path):
        yield from file.iter_batches(batch_size=rows, columns=None if columns is None else list(columns))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except MemoryError:  # Arrow's is an ArrowException as well
        raise
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or (str(error).splitlines() or ["unknown error"])[0]
        if getattr(error, "errno", None):
            raise UnreadableError(f"{path} cannot be read: {reason}", "Check that it exists and that you may read it.") from None
        raise DataError(f"{path}: not a Parquet file, or a damaged one: {reason}", "Write it again.") from None


@contextmanager
def _unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Unpack into a file without a name: Parquet is read from its end, which gzip cannot do."""
    with tempfile.TemporaryFile() as content:
        with explained(str(path)), gzip.open(path) as packed:
            shutil.copyfileobj(packed, content)
        content.seek(0)
        yield content
