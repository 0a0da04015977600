"""``reports/download/skipped.parquet``: every row of the source that was left out, with its place, the reason and its content."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.errors import DataError
from tuneline.files import replace_file
from tuneline.files.schemas import ROW_GROUP
from tuneline.readers.bad_rows import BadRows
from tuneline.readers.rows import RowProblem

SCHEMA = pa.schema([("split", pa.string()), ("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("content", pa.string())])
"""``split`` is that of the source; ``line`` is the row number where rows are not lines."""
LONGEST = 500
"""Characters of the content."""


class SkippedRows:
    """Writes the rows that are left out, in batches.

    Attributes:
        count: Their number. A broken record of a text file counts as many as it has lines.
    """

    def __init__(self, path: Path) -> None:
        self.count = 0
        self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        self._waiting: list[tuple[str, str, int, str, str]] = []

    def add(self, split: str, bad: BadRows, problem: RowProblem) -> None:
        """Add a row of a file of a split of the source."""
        self.count += problem.lines
        self._waiting.append((split, bad.name, problem.line, problem.reason, shown(problem.content)))
        if len(self._waiting) == ROW_GROUP:
            self._write()

    def close(self) -> None:
        """Write what is left."""
        self._write()
        self._writer.close()

    def _write(self) -> None:
        columns = zip(*self._waiting, strict=True) if self._waiting else [()] * len(SCHEMA)
        self._writer.write_batch(
            pa.record_batch([pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)
        )
        self._waiting.clear()


def shown(content: str) -> str:
    """Return the start of a row; bytes that are not text as codes."""
    return start_of(content).encode(errors="backslashreplace").decode()


def start_of(content: str) -> str:
    """Return the start of a row without its line end. The start of a start is the same."""
    content = content.rstrip("\r\n")
    return content[:LONGEST] + ("…" if len(content) > LONGEST else "")


@contextmanager
def open_skipped(path: Path) -> Iterator[SkippedRows]:
    """Open the file. It is also written if too many bad rows end the block: it has all that were read."""
    too_many: DataError | None = None
    with replace_file(path) as partial:
        skipped = SkippedRows(partial)
        try:
            yield skipped
        except DataError as error:
            if not skipped.count:
                raise
            too_many = error
        finally:
            skipped.close()
    if too_many is not None:
        raise too_many
