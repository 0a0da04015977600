"""Scores files: predicts them in one process after the other, and writes each result, or why there is none."""

import json
import re
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from prefect import task

from flows.promotion.production import FetchedModel
from flows.runs.pipeline import UNCACHED, OnLine, Pipeline
from flows.runs.processes import ProgramError
from flows.scoring.drift import RowCounts
from flows.scoring.inbox import Archive, Archived, ChangedError, Incoming, Outbox, not_archived
from flows.settings import Scoring
from tuneline.core.errors import InputError
from tuneline.core.files import replace_file
from tuneline.project.scored import BEGINS, ENDS, METADATA, MODULE, JobOptions, ScoredRecord

FILES = 200
"""Files of one process: a command line has room for the longest paths of so many."""
OnEnd = Callable[[Incoming, Path, ProgramError | None], None]
"""Called with each file that ends, its predictions, and the error that it ended with."""
_BEGINS, _ENDS = (re.compile(line.format(number="([0-9]+)", status="([0-9]+)")) for line in (BEGINS, ENDS))


def predict_files(pipeline: Pipeline, files: Sequence[Incoming], options: JobOptions, on_end: OnEnd) -> None:
    """Predict files, one after the other; the next one is predicted while ``on_end`` handles the one before.

    Raises:
        ProgramError: A process ended, but not by a file: the model cannot be used, for example.
    """
    command = [sys.executable, "-P", "-m", MODULE, json.dumps(asdict(options))]
    waiting = list(files)
    while waiting:
        part = waiting[:FILES]
        output = _Output(part, Path(options.folder), pipeline.on_line, on_end)
        try:
            pipeline.programs.run([*command, *(str(incoming.path) for incoming in part)], "The prediction", output.read)
        except ProgramError as error:
            if not output.begun:
                raise
            output.end(error.code)  # by the file that was being predicted: it may need more memory than there is
        del waiting[: output.ended]


class _Output:
    """What a process prints about its files.

    Attributes:
        ended: Number of files that ended.
        begun: True if the next one has begun.
    """

    def __init__(self, files: Sequence[Incoming], folder: Path, on_line: OnLine, on_end: OnEnd) -> None:
        self.ended = 0
        self.begun = False
        self._files, self._folder = files, folder
        self._on_line, self._on_end = on_line, on_end
        self._lines: deque[str] = deque(maxlen=20)

    def read(self, line: str) -> None:
        """Read a line."""
        if not self.begun and _BEGINS.fullmatch(line):
            self.begun = True
            self._lines.clear()
            self._on_line(f"Scoring {self._files[self.ended].name}")
        elif self.begun and (match := _ENDS.fullmatch(line)) and int(match[1]) == self.ended + 1:
            self.end(int(match[2]))
        else:
            self._lines.append(line)
            self._on_line(line)

    def end(self, code: int) -> None:
        """End the file that has begun."""
        incoming = self._files[self.ended]
        error = ProgramError(f"Scoring {incoming.name}", code, self._lines) if code else None
        self.ended += 1
        self.begun = False
        self._on_end(incoming, self._folder / f"{self.ended}.parquet", error)


VERSION = "model_version"
"""Column with the version of the model."""


class RefusedFileError(Exception):
    """A file cannot be scored; the message is the reason."""


@dataclass
class Results:
    """The results of a run.

    Attributes:
        model: The model that predicts.
        outbox: Folder of the results.
        archive: Folder of the scored inputs.
        scoring: Settings.
        ended: Number of files whose prediction ended.
        files: Number of those that were scored.
        again: Number of those that had been scored before.
        rows: Number of their rows.
        problems: One for each file that was refused, not scored or not archived.
    """

    model: FetchedModel
    outbox: Outbox
    archive: Archive
    scoring: Scoring
    ended: int = 0
    files: int = 0
    again: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read which results there are."""
        self._numbers = {**self.outbox.numbers()}

    @property
    def options(self) -> JobOptions:
        """Options of the prediction. Texts are copied into its output, because the drift counts them."""
        keep = list(dict.fromkeys([*self.model.text_columns, *self.scoring.keep]))
        return JobOptions(
            model=str(self.model.folder),
            folder=str(self.outbox.scratch),
            keep=keep,
            bad_rows=self.scoring.bad_rows,
            max_bad_share=self.scoring.max_bad_share,
            engine=self.scoring.engine,
            workers=self.scoring.workers,
            **dict(self.scoring.limits),
        )

    def add(self, incoming: Incoming, predictions: Path, error: ProgramError | None) -> None:
        """Write the result of a file, or why there is none. Whatever happens to a file stops no other.

        Only a fault of the file refuses it; after every other error, the next run tries again.
        """
        self.ended += 1
        try:
            if error is not None:
                self._refuse(incoming, error)
            self._write(incoming, predictions)
        except RefusedFileError as refusal:
            self.problems.append(f"refused {incoming.name}: {refusal}")
        except Exception as cause:
            reason = cause.reason if isinstance(cause, ProgramError) else f"{type(cause).__name__}: {cause}"
            self.problems.append(f"not scored {incoming.name}, the next run tries again: {reason}")
        finally:
            predictions.unlink(missing_ok=True)

    def _refuse(self, incoming: Incoming, error: ProgramError) -> None:
        """Refuse a file for the error of its prediction, if the file is at fault. Always raises an error."""
        _check_unchanged(incoming)
        if error.code != InputError.status:
            raise error
        if not isinstance(incoming, Archived):
            self.outbox.refuse(incoming, "\n".join(error.last))
        raise RefusedFileError(error.reason)

    def _write(self, incoming: Incoming, predictions: Path) -> None:
        number = max(self._numbers.get(incoming.stem, ()), default=0) + 1
        if isinstance(incoming, Archived):
            place = incoming.record.archived
        else:
            while self.archive.has(place := self.archive.place(incoming, number)):
                number += 1
            self.outbox.refused(incoming).unlink(missing_ok=True)  # first: a kill must not leave the result beside an earlier refusal
        self.rows += self._write_result(predictions, self.outbox.scored(incoming.stem, number), incoming, place)
        self.files += 1
        self._numbers[incoming.stem] = [number]
        if isinstance(incoming, Archived):
            self.again += 1
        elif place is not None:
            self._move(incoming, place)

    def _move(self, incoming: Incoming, place: str) -> None:
        try:
            self.archive.move(incoming, place)
        except Exception as error:
            self.problems.append(not_archived(incoming, error))

    def _write_result(self, predictions: Path, target: Path, incoming: Incoming, place: str | None) -> int:
        """Write a result: the predictions without the texts (unless ``scoring.keep`` lists them), the model's version, and a record.

        Returns:
            The number of rows.

        Raises:
            ChangedError: The file is no longer as it was found.
            OSError: The outbox cannot be written.
        """
        file, keep, version = pq.ParquetFile(predictions), self.scoring.keep, self.model.version
        names = file.schema_arrow.names  # row, the copied columns (maybe under another name), then the predictions
        name_of = dict(zip(self.options.keep, names[1:], strict=False))
        texts = [name_of[column] for column in self.model.text_columns]
        kept = [name for name in names if name not in {name_of[column] for column in name_of if column not in keep}]
        fields = [file.schema_arrow.field(name).with_name(f"input_{name}" if name == VERSION else name) for name in kept]
        schema = pa.schema([*fields, pa.field(VERSION, pa.string())])
        profile = None if isinstance(incoming, Archived) else self.model.profile  # a row counts once for the drift
        rows, counts = 0, RowCounts.empty(profile) if profile else None
        with replace_file(target) as partial, pq.ParquetWriter(partial, schema, compression="zstd") as writer:
            for batch in file.iter_batches():
                if counts is not None and profile is not None:
                    predicted = batch["label" if profile.labels is not None else "prediction"]
                    counts += RowCounts.of(profile, [batch[name] for name in texts], predicted)
                versions = pa.array([version.name] * batch.num_rows, pa.string())
                writer.write_batch(pa.record_batch([*batch.select(kept).columns, versions], schema=schema))
                rows += batch.num_rows
            origin = {**incoming.as_record(), "sha256": incoming.sha256, "version": version.name, "commit": version.commit}
            record = ScoredRecord(**origin, rows=rows, seen=counts.to_json() if counts else None, archived=place)
            writer.add_key_value_metadata({METADATA: record.model_dump_json()})
            _check_unchanged(incoming)
        return rows


def _check_unchanged(incoming: Incoming) -> None:
    if not incoming.unchanged:
        raise ChangedError("It changed, or was removed, while it was scored.")


@task(name="score files", task_run_name="score files", **UNCACHED)
def score_files(pipeline: Pipeline, waiting: Sequence[Incoming], results: Results) -> Results:
    """Score files. One task for all of them: a task of its own takes longer than the prediction of a small file."""
    try:
        predict_files(pipeline, waiting, results.options, results.add)
    except ProgramError as error:
        results.problems.append(f"{len(waiting) - results.ended} files not scored, the next run tries again: {error.reason}")
    return results
