"""Prediction of many files, or of many parts of one, by either engine: to a folder with a result for each task, or to one file."""

import dataclasses
import fcntl
import importlib.metadata
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tuneline.cli.predict.folder import ResultFolder, ResultRecord
from tuneline.cli.predict.formats import OutputColumns
from tuneline.cli.predict.model import model_file
from tuneline.cli.predict.sources import Part
from tuneline.cli.predict.streaming import StreamOptions, ended_by_reader, say_summary
from tuneline.cli.predict.targets import descriptor
from tuneline.cli.predict.tasks import ModelChoice, Tally, Task, TaskResult, TooManyBadRowsError, predict_task
from tuneline.cli.predict.writing import Output, open_writer
from tuneline.engines import EngineOptions, map_tasks
from tuneline.errors import StageError
from tuneline.files import temporary_directory
from tuneline.files.resumable import content_key
from tuneline.inputs import InputColumns
from tuneline.readers.rows import Kind
from tuneline.readers.urls import DataFile, RemoteFile, sha256
from tuneline.terminal import progress, say

LIBRARIES = ("numpy", "onnxruntime", "pyarrow", "tokenizers")
"""Libraries that the bytes of the results depend on."""
T = TypeVar("T")


@dataclass(frozen=True)
class Batch:
    """What all tasks have in common.

    Attributes:
        model: The model.
        columns: The columns that are read.
        options: How rows are processed.
        run: The engine.
    """

    model: ModelChoice
    columns: InputColumns
    options: StreamOptions
    run: EngineOptions

    def to_file(self, parts: Sequence[Part], output: Output) -> None:
        """Write the predictions of all parts, one after the other, to one file. Each task has a file of its own until it is its turn.

        Raises:
            StageError: A task failed.
        """
        tally, started = Tally(self.options.bad_rows), time.perf_counter()
        columns = OutputColumns(self.model.load().labels, self.columns.kept)
        with ended_by_reader(), open_writer(output, columns) as writer, _scratch(output.path) as folder:
            places = [folder / f"{number}.{output.kind}" for number in range(len(parts))]
            tasks = [self._task(part, Output(place, output.kind, header=False)) for part, place in zip(parts, places, strict=True)]
            for part, place, result in zip(parts, places, self._results(predict_task, tasks), strict=True):
                tally.add(part, result)
                writer.append(place)
                place.unlink()
        say_summary(tally.rows, tally.skipped, started)

    def to_folder(self, parts: Sequence[Part], folder: ResultFolder, kind: Kind) -> None:
        """Write the predictions of each part to a file in a folder. What is whole there already, and made in the same way, is kept.

        Raises:
            StageError: A task failed; the results of those that have ended stay.
        """
        tally, started, names = Tally(self.options.bad_rows), time.perf_counter(), [part.result_name(kind) for part in parts]
        _check_names(names, parts, folder)
        with folder.locked():
            planned = dict(zip(names, self._records(parts, kind), strict=True))
            kept = kept_results(planned, folder)
            waiting = [
                FolderTask(self._task(part, Output(folder.file(name), kind)), folder, name, planned[name])
                for name, part in zip(names, parts, strict=True)
                if name not in kept
            ]
            results = self._results(predict_into_folder, waiting)
            for name, part in zip(names, parts, strict=True):
                try:
                    tally.add(part, kept[name] if name in kept else next(results))
                except TooManyBadRowsError:
                    for number in range(part.count):
                        folder.remove(dataclasses.replace(part, number=number).result_name(kind))
                    raise
        say_summary(tally.rows, tally.skipped, started, sum(result.rows for result in kept.values()))

    def _task(self, part: Part, output: Output) -> Task:
        """Return a task. The share of bad rows is one of the whole file: of several parts, it is known at the end."""
        policy = self.options.bad_rows if part.count == 1 else dataclasses.replace(self.options.bad_rows, max_share=1.0)
        return Task(self.model, part.source, self.columns, output, dataclasses.replace(self.options, bad_rows=policy))

    def _results(self, function: Callable[[T], TaskResult], tasks: Sequence[T]) -> Iterator[TaskResult]:
        results = map_tasks(function, tasks, self.run, name="predict")
        if self.run.engine != "local" or len(tasks) == 1:  # which show their own progress
            yield from results
            return
        with progress("predict", len(tasks), "tasks") as step:
            for result in results:
                step.advance(1)
                yield result

    def _records(self, parts: Sequence[Part], kind: Kind) -> Iterator[ResultRecord]:
        """Yield the record of each task, without its counts."""
        versions: dict[DataFile, str] = {}
        with progress("predict: reading the inputs", len(parts), "tasks") as step:
            options = [self.options.batch_size, self.options.window, self.options.bad_rows.action, kind]
            libraries = [importlib.metadata.version(name) for name in LIBRARIES]
            model = sha256(model_file(self.model.path, self.model.precision))
            command = content_key(model, dataclasses.asdict(self.columns), options, libraries)
            for part in parts:
                path, source = part.path, part.source
                if path not in versions:
                    versions[path] = f"{path.version} {path.size}" if isinstance(path, RemoteFile) else sha256(path)
                reading = content_key(source.kind, source.encoding, dataclasses.asdict(source.dialect))
                rows = f"{source.part.start}-{source.part.stop}" if source.part else "all"
                step.advance(1)
                made = {"command": command, "source": str(path), "version": versions[path], "part": f"{rows} {reading}"}
                yield ResultRecord(**made, rows=0, skipped=0, first=[])


@dataclass(frozen=True)
class FolderTask:
    """A task whose result goes into a folder, with a record.

    Attributes:
        task: The task.
        folder: The folder.
        name: Name of the result.
        record: Its record, without the counts.
    """

    task: Task
    folder: ResultFolder
    name: str
    record: ResultRecord


def predict_into_folder(task: FolderTask) -> TaskResult:
    """Write the predictions of a task, then its record."""
    result = predict_task(task.task)
    counts = {"rows": result.rows, "skipped": result.skipped, "first": list(result.first)}
    task.folder.write(task.name, task.record.model_copy(update=counts))
    return result


def kept_results(planned: Mapping[str, ResultRecord], folder: ResultFolder) -> dict[str, TaskResult]:
    """Return the results in a folder that are those of planned tasks, and remove what must not be beside them.

    That is all of another model or of other options, and what was made of these inputs when they were different.

    Args:
        planned: The record of each task, by the name of its result.
        folder: The folder.
    """
    there, commands, sources = folder.records(), {one.command for one in planned.values()}, {one.source for one in planned.values()}
    kept = {name: record.result for name, record in there.items() if name in planned and record.is_of(planned[name])}
    others = [name for name, record in there.items() if record.command not in commands]
    changed = [name for name, record in there.items() if name not in kept and record.command in commands and record.source in sources]
    if others:
        say(f"{folder} has results of another model or of other options: {len(others)} removed, to predict anew.", error=True)
    if changed:
        say(f"{folder} has results of inputs that have changed since: {len(changed)} removed, to predict anew.", error=True)
    for name in (*others, *changed):
        folder.remove(name)
    if kept:
        say(f"{folder} has {len(kept)} of {len(planned)} results already; they are kept.", error=True)
    return kept


def _check_names(names: Sequence[str], parts: Sequence[Part], folder: ResultFolder) -> None:
    """Check that no result would replace another one, or an input.

    Raises:
        StageError: One would.
    """
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        both = " and ".join(str(part.path) for part, name in zip(parts, names, strict=True) if name == twice[0])
        raise StageError(f"--output: the results of {both} would both be named {twice[0]}.", "Predict them into two folders.")
    inputs = {str(part.path.resolve() if isinstance(part.path, Path) else part.path) for part in parts}
    for name in names:
        file = folder.file(name)
        if str(file.resolve() if isinstance(file, Path) else file) in inputs:
            raise StageError(f"--output: {file} is also an input, which would be overwritten.", "Name another folder.")


@contextmanager
def _scratch(target: DataFile | None) -> Iterator[Path]:
    """Yield a folder for the results of tasks: beside the target, which the workers reach, too.

    It is named and locked like what ``replace_file`` writes: after a kill, the next writer of the target removes it.

    Raises:
        StageError: The target is none that workers on other machines reach.
    """
    if isinstance(target, Path) and not target.is_fifo() and not target.is_char_device() and descriptor(target) is None:
        place = Path(os.path.realpath(target))
        with tempfile.TemporaryDirectory(prefix=f".{place.name[:100]}.", suffix=".partial", dir=place.parent) as folder:
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield Path(folder)
            finally:
                os.close(lock)
        return
    if os.environ.get("RAY_ADDRESS"):
        raise StageError(
            "--output: the workers of the cluster cannot all reach it.", "Name a folder (a URL or path that ends in /) or a file."
        )
    with temporary_directory() as folder:
        yield folder
