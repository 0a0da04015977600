"""What flow ``score`` leaves behind, and the process that predicts its files, which loads the model once.

A fault of one file stops no other.
"""

import json
import sys
import time
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
from tuneline.program.program_rows import BATCH_SIZE
from tuneline.readers.formats import data_input
from tuneline.readers.rows import BadRowPolicy
from tuneline.readers.tables import Input
from tuneline.repository.dvc import by_key
from tuneline.runtime.disk_errors import explain_disk_errors
from tuneline.runtime.errors import DataError, InputError, StageError, refusing
from tuneline.runtime.terminal import say, say_exception
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


def main() -> None:
    """Predict all files; exit with an error only if the model or the engine cannot be used."""
    from tuneline.predict.model_choice import ModelChoice

    options = JobOptions(**json.loads(sys.argv[1]))
    # The model is loaded here, too, so that a damaged one is reported once and not for each file.
    try:
        with explain_disk_errors():
            ModelChoice(Path(options.model)).load()
    except StageError as error:
        say(f"tuneline predict: {error}", error=True)
        sys.exit(error.status)
    for number, name in enumerate(sys.argv[2:], start=1):
        say(BEGINS.format(number=number))
        status = run_job(Path(name), Path(options.folder, f"{number}.parquet"), options)
        say(ENDS.format(number=number, status=status))


def run_job(path: Path, output: Path, options: JobOptions) -> int:
    """Predict the rows of a file, print what is wrong with it, and return the status."""
    from tuneline.predict.columns import InputColumns
    from tuneline.predict.model_choice import ModelChoice
    from tuneline.predict.streaming import StreamOptions, predict_input
    from tuneline.predict.writing import PredictionOutput

    try:
        model = ModelChoice(Path(options.model)).load()
        columns = InputColumns(model.text_columns, tuple(options.keep))
        with explain_disk_errors(), refusing():
            source = input_to_score(path, Path(options.model))
            if source.layout != source.layout.format.usual:
                say(f"{path.name}: read as {source.layout.described()}", error=True)
            policy = BadRowPolicy(options.max_bad_share, "scoring.max_bad_share")
            started = time.perf_counter()
            counts = predict_input(
                model,
                source,
                columns,
                PredictionOutput(output, "parquet"),
                StreamOptions(BATCH_SIZE, policy),
            )
            counts.print_summary(model, started)
    except InputError as error:
        # Without its hint, which may quote the file: people read the reason who may not read the file.
        say(f"tuneline predict: {error.problem}", error=True)
        return error.status
    except StageError as error:
        say(f"tuneline predict: {error}", error=True)
        return error.status
    except Exception:
        say_exception(*sys.exc_info())
        return 1
    return 0


if __name__ == "__main__":
    main()
