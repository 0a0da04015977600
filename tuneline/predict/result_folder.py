"""A folder of results, which tells of each result how it was made: a command that was killed resumes."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneline.core.records import OMITTED, Record
from tuneline.core.written_records import write_record
from tuneline.predict.named_files import as_path, is_remote
from tuneline.predict.streaming import TaskResult
from tuneline.readers.files import DataFile, RemoteFile, file_system, reaching, shown
from tuneline.runtime.disk_errors import cannot_write
from tuneline.runtime.errors import DataError, StageError
from tuneline.runtime.locks import BusyError, locked
from tuneline.runtime.terminal import say

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
