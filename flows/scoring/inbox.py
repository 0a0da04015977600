"""The files to score, and the folder of the scored ones: which files are new, and which were scored or refused before."""

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tuneline.files import write_json

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
METADATA = b"tuneline"
"""Key of the record in the metadata of a scored file."""


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
    def of(cls, path: Path) -> "Incoming":
        """Read size and time of a file."""
        stat = path.stat()
        return cls(path, stat.st_size, stat.st_mtime_ns)

    @property
    def sha256(self) -> str:
        """Hash of its content."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def matches(self, record: dict[str, Any]) -> bool:
        """Return True if a record is of this file in its present state."""
        return (record.get("size"), record.get("mtime_ns")) == (self.size, self.mtime_ns)

    def as_record(self) -> dict[str, Any]:
        """Return what the output records about the file."""
        return {**asdict(self), "path": self.path.name}


@dataclass(frozen=True)
class Outbox:
    """The folder of scored files.

    Attributes:
        folder: Contains ``<file>.parquet`` for each scored file and ``<file>.error.json`` for each refused one.
    """

    folder: Path

    def scored(self, incoming: Incoming) -> Path:
        """Return the path of a file's predictions."""
        return self.folder / f"{incoming.path.name}.parquet"

    def refused(self, incoming: Incoming) -> Path:
        """Return the path of the reason why a file was refused."""
        return self.folder / f"{incoming.path.name}.error.json"

    def has(self, incoming: Incoming) -> bool:
        """Return True if this file, in its present state, was scored or refused before."""
        error = self.refused(incoming)
        if error.exists() and incoming.matches(json.loads(error.read_text(encoding="utf-8"))):
            return True
        done = self.scored(incoming)
        return done.exists() and incoming.matches(record_of(done))

    def refuse(self, incoming: Incoming, reason: str) -> None:
        """Record why a file was not scored, so that it is not tried again until it changes."""
        write_json(self.refused(incoming), {**incoming.as_record(), "error": reason})

    def latest(self) -> Iterator[dict[str, Any]]:
        """Yield the records of the scored files, the latest first."""
        for path in sorted(self.folder.glob("[!.]*.parquet"), key=lambda path: path.stat().st_mtime_ns, reverse=True):
            yield record_of(path)


def record_of(scored: Path) -> dict[str, Any]:
    """Return the record of a scored file: its source, the model, counts of its rows. Empty if another program wrote the file."""
    try:
        metadata = pq.read_metadata(scored).metadata or {}  # the schema has only what was known before the first row
    except pa.ArrowInvalid:
        return {}
    return dict(json.loads(metadata.get(METADATA, b"{}")))


def new_files(inbox: Path, outbox: Outbox, settle_seconds: float) -> list[Incoming]:
    """List the files that were not scored yet, the oldest first. Files that changed recently are left for the next run."""
    if not inbox.is_dir():
        return []
    files = [Incoming.of(path) for path in sorted(inbox.iterdir()) if path.is_file() and is_data(path.name)]
    settled = [one for one in files if time.time() - one.mtime_ns / 1e9 >= settle_seconds]
    return sorted((one for one in settled if not outbox.has(one)), key=lambda one: one.mtime_ns)


def is_data(name: str) -> bool:
    """Return True if a file name is that of data: not hidden, not temporary, with a suffix that can be read."""
    return not name.startswith((".", "_")) and Path(name.removesuffix(".gz")).suffix.lower() in SUFFIXES
