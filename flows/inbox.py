"""The files to score, and the folder of the scored ones: which files are new, and which were scored or refused before.

The drop folders of flow ``ingest`` have the same rules: what is a file, when it is complete, and that one
that was taken too early is read again.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import signal
import stat
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Self

import psutil

from tuneline.core.atomic_files import replace_file
from tuneline.core.hashes import file_hash
from tuneline.core.terminal import visible
from tuneline.project.scored import FileRecord, ScoredRecord, TakenRecord, scored_record
from tuneline.readers.files import not_a_file

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
LONGEST_NAME = 200
"""Bytes of a name in the outbox before its suffix.

File systems allow 255, and a partial file has a longer name than the file.
"""
_RESULT = re.compile(r"(?P<stem>[^.].*?)(?:\.(?P<number>[2-9]|[1-9][0-9]+))?\.parquet", re.DOTALL)
"""Name of a result.

A stem ends like the name of a data file or with a hash, so ``NAME.2`` is never the stem of another file.
"""
Numbers = Mapping[str, Sequence[int]]
"""Numbers of the results of each stem, ascending."""


class RefusedRecord(FileRecord):
    """``<file>.error.json``: a file that cannot be scored."""

    error: str


def _shown(path: Path) -> str:
    """Return its name on one line, without what a terminal obeys: who may write in an inbox must not write lines of a log."""
    return (
        visible(os.fsencode(path.name).decode(errors="backslashreplace"))
        .replace("\n", "\\n")
        .replace("\t", "\\t")
    )


@dataclass(frozen=True)
class Incoming:
    """A file to score, with size in bytes and time of its last change as it was when it was found.

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
        return (
            cls(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            if stat.S_ISREG(status.st_mode)
            else None
        )

    @property
    def name(self) -> str:
        """Its name; control characters are escaped, and bytes that are not UTF-8, because neither JSON nor Prefect's API takes them."""
        return _shown(self.path)

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
        file = Incoming.find(self.path)
        return file is not None and (file.size, file.mtime_ns, file.ctime_ns) == (
            self.size,
            self.mtime_ns,
            self.ctime_ns,
        )

    @property
    def sha256(self) -> str:
        """Hash of its content."""
        return file_hash(self.path)

    def as_record(self) -> dict[str, Any]:
        """Return the values of ``FileRecord``."""
        return {"path": self.name, "size": self.size, "mtime_ns": self.mtime_ns}

    def matches(self, record: FileRecord | None) -> bool:
        """Return True if a record is of this file in its present state."""
        return (
            record is not None and record.model_dump(include=set(FileRecord.model_fields)) == self.as_record()
        )


@dataclass(frozen=True)
class Archived(Incoming):
    """An archived input, which is scored again, with the record of its last result, and the stem of its results."""

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
        folder: Contains the results: ``<file>.parquet``, later ones ``<file>.2.parquet``, ...; and
            ``<file>.error.json`` for a refused file.
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
        records = (
            scored_record(self.scored(incoming.stem, number))
            for number in reversed(numbers.get(incoming.stem, ()))
        )
        return next(filter(incoming.matches, records), None)

    def has(self, incoming: Incoming, numbers: Numbers | None = None) -> bool:
        """Return True if this file, in its present state, was scored or refused before.

        A damaged record says nothing.
        """
        refused = RefusedRecord.read_if_valid(self.refused(incoming))
        return (
            incoming.matches(refused)
            or self.record(incoming, self.numbers() if numbers is None else numbers) is not None
        )

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
    """List the files that can be scored, the oldest first.

    Those that are still being written are left for the next run.
    """
    return sorted(
        settled(unscored(inbox, outbox), settle_seconds), key=lambda file: (file.mtime_ns, file.path)
    )


def unscored(inbox: Path, outbox: Outbox) -> list[Incoming]:
    """List the files that were neither scored nor refused, in no order."""
    numbers = outbox.numbers()
    return [file for file in incoming_files(inbox) if not outbox.has(file, numbers)]


def incoming_files(inbox: Path) -> list[Incoming]:
    """List the files of an inbox, in no order."""
    paths = inbox.iterdir() if inbox.is_dir() else ()
    return [file for path in paths if is_data(path.name) and (file := Incoming.find(path))]


def unread(folder: Path, reads: Callable[[str], object]) -> dict[Path, str]:
    """Describe what is in an inbox whose files are read by their names, but is never read; hidden names and other folders are left out."""
    found = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        reason = (
            not_a_file(path)
            if reads(path.name)
            else None
            if path.is_dir()
            else "has an ending that is not read"
        )
        if path.is_symlink():
            reason = "is a link, which is not followed"
        if reason and not path.name.startswith((".", "_")):
            found[path] = f"{_shown(path)} {reason}"
    return found


def settled(files: Sequence[Incoming], seconds: float) -> list[Incoming]:
    """Return the files that did not change in the last ``seconds``, and that nobody writes, as far as the system tells.

    A time in the future, from another machine's clock, does not tell when the file changed: such files are
    watched for ``seconds``.
    """
    now = time.time_ns()
    future = [file for file in files if file.mtime_ns > now]
    if future:
        time.sleep(seconds)
    unchanged = [file for file in future if Incoming.find(file.path) == file]
    return [
        file
        for file in (*unchanged, *(file for file in files if now - file.mtime_ns >= seconds * 1e9))
        if not is_open(file.path)
    ]


def is_open(path: Path) -> bool:
    """Return True if a process has a file open for writing; False also where that cannot be known, as of another user's file.

    Linux refuses a lease for reading while it is. A lease that is held for an instant delays a writer by as
    much.
    """
    if sys.platform != "linux":
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.fcntl(
            descriptor, fcntl.F_SETSIG, signal.SIGURG
        )  # a writer that opens it now sends SIGIO otherwise, which ends this process
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        types = {
            Path(partition.mountpoint): partition.fstype for partition in psutil.disk_partitions(all=True)
        }
        kind = next((types[folder] for folder in path.resolve().parents if folder in types), "")
        return error.errno == errno.EAGAIN and not kind.startswith(
            ("nfs", "cifs", "smb")
        )  # these refuse for reasons of their own
    finally:
        os.close(descriptor)
    return False


def was_written_on(path: Path, taken: TakenRecord) -> bool:
    """Return True if a file has another content than when it was read: a writer that paused has gone on, in the file that was moved."""
    found = Incoming.find(path)
    return (
        found is not None
        and (found.size, found.mtime_ns) != (taken.size, taken.mtime_ns)
        and found.sha256 != taken.sha256
    )


def unused(target: Path, digest: str) -> Path:
    """Return a path for a file that is moved: ``target``, with the start of a hash before its name if there is another file."""
    return target.with_name(f"{digest[:8]}-{target.name}") if os.path.lexists(target) else target


def is_data(name: str) -> bool:
    """Return True if a file name is that of data: not hidden, not temporary, with a suffix that can be read."""
    return not name.startswith((".", "_")) and Path(name.removesuffix(".gz")).suffix.lower() in SUFFIXES


class ChangedError(Exception):
    """A file changed, or was removed, while it was scored."""


@dataclass(frozen=True)
class Archive:
    """The folder of scored inputs, relative to the repository; ``None`` if inputs stay in the inbox."""

    root: Path
    folder: Path | None

    def place(self, incoming: Incoming, number: int) -> str | None:
        """Return the path of a file in the archive, relative to the repository, if its result has this number.

        ``tickets.csv`` for ``tickets.csv.parquet``, ``tickets.csv.2.csv`` for ``tickets.csv.2.parquet``: the
        suffix tells the format.
        """
        if self.folder is None:
            return None
        own = incoming.path.name
        suffix = Path(own.removesuffix(".gz")).suffix + (".gz" if own.endswith(".gz") else "")
        stem = incoming.stem if number == 1 else f"{incoming.stem}.{number}"
        return (self.folder / (stem if stem == own else f"{stem}{suffix}")).as_posix()

    def has(self, place: str | None) -> bool:
        """Return True if there is a file at this path."""
        return place is not None and os.path.lexists(self.root / place)

    def move(self, incoming: Incoming, place: str) -> None:
        """Move a file into the archive, as it was when it was scored.

        A kill leaves it in one of the two folders, or whole in both.
        """
        if is_open(incoming.path) or not incoming.unchanged:
            raise ChangedError("It changed after it was scored, or is being written.")
        target = self.root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if not _renamed(incoming.path, target):
            with replace_file(target) as partial:
                shutil.copy2(incoming.path, partial)
                if not incoming.unchanged:
                    raise ChangedError("It changed after it was scored.")
            incoming.path.unlink()

    def complete(self, inbox: Path, outbox: Outbox) -> list[str]:
        """Move the files whose results are complete, but which a killed run left in the inbox; return the problems."""
        problems, numbers = [], outbox.numbers()
        for incoming in incoming_files(inbox):
            if (record := outbox.record(incoming, numbers)) and record.archived:
                try:
                    self._complete(incoming, record, record.archived)
                except Exception as error:
                    problems.append(not_archived(incoming, error))
        return problems

    def take_back(self, inbox: Path, outbox: Outbox) -> list[str]:
        """Move the files that were written on after they were scored back to the inbox, to be scored again; return what was done."""
        done = []
        for record in (
            scored_record(outbox.scored(stem, number))
            for stem, numbers in outbox.numbers().items()
            for number in numbers
        ):
            if record and record.archived and was_written_on(archived := self.root / record.archived, record):
                try:
                    archived.rename(unused(inbox / record.path, record.sha256))
                    done.append(f"{record.path} was written on after it was scored: it is scored again.")
                except OSError as error:
                    done.append(
                        f"{record.archived} was written on after it was scored, and cannot be scored again:"
                        f" {error}"
                    )
        return done

    def _complete(self, incoming: Incoming, record: ScoredRecord, place: str) -> None:
        if incoming.sha256 != record.sha256:
            raise ChangedError(
                "It has the name, size and time of a file that was scored, but another content. `touch` it."
            )
        found = Incoming.find(self.root / place)
        if found is None:
            self.move(incoming, place)
        elif found.sha256 == record.sha256:
            incoming.path.unlink()
        else:
            raise ChangedError(f"{place} is another file. Move that away.")


def not_archived(incoming: Incoming, error: Exception) -> str:
    """Return the problem of a file that was scored."""
    return f"not archived {incoming.name}, the next run tries again: {error}"


def _renamed(path: Path, target: Path) -> bool:
    """Rename a file; return False if the target is on another file system."""
    try:
        path.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def archived_files(
    root: Path, outbox: Outbox, commit: str, names: Sequence[str], days: float | None = None
) -> list[Archived]:
    """List the archived inputs whose last result is not by the model of a commit, in the order in which they were first scored.

    Of those, the ones with one of ``names``, which may be patterns, that were first scored in the last so
    many ``days``.
    """
    first: dict[str, float] = {}
    last: dict[str, tuple[str, ScoredRecord]] = {}
    for stem, numbers in outbox.numbers().items():
        for path in (outbox.scored(stem, number) for number in numbers):
            if (file := Incoming.find(path)) and (record := scored_record(path)) and record.archived:
                first.setdefault(record.archived, file.mtime_ns / 1e9)
                last[record.archived] = stem, record
    since = 0.0 if days is None else time.time() - days * 86400
    return [
        Archived(found.path, found.size, found.mtime_ns, found.ctime_ns, record, stem)
        for place, (stem, record) in sorted(last.items(), key=lambda item: first[item[0]])
        if record.commit != commit
        and first[place] >= since
        and any(fnmatch(record.path, name) for name in names)
        if (found := Incoming.find(root / place))
    ]
