"""A folder of results, on this machine or on a storage, which an ended or killed command leaves so that the next one can go on.

``.predictions/NAME.json`` in it says from what and how the result ``NAME`` was made. It is written after the result, and removed before.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tuneline.cli.predict.sources import as_path, is_remote
from tuneline.cli.predict.tasks import TaskResult
from tuneline.errors import DataError, StageError
from tuneline.files.disk_errors import cannot_write
from tuneline.files.locks import lock_folder
from tuneline.readers.urls import DataFile, RemoteFile, file_system, reaching, shown
from tuneline.records.record import Record

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

    def is_of(self, other: "ResultRecord") -> bool:
        """Return True if both are of the same rows, model and options."""
        keys = {"command", "source", "version", "part"}
        return self.model_dump(include=keys) == other.model_dump(include=keys)


@dataclass(frozen=True)
class ResultFolder:
    """The folder.

    Attributes:
        place: Its path, or its URL without a slash at its end.
    """

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
        busy = StageError(f"--output: another command is writing to {self}.", "Wait until it has ended, or name another.")
        try:
            (self.place / RECORDS).mkdir(parents=True, exist_ok=True)
            lock = lock_folder(self.place / RECORDS, busy)
        except OSError as error:
            raise cannot_write(self.place, error) from None
        try:
            yield
        finally:
            os.close(lock)

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
