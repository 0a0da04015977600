"""Prediction of many files, or of many parts of one, by either engine: to a folder with a result for each task, or to one file."""

import dataclasses
import importlib.metadata
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tuneline.cli.predict.sources import Part, as_path, is_remote
from tuneline.cli.predict.streaming import (
    ModelChoice,
    StreamOptions,
    Tally,
    Task,
    TaskResult,
    TooManyBadRowsError,
    ended_by_reader,
    predict_task,
    say_summary,
)
from tuneline.cli.predict.writing import Output, OutputColumns, descriptor, open_writer
from tuneline.core.errors import DataError, StageError
from tuneline.core.files import cannot_write, file_hash, temporary_directory
from tuneline.core.locks import BusyError, locked
from tuneline.core.records import Record
from tuneline.core.resumable import content_key
from tuneline.core.terminal import progress, say
from tuneline.engines import EngineOptions, map_tasks
from tuneline.readers.files import DataFile, RemoteFile, file_system, reaching, shown
from tuneline.readers.inputs import InputColumns
from tuneline.readers.rows import Kind

RECORDS = ".predictions"


class ResultRecord(Record):
    """How a result was made."""

    command: str
    """Hash of the model and the options."""
    source: str
    """The input."""
    version: str
    """Hash of the input; on a storage its ETag."""
    part: str
    """The rows of it, and a hash of how it is read."""
    rows: int
    """Number of predictions."""
    skipped: int
    """Number of bad rows that were left out."""
    first: list[str]
    """Places and reasons of the first ones."""

    @property
    def result(self) -> TaskResult:
        """What the task has done."""
        return TaskResult(self.rows, self.skipped, tuple(self.first))


@dataclass(frozen=True)
class ResultFolder:
    """The folder of results: a path, or a URL without a slash at its end."""

    place: Path | str

    @classmethod
    def named(cls, word: str) -> "ResultFolder | None":
        """Return the folder that ``--output`` names: it ends in a slash, or is one; ``None`` if it names a file."""
        if is_remote(word):
            return cls(word.rstrip("/")) if word.endswith("/") else None
        path = as_path(word)
        return cls(path) if word.endswith("/") or path.is_dir() else None

    def __str__(self) -> str:
        return f"{shown(str(self.place))}/"

    def file(self, name: str) -> DataFile:
        """Return a file in it."""
        return self.place / name if isinstance(self.place, Path) else RemoteFile(f"{self.place}/{name}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder. That of a storage is not held, as two commands write the same bytes, but tried before hours of work.

        Raises:
            StageError: Another command holds it, or it cannot be written.
        """
        if not isinstance(self.place, Path):
            with reaching(str(self)):
                files, path = file_system(self.place)
                files.pipe_file(f"{path}/{RECORDS}/writable", b"")
                files.rm_file(f"{path}/{RECORDS}/writable")
            yield
            return
        with ExitStack() as held:
            try:
                (self.place / RECORDS).mkdir(parents=True, exist_ok=True)
                held.enter_context(locked(self.place / RECORDS, wait=0, required=False))
            except BusyError:
                message = f"--output: another command is writing to {self}."
                raise StageError(message, "Wait until it has ended, or name another.") from None
            except OSError as error:
                raise cannot_write(self.place, error) from None
            yield

    def records(self) -> dict[str, ResultRecord]:
        """Return the records of the results that are there, by name."""
        if isinstance(self.place, Path):
            paths = (self.place / RECORDS).glob("*.json")
            contents: Mapping[str, bytes] = {path.name: path.read_bytes() for path in paths if (self.place / path.stem).is_file()}
        else:
            with reaching(str(self)):
                files, path = file_system(self.place)
                files.invalidate_cache()
                try:
                    there = {found.rpartition("/")[2] for found in files.ls(path, detail=False)}
                except FileNotFoundError:
                    return {}
                found = [one for one in files.find(f"{path}/{RECORDS}") if one.endswith(".json")]
                contents = {name.rpartition("/")[2]: content for name, content in files.cat(found).items()} if found else {}
                contents = {name: content for name, content in contents.items() if name.removesuffix(".json") in there}
        records = {}
        for name, content in contents.items():
            with suppress(DataError):  # of another version: that result is made again
                records[name.removesuffix(".json")] = ResultRecord.parse(content, name)
        return records

    def write(self, name: str, record: ResultRecord) -> None:
        """Record a result."""
        if isinstance(self.place, Path):
            record.write(self.place / RECORDS / f"{name}.json")
            return
        with reaching(str(self)):
            files, path = file_system(self.place)
            files.pipe_file(f"{path}/{RECORDS}/{name}.json", record.model_dump_json().encode())

    def remove(self, name: str) -> None:
        """Remove a result with its record."""
        for part in (f"{RECORDS}/{name}.json", name):
            if isinstance(self.place, Path):
                (self.place / part).unlink(missing_ok=True)
                continue
            with reaching(str(self)), suppress(FileNotFoundError):
                files, path = file_system(self.place)
                files.rm_file(f"{path}/{part}")


LIBRARIES = ("numpy", "onnxruntime", "pyarrow", "tokenizers")
"""Libraries that the bytes of the results depend on."""
T = TypeVar("T")


@dataclass(frozen=True)
class Batch:
    """What all tasks have in common."""

    model: ModelChoice
    columns: InputColumns
    options: StreamOptions
    run: EngineOptions

    def to_file(self, parts: Sequence[Part], output: Output) -> None:
        """Write the predictions of all parts, one after the other, to one file. Each task has a file of its own until it is its turn."""
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
            model = file_hash(self.model.file())
            command = content_key(model, dataclasses.asdict(self.columns), options, libraries)
            for part in parts:
                path, source = part.path, part.source
                if path not in versions:
                    versions[path] = f"{path.version} {path.size}" if isinstance(path, RemoteFile) else file_hash(path)
                reading = content_key(source.kind, source.encoding, dataclasses.asdict(source.dialect))
                rows = f"{source.part.start}-{source.part.stop}" if source.part else "all"
                step.advance(1)
                made = {"command": command, "source": str(path), "version": versions[path], "part": f"{rows} {reading}"}
                yield ResultRecord(**made, rows=0, skipped=0, first=[])


@dataclass(frozen=True)
class FolderTask:
    """A task whose result goes into a folder, with a record, which lacks the counts."""

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


def same_task(one: ResultRecord, other: ResultRecord) -> bool:
    """Return True if both are of the same rows, model and options."""
    return (one.command, one.source, one.version, one.part) == (other.command, other.source, other.version, other.part)


def kept_results(planned: Mapping[str, ResultRecord], folder: ResultFolder) -> dict[str, TaskResult]:
    """Return the results in a folder that are those of planned tasks, and remove what must not be beside them.

    That is all of another model or of other options, and what was made of these inputs when they were different. Planned records are by
    the name of the result.
    """
    there, commands, sources = folder.records(), {one.command for one in planned.values()}, {one.source for one in planned.values()}
    kept = {name: record.result for name, record in there.items() if name in planned and same_task(record, planned[name])}
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
    """Check that no result would replace another one, or an input."""
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
        temporary = tempfile.TemporaryDirectory(prefix=f".{place.name[:100]}.", suffix=".partial", dir=place.parent)
        with temporary as name, locked(Path(name)):
            yield Path(name)
        return
    if os.environ.get("RAY_ADDRESS"):
        raise StageError(
            "--output: the workers of the cluster cannot all reach it.", "Name a folder (a URL or path that ends in /) or a file."
        )
    with temporary_directory() as folder:
        yield folder
