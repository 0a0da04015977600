"""The inbox of files to score, the outbox with their results, and the archive of the scored files.

The drop folder of flow ``ingest`` has the same rules: what is a file, and when it is complete.
"""

import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.files import write_json
from tuneline.core.runtime.terminal import visible
from tuneline.core.stage.records import Record, file_hash
from tuneline.operations.drift import RowCounts
from tuneline.rows.reading.formats import ENDINGS

LONGEST_NAME = 200
"""Bytes of the name of a file; names in the outbox are longer, and file systems allow 255."""
METADATA = b"tuneline"
"""Key of the record in the metadata of a scored file."""


class ScoredRecord(Record):
    """Metadata of a scored file: its source, the model, counts of its rows."""

    path: str
    """Name of the source."""
    sha256: str
    """Hash of the source."""
    version: str
    """Version of the model."""
    commit: str
    """Commit of the model."""
    rows: int
    """Number of predictions. Column ``row`` has the row of the input that each was made for, from 1."""
    seen: RowCounts | None
    """Counts of its rows for the drift; ``None`` if the model has no profile."""


def scored_record(scored: Path) -> ScoredRecord | None:
    """Return the record of a scored file; ``None`` if the file is missing, damaged, or of another program."""
    try:
        # Not the metadata of the schema, which has only what was known before the first row.
        metadata = pq.read_metadata(scored).metadata or {}
        return ScoredRecord.parse(metadata.get(METADATA, b""), scored)
    except (DataError, OSError, pa.ArrowException):
        return None


class ChangedError(Exception):
    """A file changed, or was removed, while it was read."""


@dataclass(frozen=True)
class Incoming:
    """A file of an inbox, with size in bytes and time of its last change as it was when it was found.

    The time of the inode's last change, which nobody can set, tells that another file had its name meanwhile.
    """

    path: Path
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def find(cls, path: Path) -> Self | None:
        """Read size and times of a file; ``None`` if it is gone, out of reach or not a regular file.

        Links are not followed: who may write in an inbox may not read all that the flows may.
        """
        try:
            status = path.lstat()
        except OSError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    @property
    def name(self) -> str:
        """Name of the file."""
        return self.path.name

    @property
    def is_unchanged(self) -> bool:
        """True if the file is still as it was found."""
        return Incoming.find(self.path) == self

    def check_unchanged(self) -> None:
        """Raise ``ChangedError`` if it is no longer as it was found."""
        if not self.is_unchanged:
            raise ChangedError("It changed, or was removed, while it was read.")

    def move(self, target: Path) -> None:
        """Move the file; one that is no longer as it was found stays, because nobody has read it."""
        if self.is_unchanged:
            self.path.rename(target)


def is_data(name: str) -> bool:
    """Return True if a file of this name has data: not hidden, not temporary, with a known ending.

    A name without a meaning as text, with control characters, or that is too long is none.
    """
    is_hidden = name.startswith((".", "_"))
    is_plain = name.isprintable() and len(name.encode()) <= LONGEST_NAME
    return not is_hidden and is_plain and name.lower().endswith(ENDINGS)


def regular_files(paths: Iterable[Path]) -> list[Incoming]:
    """Read the states of files, the oldest first; what is gone or no regular file is left out."""
    files = []
    for path in paths:
        file = Incoming.find(path)
        if file is not None:
            files.append(file)
    return sorted(files, key=lambda file: (file.mtime_ns, file.path))


def complete_files(folder: Path, settle_seconds: float) -> list[Incoming]:
    """List the data files of a folder that have not changed for so long, the oldest first.

    What counts is the change of the inode: a copy may keep the time of its original.
    """
    if not folder.is_dir():
        return []
    before = time.time_ns() - settle_seconds * 1e9
    files = regular_files(path for path in folder.iterdir() if is_data(path.name))
    return [file for file in files if file.ctime_ns <= before]


def unread(folder: Path) -> list[str]:
    """Name what is in an inbox, but is never read; hidden names and other folders are left out."""
    problems: list[str] = []
    if not folder.is_dir():
        return problems
    for path in sorted(folder.iterdir()):
        name = visible(os.fsencode(path.name).decode(errors="backslashreplace"))
        if path.name.startswith((".", "_")):
            continue
        if is_data(path.name):
            if Incoming.find(path) is None:
                problems.append(f"{name} is no file (links are not followed)")
        elif not path.is_dir():
            problems.append(f"{name} has no name of plain text that ends with {', '.join(ENDINGS)}")
    return problems


@dataclass(frozen=True)
class Outbox:
    """The results of files, and the files themselves once they have one.

    Attributes:
        folder: Contains the results: ``<file>.parquet``, later ones ``<file>.2.parquet``, ...; and
            ``<file>.error.json`` for a refused file.
        archive: Folder of the scored inputs: ``<file>``, later ones ``2-<file>``, ....
        scratch: Another folder, for the predictions of the files that are being scored.
    """

    folder: Path
    archive: Path
    scratch: Path

    def prepare(self) -> None:
        """Create the folders, and remove what a killed run left behind."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        for folder in (self.folder, self.archive, self.scratch):
            folder.mkdir(parents=True, exist_ok=True)

    def error(self, incoming: Incoming) -> Path:
        """Return the path of the reason why a file was refused."""
        return self.folder / f"{incoming.name}.error.json"

    def refused(self, incoming: Incoming) -> bool:
        """Return True if a file was refused, and has not changed since."""
        error = Incoming.find(self.error(incoming))
        return error is not None and error.mtime_ns >= incoming.ctime_ns

    def refuse(self, incoming: Incoming, reason: str) -> None:
        """Record why a file was not scored: it is left alone until it changes or the record is deleted."""
        write_json(self.error(incoming), {"path": incoming.name, "error": reason})

    def places(self, incoming: Incoming) -> Iterator[tuple[Path, Path]]:
        """Yield the paths of the first, second, ... result of a name, and those of their inputs."""
        yield self.folder / f"{incoming.name}.parquet", self.archive / incoming.name
        number = 2
        while True:
            yield (
                self.folder / f"{incoming.name}.{number}.parquet",
                self.archive / f"{number}-{incoming.name}",
            )
            number += 1

    def unused(self, incoming: Incoming) -> tuple[Path, Path]:
        """Return the paths for a new result and its input: nothing is overwritten."""
        for result, place in self.places(incoming):
            if not os.path.lexists(result) and not os.path.lexists(place):
                return result, place
        raise AssertionError

    def complete(self, incoming: Incoming, commit: str) -> bool:
        """Archive a file that the model of this commit has scored: its run was killed in between.

        Return False for another file.
        """
        for result, place in self.places(incoming):
            if not os.path.lexists(result):
                return False
            record = scored_record(result)
            if record and record.commit == commit and record.sha256 == file_hash(incoming.path):
                incoming.move(place)
                return True
        return False

    def latest(self) -> Iterator[ScoredRecord]:
        """Yield the records of the scored files, the latest first."""
        for file in reversed(regular_files(self.folder.glob("[!.]*.parquet"))):
            record = scored_record(file.path)
            if record:
                yield record
