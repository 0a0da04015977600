"""Files that the model in production scores: each has a result, or a reason why not."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.checks.results import Profile
from tuneline.core.repository.programs import ProgramError, Programs
from tuneline.core.repository.registry import Version
from tuneline.core.runtime.errors import InputError
from tuneline.core.runtime.files import replace_file
from tuneline.core.settings import Scoring
from tuneline.core.stage.records import file_hash
from tuneline.model.tasks import Task
from tuneline.onnx.usage import EXPORT_RECORD, UsageRecord
from tuneline.operations.drift import RowCounts
from tuneline.operations.inbox import METADATA, Incoming, Outbox, ScoredRecord
from tuneline.operations.runs.pipeline import OnLine

VERSION = "model_version"
"""Column with the version of the model."""


@dataclass
class Scorer:
    """Scores files with one model, and counts what comes of them.

    Attributes:
        model: Folder with ``model.onnx``, tokenizer and ``export.json``.
        profile: Profile of the model's data, if it has one.
        files: Number of files that were scored.
        rows: Number of the scored rows.
        problems: One for each file that was refused or not scored.
    """

    model: Path
    version: Version
    profile: Profile | None
    outbox: Outbox
    scoring: Scoring
    programs: Programs
    on_line: OnLine
    files: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def text_columns(self) -> list[str]:
        """Names of the columns that the model reads."""
        return list(UsageRecord.read(self.model / EXPORT_RECORD).text_columns)

    def score(self, incoming: Incoming) -> None:
        """Write the result of a file, or why there is none. Whatever happens to a file stops no other.

        Only a fault of the file refuses it; after every other error, the next run tries again.
        """
        predictions = self.outbox.scratch / "predictions.parquet"
        # Texts are copied into the predictions, because the drift counts them.
        kept = list(dict.fromkeys(self.text_columns + self.scoring.keep))
        command = [sys.executable, "-P", "-m", "tuneline.serve.batch", str(incoming.path), str(predictions)]
        command += [str(self.model), str(self.scoring.max_bad_share)]
        command += kept
        try:
            self.programs.run(command, f"Scoring {incoming.name}", self.on_line)
            self._write(incoming, predictions, kept)
        except ProgramError as error:
            if error.code == InputError.status and incoming.is_unchanged:
                self.outbox.refuse(incoming, "\n".join(error.last))
                self.problems.append(f"refused {incoming.name}: {error.reason}")
            else:
                self.problems.append(f"not scored {incoming.name}, the next run tries again: {error.reason}")
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self.problems.append(f"not scored {incoming.name}, the next run tries again: {reason}")
        finally:
            predictions.unlink(missing_ok=True)

    def _write(self, incoming: Incoming, predictions: Path, kept: Sequence[str]) -> None:
        """Write the result of a file, and move the file to the archive.

        The result has the predictions, the version of the model, and a record. An input that is no longer as
        it was found has none.
        """
        result, place = self.outbox.unused(incoming)
        # First, so that a kill never leaves the result beside an earlier refusal.
        self.outbox.error(incoming).unlink(missing_ok=True)

        file = pq.ParquetFile(predictions)
        copies = dict(zip(kept, file.schema_arrow.names[1:], strict=False))
        columns, schema = self._result_columns(file.schema_arrow, copies)
        texts = [copies[column] for column in self.text_columns]
        counts = None
        if self.profile is not None:
            counts = RowCounts.empty(self.profile)
        rows = 0
        with replace_file(result) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
            for batch in file.iter_batches():
                if counts is not None and self.profile is not None:
                    predicted = plain_predictions(self.profile.task, batch)
                    counts += RowCounts.of(self.profile, [batch[name] for name in texts], predicted)
                arrays = batch.select(columns).columns
                arrays.append(pa.array([self.version.name] * batch.num_rows, pa.string()))
                writer.write_batch(pa.record_batch(arrays, schema=schema))
                rows += batch.num_rows

            record = ScoredRecord(
                path=incoming.name,
                sha256=file_hash(incoming.path),
                version=self.version.name,
                commit=self.version.commit,
                rows=rows,
                seen=counts,
            )
            writer.add_key_value_metadata({METADATA: record.model_dump_json()})
            incoming.check_unchanged()
        self.files += 1
        self.rows += rows
        # It may have changed while the result reached the disk: then it stays, and gets a result of its own.
        incoming.move(place)

    def _result_columns(self, predictions: pa.Schema, copies: dict[str, str]) -> tuple[list[str], pa.Schema]:
        """Return the columns of predictions that a result has, and its schema.

        Predictions have the row, the copied columns (maybe under another name), then what was predicted.
        Texts are left out of the result unless ``scoring.keep`` lists them.
        """
        left_out = {copy for column, copy in copies.items() if column not in self.scoring.keep}
        columns = []
        fields = []
        for name in predictions.names:
            if name not in left_out:
                columns.append(name)
                # A copied column may have the name of the column with the version.
                result_name = f"input_{name}" if name == VERSION else name
                fields.append(predictions.field(name).with_name(result_name))
        fields.append(pa.field(VERSION, pa.string()))
        return columns, pa.schema(fields)


def plain_predictions(task: Task, rows: pa.RecordBatch) -> pa.Array:
    """Return what a model predicts for rows, whatever errors cost: of classes, the most probable one.

    Answers that costs choose or withhold differ from the labels of the training on purpose. A row without
    probabilities is null.
    """
    if not task.one_class:
        return rows[task.prediction_column]
    columns = [rows[f"probability_{name}"].to_numpy(zero_copy_only=False) for name in task.class_names]
    probabilities = np.column_stack(columns)
    names = np.array(task.class_names)[probabilities.argmax(axis=1)]
    return pa.array(names, pa.string(), mask=np.isnan(probabilities).any(axis=1))


def recent_counts(profile: Profile, version: str, outbox: Outbox, rows: int) -> RowCounts:
    """Return the counts of at least the last ``rows`` rows that a version scored, in whole files."""
    counts = RowCounts.empty(profile)
    for record in outbox.latest():
        if record.version == version and record.seen is not None and record.seen.fits(profile):
            counts += record.seen
        if counts.rows >= rows:
            break
    return counts
