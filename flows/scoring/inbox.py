"""The files to score, and the folder of the scored ones: which files are new, and which were scored or refused before."""

import hashlib
import os
import re
import shutil
import stat
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tuneline.readers.special_files import not_a_file
from tuneline.records.scored import FileRecord, ScoredRecord, scored_record

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
LONGEST_NAME = 200
"""Bytes of a name in the outbox before its suffix. File systems allow 255, and a partial file has a longer name than the file."""
_RESULT = re.compile(r"(?P<stem>[^.].*?)(?:\.(?P<number>[2-9]|[1-9][0-9]+))?\.parquet", re.DOTALL)
"""Name of a result. A stem ends like the name of a data file or with a hash, so ``NAME.2`` is never the stem of another file."""
Numbers = Mapping[str, Sequence[int]]
"""Numbers of the results of each stem, ascending."""


class RefusedRecord(FileRecord):
    """``<file>.error.json``: a file that cannot be scored."""

    error: str


@dataclass(frozen=True)
class Incoming:
    """A file to score, as it was when it was found.

    Attributes:
        path: Its path.
        size: Its size in bytes.
        mtime_ns: Time of its last change in nanoseconds.
    """

    path: Path
    size: int
    mtime_ns: int

    @classmethod
    def find(cls, path: Path) -> Self | None:
        """Read size and time of a file; ``None`` if it is gone, out of reach or not a regular file."""
        try:
            found = path.stat()
        except OSError:
            return None
        return cls(path, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None

    @property
    def name(self) -> str:
        """Its name; bytes that are not UTF-8 are escaped, because neither JSON nor Prefect's API takes them."""
        return os.fsencode(self.path.name).decode(errors="backslashreplace")

    @property
    def stem(self) -> str:
        """Name of its results without number and suffix: its own, if a file system takes that, else a shorter one with a hash."""
        own, name = os.fsencode(self.path.name), self.name.encode()
        if name == own and len(own) <= LONGEST_NAME:
            return self.name
        digest = hashlib.sha256(own).hexdigest()[:16]
        return f"{name[: LONGEST_NAME - 17].decode(errors='ignore')}~{digest}"

    @property
    def unchanged(self) -> bool:
        """True if it is still as it was found."""
        found = Incoming.find(self.path)
        return found is not None and (found.size, found.mtime_ns) == (self.size, self.mtime_ns)

    @property
    def sha256(self) -> str:
        """Hash of its content."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def as_record(self) -> dict[str, Any]:
        """Return the values of ``FileRecord``."""
        return {"path": self.name, "size": self.size, "mtime_ns": self.mtime_ns}

    def matches(self, record: FileRecord | None) -> bool:
        """Return True if a record is of this file in its present state."""
        return record is not None and record.model_dump(include=set(FileRecord.model_fields)) == self.as_record()


@dataclass(frozen=True)
class Archived(Incoming):
    """An archived input, which is scored again.

    Attributes:
        record: Record of its last result.
        results: Stem of its results.
    """

    record: ScoredRecord
    results: str

    @property
    def name(self) -> str:
        """Its name when it was new."""
        return self.record.path

    @property
    def stem(self) -> str:
        """Stem of its results."""
        return self.results


@dataclass(frozen=True)
class Outbox:
    """The folder of scored files.

    Attributes:
        folder: Contains the results: ``<file>.parquet``, later ones ``<file>.2.parquet``, ...; and ``<file>.error.json`` for a refused
            file.
        scratch: Another folder, for the predictions of the files that are being scored.
    """

    folder: Path
    scratch: Path

    def prepare(self) -> None:
        """Create the folders, and remove what a killed run left behind."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        for folder in (self.folder, self.scratch):
            folder.mkdir(parents=True, exist_ok=True)

    def scored(self, stem: str, number: int = 1) -> Path:
        """Return the path of a result."""
        return self.folder / (f"{stem}.parquet" if number == 1 else f"{stem}.{number}.parquet")

    def refused(self, incoming: Incoming) -> Path:
        """Return the path of the reason why a file was refused."""
        return self.folder / f"{incoming.stem}.error.json"

    def numbers(self) -> Numbers:
        """Read the numbers of all results."""
        found = defaultdict(list)
        paths = self.folder.iterdir() if self.folder.is_dir() else ()
        for match in filter(None, (_RESULT.fullmatch(path.name) for path in paths)):
            found[match["stem"]].append(int(match["number"] or 1))
        return {stem: sorted(numbers) for stem, numbers in found.items()}

    def record(self, incoming: Incoming, numbers: Numbers) -> ScoredRecord | None:
        """Return the record of the last result of this file in its present state; ``None`` if there is none that is whole."""
        records = (scored_record(self.scored(incoming.stem, number)) for number in reversed(numbers.get(incoming.stem, ())))
        return next(filter(incoming.matches, records), None)

    def has(self, incoming: Incoming, numbers: Numbers | None = None) -> bool:
        """Return True if this file, in its present state, was scored or refused before. A damaged record says nothing."""
        refused = RefusedRecord.read_if_valid(self.refused(incoming))
        return incoming.matches(refused) or self.record(incoming, self.numbers() if numbers is None else numbers) is not None

    def refuse(self, incoming: Incoming, reason: str) -> None:
        """Record why a file was not scored, so that it is not tried again until it changes or the record is deleted."""
        RefusedRecord(**incoming.as_record(), error=reason).write(self.refused(incoming))

    def latest(self) -> Iterator[ScoredRecord]:
        """Yield the records of the scored files, the latest first."""
        files = [found for path in self.folder.glob("[!.]*.parquet") if (found := Incoming.find(path))]
        for file in sorted(files, key=lambda file: file.mtime_ns, reverse=True):
            if record := scored_record(file.path):
                yield record


def new_files(inbox: Path, outbox: Outbox, settle_seconds: float) -> list[Incoming]:
    """List the files that were not scored yet, the oldest first. Files that changed recently are left for the next run."""
    numbers = outbox.numbers()
    waiting = _settled([one for one in data_files(inbox) if not outbox.has(one, numbers)], settle_seconds)
    return sorted(waiting, key=lambda one: (one.mtime_ns, one.path))


def data_files(inbox: Path) -> list[Incoming]:
    """List the files of an inbox, in no order."""
    paths = inbox.iterdir() if inbox.is_dir() else ()
    return [found for path in paths if is_data(path.name) and (found := Incoming.find(path))]


def not_files(inbox: Path) -> list[str]:
    """Describe what has the name of a data file in an inbox, but is none: a folder, a pipe, a link to nowhere."""
    paths = sorted(inbox.iterdir()) if inbox.is_dir() else ()
    return [f"{path.name} {problem}" for path in paths if is_data(path.name) and (problem := not_a_file(path))]


def _settled(files: Sequence[Incoming], seconds: float) -> list[Incoming]:
    """Return the files that did not change in the last ``seconds``.

    A time in the future, from another machine's clock, does not tell when the file changed: such files are watched for ``seconds``.
    """
    now = time.time_ns()
    future = [one for one in files if one.mtime_ns > now]
    if future:
        time.sleep(seconds)
    unchanged = [one for one in future if Incoming.find(one.path) == one]
    return [*unchanged, *(one for one in files if now - one.mtime_ns >= seconds * 1e9)]


def is_data(name: str) -> bool:
    """Return True if a file name is that of data: not hidden, not temporary, with a suffix that can be read."""
    return not name.startswith((".", "_")) and Path(name.removesuffix(".gz")).suffix.lower() in SUFFIXES
