"""The inbox of files to score, the outbox with their results, and the archive of the scored files.

The drop folder of flow ``ingest`` has the same rules: what is a file, and when it is complete.
"""

import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tuneline.core.hashes import file_hash
from tuneline.core.records import write_record
from tuneline.predict.scored import FileRecord, ScoredRecord, scored_record
from tuneline.readers.formats import ENDINGS
from tuneline.readers.text import not_a_file
from tuneline.runtime.terminal import visible

LONGEST_NAME = 200
"""Bytes of a name in the outbox before its suffix: file systems allow 255."""


class RefusedRecord(FileRecord):
    """``<file>.error.json``: a file that cannot be scored."""

    error: str


class ChangedError(Exception):
    """A file changed, or was removed, while it was scored."""


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
        """Name of the file, without what a terminal obeys or a log takes for a line of its own.

        Bytes that are not UTF-8 are escaped, because neither JSON nor Prefect's API takes them.
        """
        name = visible(os.fsencode(self.path.name).decode(errors="backslashreplace"))
        return name.replace("\n", "\\n").replace("\t", "\\t")

    @property
    def stem(self) -> str:
        """Name of its results without number and suffix: its own, or a shorter one with a hash."""
        name_in_folder = os.fsencode(self.path.name)
        name = self.name.encode()
        if name == name_in_folder and len(name_in_folder) <= LONGEST_NAME:
            return self.name
        digest = hashlib.sha256(name_in_folder).hexdigest()[:16]
        return f"{name[: LONGEST_NAME - 17].decode(errors='ignore')}~{digest}"

    @property
    def sha256(self) -> str:
        """Hash of its content."""
        return file_hash(self.path)

    def check_unchanged(self) -> None:
        """Raise ``ChangedError`` if it is no longer as it was found."""
        if Incoming.find(self.path) != self:
            raise ChangedError("It changed, or was removed, while it was scored.")

    def as_record(self) -> dict[str, Any]:
        """Return the values of ``FileRecord``."""
        return {"path": self.name, "size": self.size, "mtime_ns": self.mtime_ns}


def is_data(name: str) -> bool:
    """Return True if a file of this name has data: not hidden, not temporary, with a known ending."""
    return not name.startswith((".", "_")) and name.lower().endswith(ENDINGS)


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
    """Describe what is in an inbox, but is never read; hidden names and other folders are left out."""
    problems: list[str] = []
    if not folder.is_dir():
        return problems
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        reason = None
        if path.is_symlink():
            reason = "is a link, which is not followed"
        elif is_data(path.name):
            reason = not_a_file(path)
        elif not path.is_dir():
            reason = f"does not end with {', '.join(ENDINGS)}"
        if reason:
            problems.append(visible(f"{path.name} {reason}"))
    return problems


@dataclass(frozen=True)
class Outbox:
    """The results of files, and the files themselves once they have one.

    Attributes:
        root: The repository.
        folder: Contains the results: ``<file>.parquet``, later ones ``<file>.2.parquet``, ...; and
            ``<file>.error.json`` for a refused file.
        archive: Folder of the scored inputs: ``<file>``, later ones ``2-<file>``, ....
        scratch: Another folder, for the predictions of the files that are being scored.
    """

    root: Path
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
        return self.folder / f"{incoming.stem}.error.json"

    def refused(self, incoming: Incoming) -> bool:
        """Return True if a file was refused in its present state."""
        record = RefusedRecord.read_if_valid(self.error(incoming))
        return record is not None and incoming.as_record() == record.model_dump(
            include={*FileRecord.model_fields}
        )

    def refuse(self, incoming: Incoming, reason: str) -> None:
        """Record why a file was not scored: it is left alone until it changes or the record is deleted."""
        write_record(self.error(incoming), RefusedRecord(**incoming.as_record(), error=reason))

    def places(self, incoming: Incoming) -> Iterator[tuple[Path, Path]]:
        """Yield the paths of the first, second, ... result of a name, and those of their inputs."""
        ending = Path(incoming.path.name.removesuffix(".gz")).suffix
        if incoming.path.name.endswith(".gz"):
            ending += ".gz"
        name = incoming.stem if incoming.stem == incoming.path.name else f"{incoming.stem}{ending}"
        yield self.folder / f"{incoming.stem}.parquet", self.archive / name
        number = 2
        while True:
            yield self.folder / f"{incoming.stem}.{number}.parquet", self.archive / f"{number}-{name}"
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
            if record and record.commit == commit and record.sha256 == incoming.sha256:
                incoming.path.rename(place)
                return True
        return False

    def latest(self) -> Iterator[ScoredRecord]:
        """Yield the records of the scored files, the latest first."""
        for file in reversed(regular_files(self.folder.glob("[!.]*.parquet"))):
            record = scored_record(file.path)
            if record:
                yield record
