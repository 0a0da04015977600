"""The inbox of files to score, the outbox with their results, and the archive of the scored files.

The drop folders of flow ``ingest`` have the same rules: what is a file, when it is complete, and that a file
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Self

import psutil

from tuneline.core.hashes import file_hash
from tuneline.core.written_records import write_record
from tuneline.predict.scored import FileRecord, ScoredRecord, TakenRecord, scored_record
from tuneline.readers.files import not_a_file
from tuneline.readers.formats import ENDINGS
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.terminal import visible

LONGEST_NAME = 200
"""Bytes of a name in the outbox before its suffix.

File systems allow 255, and a partial file has a longer name than the file.
"""
_RESULT = re.compile(r"(?P<stem>[^.].*?)(?:\.(?P<number>[2-9]|[1-9][0-9]+))?\.parquet", re.DOTALL)
"""Name of a result.

A stem ends like the name of a data file or with a hash, so ``NAME.2`` is never the stem of another file.
"""
ResultNumbers = Mapping[str, Sequence[int]]
"""Numbers of the results of each stem, ascending."""


class RefusedRecord(FileRecord):
    """``<file>.error.json``: a file that cannot be scored."""

    error: str


def _shown(path: Path) -> str:
    """Return the name of a file on one line, without what a terminal obeys.

    Who may write in an inbox must not write lines of a log.
    """
    name = visible(os.fsencode(path.name).decode(errors="backslashreplace"))
    return name.replace("\n", "\\n").replace("\t", "\\t")


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
        if not stat.S_ISREG(status.st_mode):
            return None
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    @property
    def name(self) -> str:
        """Name of the file, with control characters escaped.

        Bytes that are not UTF-8 are escaped, too, because neither JSON nor Prefect's API takes them.
        """
        return _shown(self.path)

    @property
    def stem(self) -> str:
        """Name of its results without number and suffix.

        It is the name of the file, if a file system takes that, else a shorter name with a hash.
        """
        name_in_folder = os.fsencode(self.path.name)
        name = self.name.encode()
        if name == name_in_folder and len(name_in_folder) <= LONGEST_NAME:
            return self.name
        digest = hashlib.sha256(name_in_folder).hexdigest()[:16]
        return f"{name[: LONGEST_NAME - 17].decode(errors='ignore')}~{digest}"

    @property
    def unchanged(self) -> bool:
        """True if it is still as it was found."""
        file = Incoming.find(self.path)
        if file is None:
            return False
        return file.size == self.size and file.mtime_ns == self.mtime_ns and file.ctime_ns == self.ctime_ns

    @property
    def sha256(self) -> str:
        """Hash of its content."""
        return file_hash(self.path)

    def as_record(self) -> dict[str, Any]:
        """Return the values of ``FileRecord``."""
        return {"path": self.name, "size": self.size, "mtime_ns": self.mtime_ns}

    def matches(self, record: FileRecord | None) -> bool:
        """Return True if a record is of this file in its present state."""
        if record is None:
            return False
        return record.model_dump(include=set(FileRecord.model_fields)) == self.as_record()


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
        if number == 1:
            return self.folder / f"{stem}.parquet"
        return self.folder / f"{stem}.{number}.parquet"

    def refused(self, incoming: Incoming) -> Path:
        """Return the path of the reason why a file was refused."""
        return self.folder / f"{incoming.stem}.error.json"

    def numbers(self) -> ResultNumbers:
        """Read the numbers of all results."""
        if not self.folder.is_dir():
            return {}
        numbers = defaultdict(list)
        for path in self.folder.iterdir():
            match = _RESULT.fullmatch(path.name)
            if match:
                numbers[match["stem"]].append(int(match["number"] or 1))
        return {stem: sorted(stem_numbers) for stem, stem_numbers in numbers.items()}

    def record(self, incoming: Incoming, numbers: ResultNumbers) -> ScoredRecord | None:
        """Return the record of the last result of a file in its present state; ``None`` if none is whole."""
        for number in reversed(numbers.get(incoming.stem, ())):
            record = scored_record(self.scored(incoming.stem, number))
            if incoming.matches(record):
                return record
        return None

    def has(self, incoming: Incoming, numbers: ResultNumbers | None = None) -> bool:
        """Return True if this file, in its present state, was scored or refused before.

        A damaged record says nothing. ``numbers`` are read if they are missing.
        """
        refused = RefusedRecord.read_if_valid(self.refused(incoming))
        if incoming.matches(refused):
            return True
        if numbers is None:
            numbers = self.numbers()
        return self.record(incoming, numbers) is not None

    def refuse(self, incoming: Incoming, reason: str) -> None:
        """Record why a file was not scored: it is left alone until it changes or the record is deleted."""
        write_record(self.refused(incoming), RefusedRecord(**incoming.as_record(), error=reason))

    def latest(self) -> Iterator[ScoredRecord]:
        """Yield the records of the scored files, the latest first."""
        files = regular_files(self.folder.glob("[!.]*.parquet"))
        for file in sorted(files, key=lambda file: file.mtime_ns, reverse=True):
            record = scored_record(file.path)
            if record:
                yield record


def new_files(inbox: Path, outbox: Outbox, settle_seconds: float) -> list[Incoming]:
    """List the files that can be scored, the oldest first.

    Files that are still being written are left for the next run.
    """
    files = settled(unscored(inbox, outbox), settle_seconds)
    return sorted(files, key=lambda file: (file.mtime_ns, file.path))


def unscored(inbox: Path, outbox: Outbox) -> list[Incoming]:
    """List the files that were neither scored nor refused, in no order."""
    numbers = outbox.numbers()
    return [file for file in incoming_files(inbox) if not outbox.has(file, numbers)]


def incoming_files(inbox: Path) -> list[Incoming]:
    """List the files of an inbox, in no order."""
    if not inbox.is_dir():
        return []
    return regular_files(path for path in inbox.iterdir() if is_data(path.name))


def regular_files(paths: Iterable[Path]) -> list[Incoming]:
    """Read the states of files; what is gone, out of reach or not a regular file is left out."""
    files = []
    for path in paths:
        file = Incoming.find(path)
        if file is not None:
            files.append(file)
    return files


def unread(folder: Path, reads: Callable[[str], object]) -> dict[Path, str]:
    """Describe what is in an inbox, but is never read; hidden names and other folders are left out.

    Args:
        folder: The inbox, which may be missing.
        reads: Tells by the name of a file if it is read.
    """
    problems: dict[Path, str] = {}
    if not folder.is_dir():
        return problems
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        if path.is_symlink():
            problems[path] = f"{_shown(path)} is a link, which is not followed"
        elif reads(path.name):
            reason = not_a_file(path)
            if reason:
                problems[path] = f"{_shown(path)} {reason}"
        elif not path.is_dir():
            problems[path] = f"{_shown(path)} has an ending that is not read"
    return problems


def settled(files: Sequence[Incoming], seconds: float) -> list[Incoming]:
    """Return the files that did not change in the last ``seconds`` and that no process is known to write.

    A time in the future, from another machine's clock, does not tell when the file changed: such files are
    watched for ``seconds``.
    """
    now = time.time_ns()
    in_future = [file for file in files if file.mtime_ns > now]
    if in_future:
        time.sleep(seconds)
    unchanged = [file for file in in_future if Incoming.find(file.path) == file]
    unchanged += [file for file in files if now - file.mtime_ns >= seconds * 1e9]
    return [file for file in unchanged if not is_open(file.path)]


def is_open(path: Path) -> bool:
    """Return True if a process has a file open for writing.

    It is False also where that cannot be known, for example if the file is another user's. Linux refuses a
    lease for reading while the file is written. A lease that is held for an instant delays a writer by as
    much.
    """
    if sys.platform != "linux":
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False

    try:
        # If a writer opens the file now, the kernel signals that to this process: by SIGURG, which is
        # ignored, instead of SIGIO, which would end it.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        # File systems of other machines refuse leases for reasons of their own.
        return error.errno == errno.EAGAIN and not _file_system(path).startswith(("nfs", "cifs", "smb"))
    finally:
        os.close(descriptor)
    return False


def _file_system(path: Path) -> str:
    """Return the type of the file system of a file, such as ``ext4`` or ``nfs4``; "" if it is unknown."""
    types: dict[Path, str] = {}
    for partition in psutil.disk_partitions(all=True):
        types[Path(partition.mountpoint)] = partition.fstype
    for folder in path.resolve().parents:
        if folder in types:
            return types[folder]
    return ""


def was_written_on(path: Path, taken: TakenRecord) -> bool:
    """Return True if a file has another content than when it was read.

    A writer that paused has gone on, in the file that was moved.
    """
    file = Incoming.find(path)
    if file is None or (file.size == taken.size and file.mtime_ns == taken.mtime_ns):
        return False
    return file.sha256 != taken.sha256


def unused(target: Path, digest: str) -> Path:
    """Return a free path for a file that is moved: ``target``, else its name after the start of a hash."""
    if os.path.lexists(target):
        return target.with_name(f"{digest[:8]}-{target.name}")
    return target


def is_data(name: str) -> bool:
    """Return True if a file of this name has data: not hidden, not temporary, with a known suffix."""
    if name.startswith((".", "_")):
        return False
    return name.lower().endswith(ENDINGS)


class ChangedError(Exception):
    """A file changed, or was removed, while it was scored."""


@dataclass(frozen=True)
class Archive:
    """The folder of scored inputs, relative to the repository; ``None`` if inputs stay in the inbox."""

    root: Path
    folder: Path | None

    def place(self, incoming: Incoming, number: int) -> str | None:
        """Return the path of a file in the archive, relative to the repository, for the number of its result.

        ``tickets.csv`` for ``tickets.csv.parquet``, ``tickets.csv.2.csv`` for ``tickets.csv.2.parquet``: the
        suffix tells the format.
        """
        if self.folder is None:
            return None
        name = incoming.stem
        if number != 1:
            name += f".{number}"
        name_in_inbox = incoming.path.name
        if name != name_in_inbox:
            name += Path(name_in_inbox.removesuffix(".gz")).suffix
            if name_in_inbox.endswith(".gz"):
                name += ".gz"
        return (self.folder / name).as_posix()

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
        """Move the files whose results are complete, but which a killed run left in the inbox.

        Return the problems.
        """
        problems = []
        numbers = outbox.numbers()
        for incoming in incoming_files(inbox):
            record = outbox.record(incoming, numbers)
            if record and record.archived:
                try:
                    self._complete(incoming, record, record.archived)
                except Exception as error:
                    problems.append(not_archived(incoming, error))
        return problems

    def take_back(self, inbox: Path, outbox: Outbox) -> list[str]:
        """Move files that were written on after they were scored back to the inbox, to be scored again.

        Return what was done, in words.
        """
        messages = []
        for stem, numbers in outbox.numbers().items():
            for number in numbers:
                record = scored_record(outbox.scored(stem, number))
                if not record or not record.archived:
                    continue
                archived = self.root / record.archived
                if not was_written_on(archived, record):
                    continue
                try:
                    archived.rename(unused(inbox / record.path, record.sha256))
                    messages.append(f"{record.path} was written on after it was scored: it is scored again.")
                except OSError as error:
                    messages.append(
                        f"{record.archived} was written on after it was scored, and cannot be scored again:"
                        f" {error}"
                    )
        return messages

    def _complete(self, incoming: Incoming, record: ScoredRecord, place: str) -> None:
        """Move a file whose result is complete to its place, or remove it if it is there already."""
        if incoming.sha256 != record.sha256:
            raise ChangedError(
                "It has the name, size and time of a file that was scored, but another content. `touch` it."
            )
        archived = Incoming.find(self.root / place)
        if archived is None:
            self.move(incoming, place)
        elif archived.sha256 == record.sha256:
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
    """List the archived inputs that are to be scored again, in the order in which they were first scored.

    Args:
        root: The repository.
        outbox: The folder with the results.
        commit: An input whose last result is by the model of this commit is left out.
        names: Names of the inputs, or patterns of names.
        days: Inputs that were first scored earlier are left out; ``None`` for no limit.
    """
    # the times of the first results and the records of the last ones
    first: dict[str, float] = {}
    last: dict[str, tuple[str, ScoredRecord]] = {}
    for stem, numbers in outbox.numbers().items():
        for number in numbers:
            path = outbox.scored(stem, number)
            result = Incoming.find(path)
            record = scored_record(path) if result else None
            if result and record and record.archived:
                first.setdefault(record.archived, result.mtime_ns / 1e9)
                last[record.archived] = (stem, record)

    # the inputs
    since = 0.0 if days is None else time.time() - days * 86400
    archived = []
    for place in sorted(last, key=lambda place: first[place]):
        stem, record = last[place]
        if record.commit == commit or first[place] < since:
            continue
        if not any(fnmatch(record.path, name) for name in names):
            continue
        file = Incoming.find(root / place)
        if file:
            archived.append(Archived(file.path, file.size, file.mtime_ns, file.ctime_ns, record, stem))
    return archived
