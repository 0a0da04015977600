"""The unit of work of a prediction: a file, or a part of a large Parquet file. The same for both engines."""

import functools
from dataclasses import dataclass
from pathlib import Path

from tuneline.cli.predict.formats import OutputColumns
from tuneline.cli.predict.model import DeployedModel
from tuneline.cli.predict.sources import Part
from tuneline.cli.predict.streaming import REPORTED, StreamOptions, predict_rows
from tuneline.cli.predict.writing import Output, open_writer
from tuneline.errors import DataError
from tuneline.inputs import Input, InputColumns, open_rows
from tuneline.readers.bad_rows import SHOWN, BadRowPolicy, BadRows
from tuneline.terminal import say


@dataclass(frozen=True)
class ModelChoice:
    """The model of a prediction.

    Attributes:
        path: A folder of exported models, or one ONNX file.
        precision: Precision of the model in a folder; ``None`` for fp32.
        threads: Threads per operator; ``None`` for all cores that the process may use.
    """

    path: Path
    precision: str | None
    threads: int | None

    @functools.lru_cache(maxsize=1)  # noqa: B019 - a worker loads the model once for all its tasks
    def load(self) -> DeployedModel:
        """Load the model, once in a process.

        Raises:
            StageError: It is missing or damaged.
        """
        return DeployedModel.load(self.path, self.precision, self.threads)


@dataclass(frozen=True)
class Task:
    """A file, or a part of one, to predict.

    Attributes:
        model: The model.
        source: The rows.
        columns: The columns that are read.
        output: A file for the result.
        options: How rows are processed.
    """

    model: ModelChoice
    source: Input
    columns: InputColumns
    output: Output
    options: StreamOptions


@dataclass(frozen=True)
class TaskResult:
    """What a task has done.

    Attributes:
        rows: Number of predictions.
        skipped: Number of bad rows that were left out.
        first: Places and reasons of the first ones.
    """

    rows: int
    skipped: int = 0
    first: tuple[str, ...] = ()


def predict_task(task: Task) -> TaskResult:
    """Write the predictions of a task; the file is complete or absent.

    Raises:
        DataError: The input cannot be read, or has too many bad rows.
        StageError: The model cannot be used, or the output cannot be written.
    """
    model = task.model.load()
    with (
        open_rows(task.source, task.columns) as rows,
        open_writer(task.output, OutputColumns(model.labels, task.columns.kept)) as writer,
    ):
        bad = BadRows(str(task.source.path), rows.unit, task.options.bad_rows)
        predicted = predict_rows(model, rows, writer, task.options, bad, report=False)
    return TaskResult(predicted, bad.count, tuple(bad.first))


class TooManyBadRowsError(DataError):
    """A file has more bad rows than may be left out."""


class Tally:
    """Counts of predictions and bad rows over all tasks, and the check of the share of bad rows in each file.

    Attributes:
        policy: What to do about bad rows.
        rows: Number of predictions.
        skipped: Number of bad rows.
    """

    def __init__(self, policy: BadRowPolicy) -> None:
        self.policy, self.rows, self.skipped = policy, 0, 0
        self._reported = 0
        self._file, self._usable = BadRows("", "row", policy), 0

    def add(self, part: Part, result: TaskResult) -> None:
        """Count the result of a task, and list its first bad rows.

        Args:
            part: The rows of the task. The parts of a file follow each other.
            result: The result.

        Raises:
            TooManyBadRowsError: The file, which ends with this part, has too many bad rows.
        """
        if part.number == 0:
            self._file, self._usable = BadRows(str(part.path), "row", self.policy), 0
        self._file.count += result.skipped
        self._file.first = [*self._file.first, *result.first][:SHOWN]
        self._usable += result.rows
        self.rows += result.rows
        self.skipped += result.skipped
        for place in result.first:
            self._report(f"skipped {part.path}, {place}")
        if part.is_last:
            try:
                self._file.check(self._usable)
            except DataError as error:
                raise TooManyBadRowsError(error.problem, error.hint) from None

    def _report(self, line: str) -> None:
        self._reported += 1
        if self._reported <= REPORTED:
            say(line, error=True)
        if self._reported == REPORTED:
            say("(further bad rows are counted, but not reported)", error=True)
