"""Prediction of many files, by either engine: their tasks, and the results.

A task is a file or a part of one. The results go to a folder with a result for each task, or to one file.
"""

import dataclasses
import importlib.metadata
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuneline.core.hashes import content_key, file_hash
from tuneline.engines import EngineOptions, map_tasks
from tuneline.predict import Kind
from tuneline.predict.model_choice import ModelChoice
from tuneline.predict.named_files import is_stream
from tuneline.predict.result_folder import ResultFolder, ResultRecord, kept_results
from tuneline.predict.skipped_rows import RowReport
from tuneline.predict.streaming import (
    StreamOptions,
    TaskResult,
    predict_file,
    say_abstained,
    say_summary,
    say_truncated,
)
from tuneline.predict.writing import OutputColumns, PredictionOutput, open_writer
from tuneline.readers.files import DataFile, RemoteFile
from tuneline.readers.inputs import InputColumns
from tuneline.readers.rows import SHOWN_BAD_ROWS, BadRowPolicy, BadRows
from tuneline.readers.tables import Input
from tuneline.runtime.atomic_files import temporary_directory, working_directory
from tuneline.runtime.errors import DataError, StageError
from tuneline.runtime.terminal import progress

TASK_ROWS = 50_000
"""Rows of a Parquet file that are one task.

The number is fixed so that the same rows always give the same bytes: a batch does not reach
from one task into the next."""


@dataclass(frozen=True)
class Part:
    """The rows of a task: a file, or a part of one, with its number from 0."""

    source: Input
    number: int = 0
    count: int = 1

    @property
    def path(self) -> DataFile:
        """The file."""
        if self.source.path is None:
            raise ValueError("standard input has no parts")
        return self.source.path

    def result_name(self, kind: Kind) -> str:
        """Return the name of its result.

        It is ``a.csv.parquet`` for ``a.csv``, and ``a.parquet`` for ``a.parquet``; numbered if the file has
        several parts.
        """
        stem = self.path.name.removesuffix(f".{kind}")
        if self.count > 1:
            stem += f"-{self.number:05d}-of-{self.count:05d}"
        return f"{stem}.{kind}"


def divide_files(sources: Sequence[Input]) -> list[Part]:
    """Divide files into tasks, in their order."""
    parts = []
    for source in sources:
        parts += _divided(source)
    return parts


def _divided(source: Input) -> list[Part]:
    """Divide a file into tasks of ``TASK_ROWS`` rows, if its parts can be read."""
    rows = source.layout.format.count_rows(source)
    if rows is None or rows <= TASK_ROWS:
        return [Part(source)]
    ranges = [range(start, min(start + TASK_ROWS, rows)) for start in range(0, rows, TASK_ROWS)]
    parts = []
    for number, part_rows in enumerate(ranges):
        parts.append(Part(dataclasses.replace(source, part=part_rows), number, len(ranges)))
    return parts


@dataclass(frozen=True)
class PredictionTask:
    """A file, or a part of one, to predict into a file.

    Attributes:
        folder: Folder of results in which the output is; ``None`` for any other output.
        record: Record of the result in that folder, still without the counts; ``None`` for any other output.
    """

    model: ModelChoice
    source: Input
    columns: InputColumns
    output: PredictionOutput
    options: StreamOptions
    folder: ResultFolder | None = None
    record: ResultRecord | None = None


def predict_task(task: PredictionTask) -> TaskResult:
    """Write the predictions of a task, as ``predict_file`` does, then its record."""
    result = predict_file(
        task.model.load(), task.source, task.columns, task.output, task.options, report=False
    )
    if task.folder and task.record and task.output.path:
        counts = {
            "rows": result.rows,
            "skipped": result.skipped,
            "first": list(result.first),
            "truncated": result.truncated,
            "abstained": result.abstained,
        }
        task.folder.write(task.output.path.name, task.record.model_copy(update=counts))
    return result


class Tally:
    """Counts of predictions and bad rows over all tasks; it checks the share of bad rows in each file."""

    def __init__(self, policy: BadRowPolicy) -> None:
        self.policy = policy
        self.rows = self.skipped = self.truncated = self.abstained = 0
        self._report = RowReport()
        self._start_file("")

    def add(self, part: Part, result: TaskResult) -> None:
        """Count the result of a task, and list its first bad rows. The parts of a file follow each other.

        Raises:
            DataError: The file, which ends with this part, has too many bad rows.
        """
        if part.number == 0:
            self._start_file(str(part.path))
        self._file.count += result.skipped
        self._file.first = [*self._file.first, *result.first][:SHOWN_BAD_ROWS]
        self._usable += result.rows

        self.rows += result.rows
        self.skipped += result.skipped
        self.truncated += result.truncated
        self.abstained += result.abstained
        for place in result.first:
            self._report.add(f"skipped {part.path}, {place}")

        if part.number == part.count - 1:
            self._file.check(self._usable)

    def _start_file(self, name: str) -> None:
        self._file = BadRows(name, "row", self.policy)
        self._usable = 0


LIBRARIES = ("numpy", "onnxruntime", "pyarrow", "tokenizers")
"""Libraries that the bytes of the results depend on."""


@dataclass(frozen=True)
class BatchPrediction:
    """A prediction of many parts of files: what all its tasks have in common."""

    model: ModelChoice
    columns: InputColumns
    options: StreamOptions
    run: EngineOptions

    def to_file(self, parts: Sequence[Part], output: PredictionOutput) -> None:
        """Write the predictions of all parts, one after the other, to one file.

        Each task has a file of its own until it is its turn.
        """
        started = time.perf_counter()
        tally = Tally(self.options.bad_rows)
        columns = OutputColumns(
            self.model.load().task,
            self.columns.kept,
            self.options.rule,
            self.options.deciding_window,
            self.options.why,
        )
        with open_writer(output, columns) as writer, _scratch(output.path) as folder:
            paths = []
            tasks = []
            for number, part in enumerate(parts):
                path = folder / f"{number}.{output.kind}"
                paths.append(path)
                tasks.append(self._task(part, dataclasses.replace(output, path=path, header=False)))

            for part, path, result in zip(parts, paths, self._results(tasks), strict=True):
                tally.add(part, result)
                writer.append(path)
                path.unlink()
        say_truncated(tally.truncated, tally.rows, self.model.load())
        say_abstained(tally.abstained, tally.rows)
        say_summary(tally.rows, tally.skipped, started)

    def to_folder(
        self, parts: Sequence[Part], folder: ResultFolder, kind: Kind, *, excel_safe: bool = False
    ) -> None:
        """Write the predictions of each part to a file in a folder.

        What is whole there already, and made in the same way, is kept.

        Raises:
            StageError: A task failed; the results of those that have ended stay.
        """
        started = time.perf_counter()
        tally = Tally(self.options.bad_rows)
        names = [part.result_name(kind) for part in parts]
        _check_names(names, parts, folder)
        with folder.locked():
            # results of an earlier command, and the tasks that are left
            planned = dict(zip(names, self._records(parts, kind, excel_safe), strict=True))
            kept = kept_results(planned, folder)
            tasks = []
            for name, part in zip(names, parts, strict=True):
                if name not in kept:
                    output = PredictionOutput(folder.file(name), kind, excel_safe=excel_safe)
                    task = self._task(part, output)
                    tasks.append(dataclasses.replace(task, folder=folder, record=planned[name]))

            # all results, in the order of the parts
            results = self._results(tasks)
            for name, part in zip(names, parts, strict=True):
                result = kept[name] if name in kept else next(results)
                try:
                    tally.add(part, result)
                except DataError:
                    # The file has too many bad rows, so none of its parts has a result.
                    for number in range(part.count):
                        folder.remove(dataclasses.replace(part, number=number).result_name(kind))
                    raise
        say_truncated(tally.truncated, tally.rows, self.model.load())
        say_abstained(tally.abstained, tally.rows)
        say_summary(tally.rows, tally.skipped, started, sum(result.rows for result in kept.values()))

    def _task(self, part: Part, output: PredictionOutput) -> PredictionTask:
        """Return the task of a part."""
        options = self.options
        if part.count > 1:
            # The limit is for the whole file, so ``Tally`` checks it after the last part.
            policy = dataclasses.replace(options.bad_rows, max_share=1.0)
            options = dataclasses.replace(options, bad_rows=policy)
        return PredictionTask(self.model, part.source, self.columns, output, options)

    def _results(self, tasks: Sequence[PredictionTask]) -> Iterator[TaskResult]:
        results = map_tasks(predict_task, tasks, self.run, name="predict")
        if self.run.engine != "local" or len(tasks) == 1:  # which show their own progress
            yield from results
            return
        with progress("predict", len(tasks), "tasks") as step:
            for result in results:
                step.advance(1)
                yield result

    def _records(self, parts: Sequence[Part], kind: Kind, excel_safe: bool) -> Iterator[ResultRecord]:
        """Yield the record of each task, without its counts."""
        with progress("predict: reading the inputs", len(parts), "tasks") as step:
            # the command
            options: list[object] = [
                self.options.batch_size,
                self.options.window,
                self.options.bad_rows.action,
                kind,
            ]
            if excel_safe:
                options.append("excel-safe")
            if self.options.deciding_window:
                options.append("deciding-window")
            if self.options.why:
                options.append("why")
            libraries = [importlib.metadata.version(name) for name in LIBRARIES]
            options += [self.options.rule.values, self.model.load().task.decisions]
            model = file_hash(self.model.file())
            command = content_key(model, dataclasses.asdict(self.columns), options, libraries)

            # the inputs; each file is read once, whatever the number of its parts
            versions: dict[DataFile, str] = {}
            for part in parts:
                path = part.path
                source = part.source
                if path not in versions:
                    versions[path] = _version(path)
                reading = content_key(source.layout.values())
                rows = f"{source.part.start}-{source.part.stop}" if source.part else "all"
                step.advance(1)
                yield ResultRecord(
                    command=command,
                    source=str(path),
                    version=versions[path],
                    part=f"{rows} {reading}",
                    rows=0,
                    skipped=0,
                    first=[],
                )


def _version(file: DataFile) -> str:
    """Return a hash of a file; of a file on a storage its ETag and size, which need no download."""
    if isinstance(file, RemoteFile):
        return f"{file.version} {file.size}"
    return file_hash(file)


def _check_names(names: Sequence[str], parts: Sequence[Part], folder: ResultFolder) -> None:
    """Check that no result would replace another one, or an input."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        name = repeated[0]
        named_parts = zip(names, parts, strict=True)
        paths = [str(part.path) for part_name, part in named_parts if part_name == name]
        raise StageError(
            f"--output: the results of {' and '.join(paths)} would both be named {name}.",
            "Predict them into two folders.",
        )
    inputs = {_place(part.path) for part in parts}
    for name in names:
        file = folder.file(name)
        if _place(file) in inputs:
            raise StageError(
                f"--output: {file} is also an input, which would be overwritten.", "Name another folder."
            )


def _place(file: DataFile) -> str:
    """Return the path of a file without links, or its URL."""
    return str(file.resolve() if isinstance(file, Path) else file)


@contextmanager
def _scratch(target: DataFile | None) -> Iterator[Path]:
    """Yield a folder for the results of tasks: beside the target, which the workers reach, too."""
    if isinstance(target, Path) and not is_stream(target) and not target.is_char_device():
        with working_directory(Path(os.path.realpath(target))) as folder:
            yield folder
        return
    if os.environ.get("RAY_ADDRESS"):
        hint = "Name a folder (a URL or path that ends in /) or a file."
        raise StageError("--output: the workers of the cluster cannot all reach it.", hint)
    with temporary_directory() as folder:
        yield folder
