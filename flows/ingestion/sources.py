"""What each source has: local files to read, from a drop folder, a URL or a database."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from flows.ingestion.database import run_query
from flows.ingestion.ledger import Ledger, Read
from flows.ingestion.reading import ending_of
from flows.scoring.inbox import Incoming
from flows.settings.ingest import IngestSource
from tuneline.errors import DataError, StageError
from tuneline.readers.rows import ENDINGS
from tuneline.readers.urls import sha256, shown, version_of

Log = Callable[[str], None]


@dataclass(frozen=True)
class Delivery:
    """A file of a source.

    Attributes:
        read: Its name and hash.
        path: The file on this machine.
        incoming: The file of a drop folder, as it was when it was read.
        watermark: Value of ``:since`` after a query.
    """

    read: Read
    path: Path
    incoming: Incoming | None = None
    watermark: str | int | float | None = None


@dataclass
class Collected:
    """What a source has.

    Attributes:
        deliveries: Its files.
        problems: Files that could not be had; the others are not held up.
    """

    deliveries: list[Delivery] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def collect(source: IngestSource, root: Path, scratch: Path, ledger: Ledger, log: Log) -> Collected:
    """Bring what a source has to this machine.

    Args:
        source: The source.
        root: The repository, which drop folders and SQL files are relative to.
        scratch: An empty folder for copies.
        ledger: What was read before.
        log: Called with each message.
    """
    collected = Collected()
    try:
        for delivery in _deliveries(source, root, scratch, ledger, log):
            collected.deliveries.append(delivery)
    except StageError as error:
        collected.problems.append(f"{source.name}: {error}")
    except Exception as error:  # fsspec and database drivers raise whatever they like; a source that is away stops no other
        message = shown(str(error).partition("\n")[0])
        collected.problems.append(f"{source.name}: {type(error).__name__}: {message}")
    return collected


def _deliveries(source: IngestSource, root: Path, scratch: Path, ledger: Ledger, log: Log) -> Iterator[Delivery]:
    if source.folder:
        yield from folder_files(source, root / source.folder, scratch, log)
    elif source.url:
        yield from url_files(source, scratch, ledger)
    elif source.query:
        watermark = ledger.watermark(source.name)
        since = source.since if watermark is None else watermark
        target = scratch / "rows.jsonl"
        watermark = run_query(source, root / source.query, target, since, log)
        if target.stat().st_size:
            yield Delivery(Read(name=source.query.as_posix(), sha256=sha256(target)), target, watermark=watermark)


def folder_files(source: IngestSource, folder: Path, scratch: Path, log: Log) -> Iterator[Delivery]:
    """Copy the files of a drop folder, by name. One that still changes is left for the next run, a hidden one is not looked at.

    Raises:
        DataError: There is no such folder.
    """
    if not folder.is_dir():
        raise DataError(f"{source.folder} is not a folder.", f"`mkdir -p {source.folder}`, or correct ingest.sources in conf/flows.yaml.")
    for path in sorted(folder.iterdir()):
        incoming = Incoming.find(path)
        if incoming is None or path.name.startswith((".", "_")):
            continue
        if ending_of(path.name) is None:
            log(f"{source.name}: {incoming.name} is not read: its name ends with none of {', '.join(ENDINGS)}.")
            continue
        copy = _copy(incoming, scratch / path.name, source.settle_seconds)
        if copy is None:
            log(f"{source.name}: {incoming.name} is still being written; the next run reads it.")
            continue
        yield Delivery(Read(name=incoming.name, sha256=sha256(copy)), copy, incoming)


def _copy(incoming: Incoming, target: Path, settle_seconds: float) -> Path | None:
    """Copy a file, so that what is read is what is hashed; ``None`` if it changed lately or meanwhile."""
    age = time.time_ns() - incoming.mtime_ns
    if 0 <= age < settle_seconds * 1e9:
        return None
    shutil.copyfile(incoming.path, target)
    return target if Incoming.find(incoming.path) == incoming else None


def url_files(source: IngestSource, scratch: Path, ledger: Ledger) -> Iterator[Delivery]:
    """Download the files of a URL that are not those of the last run, by their ETags.

    Raises:
        DataError: A storage option's variable is not set, no file matches, or its name has an unknown ending.
    """
    from fsspec.core import url_to_fs

    address = str(source.url)
    options = {name: _variable(source, variable) for name, variable in source.options.items()}
    filesystem, path = url_to_fs(address, **options)
    paths = sorted(filesystem.glob(path)) if "*" in path else [path]
    if not paths:
        raise DataError(f"{shown(address)} matches no file.", "Correct the pattern in ingest.sources of conf/flows.yaml.")
    seen = ledger.etags(source.name)
    for number, one in enumerate(paths):
        name = shown(address if one == path else filesystem.unstrip_protocol(one))
        ending = ending_of(PurePosixPath(urlsplit(one).path).name)
        if ending is None:
            raise DataError(f"{name}: its name ends with none of {', '.join(ENDINGS)}.", "Name a file of labelled rows.")
        etag = version_of(filesystem.info(one))
        if etag is not None and seen.get(name) == etag:
            continue
        copy = scratch / f"{number}{ending}"
        filesystem.get_file(one, str(copy))
        yield Delivery(Read(name=name, sha256=sha256(copy), etag=etag), copy)


def _variable(source: IngestSource, name: str) -> str:
    if name not in os.environ:
        raise DataError(f"The environment variable {name} is not set.", f"The worker needs it: source {source.name} of ingest names it.")
    return os.environ[name]
