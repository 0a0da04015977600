"""What flow ``score`` leaves behind: files of predictions, and the archived inputs that they are for."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from tuneline.core.hashes import file_hash
from tuneline.core.records import OMITTED, Record
from tuneline.engines import EngineOptions
from tuneline.onnx.records import ExportRecord
from tuneline.onnx.usage import EXPORT_RECORD
from tuneline.params.data import FilesParams
from tuneline.params.loading import load_params
from tuneline.paths import PARAMS
from tuneline.readers.formats import FORMATS, format_of
from tuneline.readers.inputs import InputColumns, Row, open_rows
from tuneline.readers.label_values import plain_text
from tuneline.readers.rows import Limits
from tuneline.readers.tables import Input
from tuneline.repository.dvc import by_key
from tuneline.runtime.errors import DataError
from tuneline.sniffing.files import Told, fitting_input, sniff

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


class TakenRecord(FileRecord):
    """A file that was read and moved."""

    sha256: str
    """Hash of what was read."""


class ScoredRecord(TakenRecord):
    """Metadata of a scored file: its source, the model, counts of its rows."""

    version: str
    """Version of the model."""
    commit: str
    """Commit of the model."""
    rows: int
    """Number of predictions. Column ``row`` has the row of the input that each was made for, from 1."""
    seen: Mapping[str, Any] | None
    """Counts of its rows for the drift.

    ``None`` if the model has no profile, or if the input had been scored before.
    """
    archived: str | None = OMITTED
    """Path of the archived input, relative to the repository; ``None`` if it was not archived."""
    layout: Mapping[str, Any] | None = OMITTED
    """How the input was read; ``None`` if an earlier version read it."""


def scored_record(scored: Path) -> ScoredRecord | None:
    """Return the record of a scored file; ``None`` if the file is missing, damaged, or of another program."""
    try:
        # Not the metadata of the schema, which has only what was known before the first row.
        metadata = pq.read_metadata(scored).metadata or {}
        return ScoredRecord.parse(metadata.get(METADATA, b""), scored)
    except (DataError, OSError, pa.ArrowException):
        return None


def input_to_score(path: Path, model: Path, limits: Limits) -> Input:
    """Return a file to score, as ``data.files`` of the model describes its data; else as it is detected.

    Args:
        path: The file.
        model: Folder of the model.
        limits: Largest sizes that are read.

    Raises:
        DataError: The file cannot be read, or is doubtful.
    """
    record = ExportRecord.read(model / EXPORT_RECORD)
    params = by_key(stage.parameters for stage in record.provenance.stages.values())
    try:
        files = FilesParams.model_validate(params.get("data.files", {}))
    except ValidationError:  # of another version
        files = FilesParams()
    layout = format_of(path, "the suffix").usual.of_data(files)
    return fitting_input(Input(path, layout, limits), record.text_columns)


UNLIMITED = Limits(cell=2**31 - 1, row_group=2**31 - 1, unpacked=sys.maxsize)
"""Limits of an archived input.

It was within the limits of the flow when it was scored, and has not changed since.
"""


@dataclass(frozen=True)
class ScoredFile:
    """A file of predictions, with its record."""

    path: Path
    record: ScoredRecord


def scored_files(outbox: Path) -> Iterator[ScoredFile]:
    """Yield the files of predictions, the latest first.

    An input that was scored again has only its latest file. Two inputs are the same if their content is.
    """
    times = {}  # nanoseconds
    for path in outbox.glob("[!.]*.parquet"):
        with suppress(FileNotFoundError):  # flow `clean` removes old ones
            times[path] = path.stat().st_mtime_ns
    inputs = set()
    for path in sorted(times, key=lambda path: (times[path], path), reverse=True):
        record = scored_record(path)
        if record is not None and record.sha256 not in inputs:
            inputs.add(record.sha256)
            yield ScoredFile(path, record)


@contextmanager
def open_archived(root: Path, scored: ScoredFile, columns: InputColumns) -> Iterator[Iterator[Row]]:
    """Open the archived input of a file of predictions: its rows that can be predicted.

    Raises:
        DataError: Here or while reading: the input was not archived, is missing, is another file, or has no
            such columns.
    """
    record = scored.record
    if record.archived is None:
        raise DataError(
            f"{scored.path}: its input was not archived.", "Set scoring.archive in conf/flows.yaml."
        )
    path = root / record.archived
    if not path.is_file() or file_hash(path) != record.sha256:
        raise DataError(
            f"{path} is missing, or is not the file that was scored.",
            "Restore it, or remove its predictions.",
        )

    if record.layout is not None:
        values = dict(record.layout)
        layout = FORMATS[values.pop("format")].usual.told(values)
        archived = Input(path, layout, UNLIMITED)
    else:
        # What earlier versions did not detect.
        told = Told(encoding="utf-8", header=True)
        archived = sniff(path, told, limits=UNLIMITED, strict=False).settled()
    with open_rows(archived, columns) as source:
        yield (row for row in source.rows if isinstance(row, Row))


def find_texts(root: Path, outbox: Path, id_column: str, ids: pa.Array) -> pa.Table:
    """Find the texts that were scored under some ids.

    The files are read one after the other, the latest first, until all ids are found. If an id was scored
    with several texts, the texts of the latest file count. Archived inputs without the id column are left
    out.

    Args:
        root: Working tree of the repository.
        outbox: Folder of the files of predictions, relative to ``root``.
        id_column: Column with the ids.
        ids: The ids. ``7``, ``7.0`` and ``"7"`` are the same id.

    Returns:
        The id column and the text columns that ``params.yaml`` names: one row for each id that was found, in
        the order of ``ids`` and with their type.
    """
    text_columns = tuple(load_params(root / PARAMS).data.text_columns)
    columns = InputColumns(text_columns, (id_column,))

    # An id that occurs twice has its first position.
    positions: dict[str, int] = {}
    for position, value in enumerate(ids.to_pylist()):
        name = plain_text(value)
        if name is not None:
            positions.setdefault(name, position)

    texts_by_position: dict[int, Sequence[str]] = {}
    for scored in scored_files(root / outbox):
        if len(texts_by_position) == len(positions):
            break
        with suppress(DataError), open_archived(root, scored, columns) as rows:
            for row in rows:
                name = plain_text(row.kept[id_column]) or ""
                if name in positions:
                    texts_by_position.setdefault(positions[name], row.texts)

    order = sorted(texts_by_position)
    arrays = {id_column: ids.take(pa.array(order, pa.int64()))}
    for number, column in enumerate(text_columns):
        texts = [texts_by_position[position][number] for position in order]
        arrays[column] = pa.array(texts, pa.string())
    return pa.table(arrays)


BEGINS = "file {number} begins"
ENDS = "file {number} ends with status {status}"


@dataclass(frozen=True, kw_only=True)
class JobOptions(EngineOptions):
    """Options that all files of a job have in common.

    They are the folders of the model and of the predictions, the columns to copy, and the limits.
    """

    model: str
    folder: str
    keep: Sequence[str]
    bad_rows: Literal["stop", "skip"]
    max_bad_share: float
    max_cell_characters: int
    max_row_group_mb: int
    max_unpacked_mb: int
