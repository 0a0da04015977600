"""What flow ``score`` leaves behind: files of predictions, and the archived inputs that they are for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from tuneline.core.records import Record
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.params.data import FilesParams
from tuneline.readers.formats import data_input
from tuneline.readers.tables import Input
from tuneline.repository.dvc import by_key
from tuneline.runtime.errors import DataError
from tuneline.sniffing.files import fitting_input

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
    """Hash of the source."""
    version: str
    """Version of the model."""
    commit: str
    """Commit of the model."""
    rows: int
    """Number of predictions. Column ``row`` has the row of the input that each was made for, from 1."""
    seen: Mapping[str, Any] | None
    """PredictedCounts of its rows for the drift; ``None`` if the model has no profile."""
    archived: str
    """Path of the archived input, relative to the repository."""


def scored_record(scored: Path) -> ScoredRecord | None:
    """Return the record of a scored file; ``None`` if the file is missing, damaged, or of another program."""
    try:
        # Not the metadata of the schema, which has only what was known before the first row.
        metadata = pq.read_metadata(scored).metadata or {}
        return ScoredRecord.parse(metadata.get(METADATA, b""), scored)
    except (DataError, OSError, pa.ArrowException):
        return None


def input_to_score(path: Path, model: Path) -> Input:
    """Return a file to score, as ``data.files`` of the model describes its data; else as it is detected.

    Args:
        path: The file.
        model: Folder of the model.

    Raises:
        DataError: The file cannot be read, or is doubtful.
    """
    record = ExportRecord.read(model / EXPORT_RECORD)
    params = by_key(stage.parameters for stage in record.provenance.stages.values())
    try:
        files = FilesParams.model_validate(params.get("data.files", {}))
    except ValidationError:  # of another version
        files = FilesParams()
    return fitting_input(data_input(path, files), record.text_columns)


BEGINS = "file {number} begins"
ENDS = "file {number} ends with status {status}"


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Options that all files of a job have in common.

    They are the folders of the model and of the predictions, and the columns to copy.
    """

    model: str
    folder: str
    keep: Sequence[str]
    max_bad_share: float
