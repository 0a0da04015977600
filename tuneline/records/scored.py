"""Record of a scored file, which flow ``score`` writes into the metadata of its Parquet file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.errors import DataError
from tuneline.records.record import OMITTED, Record

METADATA = b"tuneline"
"""Key of the record in the metadata of a scored file."""


class FileRecord(Record):
    """A file of the inbox, as it was when it was scored or refused."""

    path: str
    """Its name; bytes that are not UTF-8 are escaped."""
    size: int
    """Its size in bytes."""
    mtime_ns: int
    """Time of its last change in nanoseconds."""


class ScoredRecord(FileRecord):
    """Metadata of a scored file: its source, the model, counts of its rows."""

    sha256: str
    """Hash of the input."""
    version: str
    """Version of the model."""
    commit: str
    """Commit of the model."""
    rows: int
    """Number of predictions. Column ``row`` has the row of the input, from 1, of each."""
    seen: Mapping[str, Any] | None
    """Counts of its rows for the drift; ``None`` if the model has no profile, or if the input had been scored before."""
    archived: str | None = OMITTED
    """Path of the archived input, relative to the repository; ``None`` if it was not archived."""


def scored_record(scored: Path) -> ScoredRecord | None:
    """Return the record of a scored file; ``None`` if the file is missing, damaged, or of another program."""
    try:
        metadata = pq.read_metadata(scored).metadata or {}  # the schema has only what was known before the first row
        return ScoredRecord.parse(metadata.get(METADATA, b""), scored)
    except (DataError, OSError, pa.ArrowException):
        return None
