"""Prediction of many files: the files that the arguments name, their tasks, and the results.

Either engine predicts many files, or many parts of one: to a folder with a result for each task, or to one
file.
"""

import dataclasses
import importlib.metadata
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tuneline.core.hashes import content_key, file_hash
from tuneline.core.records import OMITTED, Record
from tuneline.core.written_records import write_record
from tuneline.engines import EngineOptions, map_tasks
from tuneline.predict import Kind
from tuneline.predict.model_choice import ModelChoice
from tuneline.predict.skipped_rows import RowReport
from tuneline.predict.streaming import (
    StreamOptions,
    TaskResult,
    predict_file,
    say_abstained,
    say_summary,
    say_truncated,
)
from tuneline.predict.writing import (
    OutputColumns,
    PredictionOutput,
    check_target,
    descriptor,
    open_writer,
)
from tuneline.readers.files import (
    DataFile,
    RemoteFile,
    file_system,
    is_url,
    list_files,
    not_a_file,
    reaching,
    shown,
)
from tuneline.readers.formats import ENDINGS
from tuneline.readers.inputs import InputColumns
from tuneline.readers.rows import SHOWN_BAD_ROWS, BadRowPolicy, BadRows
from tuneline.readers.tables import Input
from tuneline.runtime.atomic_files import temporary_directory, working_directory
from tuneline.runtime.disk_errors import cannot_write
from tuneline.runtime.errors import DataError, StageError
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.terminal import progress, say

TASK_ROWS = 50_000
"""Rows of a Parquet file that are one task.

The number is fixed so that the same rows always give the same bytes: a batch does not reach
from one task into the next."""
SCHEME_OF_PATHS = "file://"
_SHARD = re.compile(r"(?P<name>.*)-(?P<number>\d{5,})-of-(?P<count>\d{5,})\..*")


def named_target(output: str) -> DataFile | None:
    """Return the file that ``--output`` names; ``None`` for standard output."""
    if is_remote(output):
        file_system(output)
        return RemoteFile(output)
    path = as_path(output)
    check_target(path)
    return None if output == "-" or descriptor(path) == 1 else path


def named_sources(
    files: Sequence[str], target: DataFile | None, *, any_ending: bool
) -> list[DataFile | None]:
    """Return the inputs, checked before they are opened.

    Args:
        files: Paths, patterns and URLs; ``-`` is standard input.
        target: Output, which must be no input; ``None`` for standard output.
        any_ending: Take files of a folder or pattern whatever their ending.

    Returns:
        The files; ``None`` for standard input.
    """
    # a stream, which must be the only input
    if files == ["-"]:
        return [None]
    if len(files) == 1:
        path = as_path(files[0])
        if is_stream(path):
            if descriptor(path) is None:  # it is waited for until a program writes to it
                say(f"{path} is a named pipe: reading what another program writes to it.", error=True)
            return [path]
    streams = [name for name in files if name == "-" or is_stream(as_path(name))]
    if streams:
        raise StageError(
            f"{streams[0]} cannot be read together with other files.", "Name files only, or pipe all rows in."
        )

    # files
    sources: list[DataFile | None] = []
    for name in files:
        sources += _named_files(name, any_ending)
    for source in sources:
        if _is_same_file(source, target):
            raise StageError(
                f"--output: {target} is also the input, which would be overwritten.", "Name another file."
            )
    return sources


def _is_same_file(source: DataFile | None, target: DataFile | None) -> bool:
    if source == target:
        return True
    if not isinstance(source, Path) or not isinstance(target, Path):
        return False
    return target.exists() and target.samefile(source)


def is_stream(path: DataFile | None) -> bool:
    """Return True for standard input, a named pipe or an open file such as ``/dev/fd/3``."""
    return path is None or (isinstance(path, Path) and (path.is_fifo() or descriptor(path) is not None))


def as_path(word: str) -> Path:
    """Return the path that a word names, which may be a URL ``file://``."""
    return Path(unquote(urlsplit(word).path) if word.startswith(SCHEME_OF_PATHS) else word)


def is_remote(word: str) -> bool:
    """Return True for the URL of a storage, such as ``s3://bucket/folder``."""
    return is_url(word) and not word.startswith(SCHEME_OF_PATHS)


def _named_files(word: str, any_ending: bool) -> Sequence[DataFile]:
    """Return the files that a word names: a file, a folder, a pattern with ``*``, or a URL of one of them.

    A single file is returned whatever its ending; of a folder or pattern, only data is.
    """
    files = list_files(word) if is_remote(word) else _local_files(as_path(word))
    if len(files) == 1:
        (file,) = files
        is_named = str(file) == str(as_path(word))
        if is_named or (isinstance(file, RemoteFile) and file.url == word):
            return files

    data = [file for file in files if _is_data(file, any_ending)]
    for file in data:
        if isinstance(file, Path) and (problem := not_a_file(file)):
            raise StageError(f"{file} {problem}.", "Move it away, or put a dot in front of its name.")
    if not data:
        raise DataError(
            f"{shown(word)} has no file that ends in {', '.join(ENDINGS)}.",
            "Check the path; --input-format reads all files.",
        )
    if "*" not in word:
        _check_shards([file.name for file in data], shown(word))
    return data


def _local_files(path: Path) -> Sequence[DataFile]:
    if path.is_dir():
        return sorted(path.iterdir())
    if "*" in path.name and not os.path.lexists(path):
        matches = sorted(path.parent.glob(path.name))
        if matches:
            return matches
    if problem := not_a_file(path):
        raise StageError(f"{path} {problem}.", "Check the path; - is standard input.")
    return [path]


def _is_data(file: DataFile, any_ending: bool) -> bool:
    """Return True for a file whose name ends as data does, or for any file, and is not hidden."""
    if file.name.startswith((".", "_")):
        return False
    if file.name.lower().endswith(ENDINGS):
        return True
    is_folder = isinstance(file, Path) and file.is_dir()
    return any_ending and not is_folder


def _check_shards(names: Sequence[str], folder: str) -> None:
    """Check that no shard is missing of a set with names such as ``train-00000-of-00012.parquet``."""
    shards: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    for file_name in names:
        match = _SHARD.fullmatch(file_name)
        if match is not None:
            shards[match["name"], int(match["count"])].add(int(match["number"]))
    for (name, count), numbers in shards.items():
        missing = sorted(set(range(count)) - numbers)
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DataError(
                f"{folder}: shard {name}-{missing[0]:05d}-of-{count:05d} is missing{more}.",
                f"Fetch it; to predict without it, name the files: '{folder.rstrip('/')}/*'.",
            )


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


def divide_file(source: Input) -> list[Part]:
    """Divide a file into tasks of ``TASK_ROWS`` rows, if its parts can be read."""
    rows = source.layout.format.count_rows(source)
    if rows is None or rows <= TASK_ROWS:
        return [Part(source)]
    ranges = [range(start, min(start + TASK_ROWS, rows)) for start in range(0, rows, TASK_ROWS)]
    parts = []
    for number, part_rows in enumerate(ranges):
        parts.append(Part(dataclasses.replace(source, part=part_rows), number, len(ranges)))
    return parts


RECORDS = ".predictions"
"""Folder of the records in a folder of results."""


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
    truncated: int | None = OMITTED
    """Number of rows that were too long for the model; ``None`` in a record of an earlier version."""

    abstained: int | None = OMITTED
    """Number of rows that got no answer; ``None`` in a record of an earlier version."""

    @property
    def task(self) -> tuple[str, ...]:
        """Identity of the task: model and options, input, and rows."""
        return self.command, self.source, self.version, self.part


@dataclass(frozen=True)
class ResultFolder:
    """A folder of results, which a command that was killed leaves so that the next one resumes.

    ``.predictions/NAME.json`` in it records how the result ``NAME`` was made. It is written after the result,
    and removed before the result.

    Attributes:
        place: A path, or a URL without a slash at its end.
    """

    place: Path | str

    @classmethod
    def named(cls, word: str) -> "ResultFolder | None":
        """Return the folder that ``--output`` names; ``None`` if it names a file.

        The name of a folder ends in a slash, unless the folder exists on this machine.
        """
        if is_remote(word):
            return cls(word.rstrip("/")) if word.endswith("/") else None
        path = as_path(word)
        return cls(path) if word.endswith("/") or path.is_dir() else None

    def __str__(self) -> str:
        return f"{shown(str(self.place))}/"

    def file(self, name: str) -> DataFile:
        """Return a file in it."""
        if isinstance(self.place, Path):
            return self.place / name
        return RemoteFile(f"{self.place}/{name}")

    @contextmanager
    def _storage(self) -> Iterator[tuple[Any, str]]:
        """Yield the file system of the folder and the path in it, with its errors explained."""
        from fsspec.implementations.local import LocalFileSystem

        with reaching(str(self)):
            if isinstance(self.place, Path):
                yield LocalFileSystem(), str(self.place.absolute())
            else:
                yield file_system(self.place)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder.

        A folder of a storage is not held, because two commands write the same bytes. It is written to once,
        so that a folder that cannot be written is known before hours of work.

        Raises:
            StageError: Another command holds it, or it cannot be written.
        """
        if not isinstance(self.place, Path):
            with self._storage() as (files, path):
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
        records = {}
        with self._storage() as (files, path):
            files.invalidate_cache()
            try:
                names = {result_path.rpartition("/")[2] for result_path in files.ls(path, detail=False)}
            except FileNotFoundError:
                return {}
            paths = [entry for entry in files.find(f"{path}/{RECORDS}") if entry.endswith(".json")]

            # At once on a storage. On this machine one by one, because ``cat`` takes a bracket in a name for
            # a pattern.
            if paths and isinstance(self.place, str):
                contents = files.cat(paths)
            else:
                contents = {record_path: files.cat_file(record_path) for record_path in paths}

            for record_path, content in contents.items():
                name = record_path.rpartition("/")[2].removesuffix(".json")
                with suppress(DataError):  # of another version: that result is made again
                    records[name] = ResultRecord.parse(content, name)
        return {name: record for name, record in records.items() if name in names}

    def write(self, name: str, record: ResultRecord) -> None:
        """Record a result."""
        if isinstance(self.place, Path):
            write_record(self.place / RECORDS / f"{name}.json", record)
            return
        with self._storage() as (files, path):
            files.pipe_file(f"{path}/{RECORDS}/{name}.json", record.model_dump_json().encode())

    def remove(self, name: str) -> None:
        """Remove a result with its record."""
        with self._storage() as (files, path):
            for file_name in (f"{RECORDS}/{name}.json", name):
                with suppress(FileNotFoundError):
                    files.rm_file(f"{path}/{file_name}")


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
            self.model.load().task, self.columns.kept, self.options.rule, self.options.deciding_window
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


def kept_results(planned: Mapping[str, ResultRecord], folder: ResultFolder) -> dict[str, TaskResult]:
    """Return the results in a folder that planned tasks would make again, and remove misleading ones.

    Results of another model or of other options are removed, and results of these inputs from a time when
    the inputs were different.

    Args:
        planned: Records of the planned tasks, by the name of the result.
        folder: The folder.
    """
    commands = {record.command for record in planned.values()}
    sources = {record.source for record in planned.values()}
    kept = {}
    of_other_commands = []
    of_other_versions = []
    for name, record in folder.records().items():
        if name in planned and record.task == planned[name].task:
            kept[name] = TaskResult(
                record.rows,
                record.skipped,
                tuple(record.first),
                record.truncated or 0,
                record.abstained or 0,
            )
        elif record.command not in commands:
            of_other_commands.append(name)
        elif record.source in sources:
            of_other_versions.append(name)

    _remove_results(folder, of_other_commands, "of another model or of other options")
    _remove_results(folder, of_other_versions, "of inputs that have changed since")
    if kept:
        say(f"{folder} has {len(kept)} of {len(planned)} results already; they are kept.", error=True)
    return kept


def _remove_results(folder: ResultFolder, names: Sequence[str], origin: str) -> None:
    if names:
        say(f"{folder} has results {origin}: {len(names)} removed, to predict anew.", error=True)
    for name in names:
        folder.remove(name)


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
