"""The archive: the inputs that were scored, each under the stem of its result. From here they can be scored again."""

import errno
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from flows.scoring.inbox import Archived, Incoming, Outbox, data_files
from tuneline.files import replace_file
from tuneline.records.scored import ScoredRecord, scored_record


class ChangedError(Exception):
    """A file changed, or was removed, while it was scored."""


@dataclass(frozen=True)
class Archive:
    """The folder of scored inputs.

    Attributes:
        root: The repository.
        folder: The folder, relative to the repository; ``None`` if inputs stay in the inbox.
    """

    root: Path
    folder: Path | None

    def place(self, incoming: Incoming, number: int) -> str | None:
        """Return the path of a file in the archive, relative to the repository, if its result has this number.

        ``tickets.csv`` for ``tickets.csv.parquet``, ``tickets.csv.2.csv`` for ``tickets.csv.2.parquet``: the suffix tells the format.
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
        """Move a file into the archive, as it was when it was scored. A kill leaves it in one of the two folders, or whole in both.

        Raises:
            ChangedError: It changed after it was scored; it is still in the inbox.
            DiskError: The archive is on another file system, which is full.
            OSError: The archive cannot be written.
        """
        target = self.root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if incoming.path.is_symlink() or not _renamed(incoming.path, target):
            with replace_file(target) as partial:
                shutil.copy2(incoming.path, partial)
                if not incoming.unchanged:
                    raise ChangedError("It changed after it was scored.")
            incoming.path.unlink()
        elif (moved := Incoming.find(target)) is None or (moved.size, moved.mtime_ns) != (incoming.size, incoming.mtime_ns):
            os.link(target, incoming.path)  # fails if yet another file has come
            target.unlink()
            raise ChangedError("It changed after it was scored.")

    def complete(self, inbox: Path, outbox: Outbox) -> list[str]:
        """Move the files whose results are complete, but which a killed run left in the inbox.

        Returns:
            The problems.
        """
        problems, numbers = [], outbox.numbers()
        for incoming in data_files(inbox):
            if (record := outbox.record(incoming, numbers)) and record.archived:
                try:
                    self._complete(incoming, record, record.archived)
                except Exception as error:
                    problems.append(not_archived(incoming, error))
        return problems

    def _complete(self, incoming: Incoming, record: ScoredRecord, place: str) -> None:
        if incoming.sha256 != record.sha256:
            raise ChangedError("It has the name, size and time of a file that was scored, but another content. `touch` it.")
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


@dataclass(frozen=True)
class Selection:
    """The archived files that are scored again.

    Attributes:
        names: Patterns of their names, for example ``tickets-*.csv``.
        days: Days since they were first scored, at most; ``None`` for any number.
    """

    names: Sequence[str]
    days: float | None


def archived_files(root: Path, outbox: Outbox, commit: str, selection: Selection) -> list[Archived]:
    """List the selected inputs whose last result is not by the model of a commit, in the order in which they were first scored."""
    first: dict[str, float] = {}
    last: dict[str, tuple[str, ScoredRecord]] = {}
    for stem, numbers in outbox.numbers().items():
        for path in (outbox.scored(stem, number) for number in numbers):
            if (file := Incoming.find(path)) and (record := scored_record(path)) and record.archived:
                first.setdefault(record.archived, file.mtime_ns / 1e9)
                last[record.archived] = stem, record
    since = 0.0 if selection.days is None else time.time() - selection.days * 86400
    return [
        Archived(found.path, found.size, found.mtime_ns, record, stem)
        for place, (stem, record) in sorted(last.items(), key=lambda one: first[one[0]])
        if record.commit != commit and first[place] >= since and any(fnmatch(record.path, name) for name in selection.names)
        if (found := Incoming.find(root / place))
    ]
