"""Files that come in to be scored, and what was made of them: which are new, which wait, which were refused."""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

KINDS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
METADATA = b"tuneline"


@dataclass(frozen=True)
class Incoming:
    """A file to be scored, as it was when it was found.

    Attributes:
        path: Where it is.
        size: Its bytes.
        mtime_ns: When it was written.
    """

    path: Path
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> "Incoming":
        """Looks at a file."""
        stat = path.stat()
        return cls(path, stat.st_size, stat.st_mtime_ns)

    @property
    def sha256(self) -> str:
        """Of its content."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def known(self, record: dict[str, Any]) -> bool:
        """Whether a record is of this file as it is."""
        return (record.get("size"), record.get("mtime_ns")) == (self.size, self.mtime_ns)

    def as_record(self) -> dict[str, Any]:
        """What the output remembers of it."""
        return {**asdict(self), "path": self.path.name}


@dataclass(frozen=True)
class Outbox:
    """The folder of scored files.

    Attributes:
        folder: ``<file>.parquet`` for each file that was scored, ``<file>.error.json`` for each that was refused.
    """

    folder: Path

    def scored(self, incoming: Incoming) -> Path:
        """Where a file's predictions go."""
        return self.folder / f"{incoming.path.name}.parquet"

    def refused(self, incoming: Incoming) -> Path:
        """Where it says why a file was refused."""
        return self.folder / f"{incoming.path.name}.error.json"

    def has(self, incoming: Incoming) -> bool:
        """Whether this file, as it is, was scored or refused before."""
        error = self.refused(incoming)
        if error.exists() and incoming.known(json.loads(error.read_text(encoding="utf-8"))):
            return True
        done = self.scored(incoming)
        return done.exists() and incoming.known(record_of(done))

    def refuse(self, incoming: Incoming, reason: str) -> None:
        """Writes down why a file was not scored, so that it is not tried again until it changes."""
        target = self.refused(incoming)
        partial = target.with_name(f".{target.name}.partial")
        partial.write_text(json.dumps({**incoming.as_record(), "error": reason}, indent=2) + "\n", encoding="utf-8")
        partial.replace(target)

    def latest(self) -> Iterator[dict[str, Any]]:
        """Records of the scored files, the latest first."""
        for path in sorted(self.folder.glob("[!.]*.parquet"), key=lambda path: path.stat().st_mtime_ns, reverse=True):
            yield record_of(path)


def record_of(scored: Path) -> dict[str, Any]:
    """What a scored file remembers: its source, the model, counts of its rows. Empty for a file of another origin."""
    try:
        metadata = pq.read_metadata(scored).metadata or {}  # the schema has only what was known before the first row
    except pa.ArrowInvalid:
        return {}
    return dict(json.loads(metadata.get(METADATA, b"{}")))


def new_files(inbox: Path, outbox: Outbox, settle_seconds: float) -> list[Incoming]:
    """Files that were not scored yet, the oldest first. One that is still being written waits for the next time."""
    if not inbox.is_dir():
        return []
    found = [Incoming.of(path) for path in sorted(inbox.iterdir()) if path.is_file() and is_data(path.name)]
    settled = [one for one in found if time.time() - one.mtime_ns / 1e9 >= settle_seconds]
    return sorted((one for one in settled if not outbox.has(one)), key=lambda one: one.mtime_ns)


def is_data(name: str) -> bool:
    """Whether a file's name is one of data: not hidden, not half-written, of a kind that can be read."""
    return not name.startswith((".", "_")) and Path(name.removesuffix(".gz")).suffix.lower() in KINDS


def columns_of(texts: Sequence[str], keep: Sequence[str]) -> list[str]:
    """Columns to ask ``tuneline predict`` for: the texts, for the counts, and those to keep."""
    return list(dict.fromkeys([*texts, *keep]))
