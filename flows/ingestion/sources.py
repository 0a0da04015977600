"""What each source has: local files to read, from a drop folder, a URL or a database."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, Engine, NullPool, bindparam, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.types import NullType

from flows.ingestion.known import ending_of
from flows.ingestion.ledger import Ledger, Read
from flows.scoring.inbox import Incoming
from flows.settings import IngestSource
from tuneline.core.errors import DataError, StageError
from tuneline.core.files import file_hash
from tuneline.readers.files import shown, version_of
from tuneline.readers.rows import ENDINGS

ROWS = 10_000
"""Rows that are fetched at a time."""
PROGRESS = 100_000
"""Rows between two lines of progress."""
_SINCE = re.compile(r"(?<!:):since\b")


def run_query(source: IngestSource, sql: Path, target: Path, since: str | int | float | None, log: Callable[[str], None]) -> Any:
    """Write the rows of a query to a JSON Lines file; return the largest value of the column ``watermark``, ``since`` if there is none.

    Args:
        source: The source.
        sql: File with one ``SELECT``; ``:since`` in it is a bind parameter.
        target: The file to write.
        since: Value of ``:since``.
        log: Called with lines of progress.

    Raises:
        DataError: The SQL file, the variable or the column ``watermark`` is missing.
    """
    if not sql.is_file():
        raise DataError(f"{source.query} is missing.", "It is the SQL file that ingest.sources in conf/flows.yaml names.")
    query = sql.read_text(encoding="utf-8")
    statement = text(query)
    if _SINCE.search(query):
        # Without a type: the database takes the value for that of the column it is compared with.
        statement = statement.bindparams(bindparam("since", since, type_=NullType()))
    largest: Any = None
    rows = 0
    with _engine(source).connect() as connection, target.open("w", encoding="utf-8") as file:
        for values in _read_only(connection).execute(statement).mappings():
            if source.watermark:
                largest = _larger(source, largest, values)
            file.write(json.dumps({name: _plain(value) for name, value in values.items()}, ensure_ascii=False) + "\n")
            rows += 1
            if rows % PROGRESS == 0:
                log(f"{source.name}: {rows:,} rows fetched")
    return since if largest is None else _plain(largest)


def _engine(source: IngestSource) -> Engine:
    address = os.environ.get(str(source.database))
    if not address:
        hint = f"The worker needs it, with an SQLAlchemy URL: source {source.name} of ingest names it."
        raise DataError(f"The environment variable {source.database} is not set.", hint)
    url = make_url(address)
    if url.drivername in {"postgresql", "postgres"}:
        url = url.set(drivername="postgresql+psycopg")  # SQLAlchemy's default is another driver, which is not installed
    return create_engine(url, poolclass=NullPool, hide_parameters=True)


def _read_only(connection: Connection) -> Connection:
    """Make the transaction read-only where the database can; everywhere, it is never committed. Rows come in batches."""
    options: dict[str, Any] = {"stream_results": True, "max_row_buffer": ROWS}
    if connection.dialect.name == "postgresql":
        options["postgresql_readonly"] = True
    connection = connection.execution_options(**options)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = ON")
    return connection


def _larger(source: IngestSource, largest: Any, values: Any) -> Any:
    if source.watermark not in values:
        raise DataError(f"{source.query} gives no column {source.watermark!r} (watermark).", f"It gives {', '.join(values)}.")
    value = values[source.watermark]
    return value if largest is None or (value is not None and value > largest) else largest


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; times as ISO 8601 with a space, which every database reads."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)


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
    """Bring what a source has to this machine, into an empty folder for copies. Drop folders and SQL files are relative to ``root``."""
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
            yield Delivery(Read(name=source.query.as_posix(), sha256=file_hash(target)), target, watermark=watermark)


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
        yield Delivery(Read(name=incoming.name, sha256=file_hash(copy)), copy, incoming)


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
    if missing := next((variable for variable in source.options.values() if variable not in os.environ), None):
        hint = f"The worker needs it: source {source.name} of ingest names it."
        raise DataError(f"The environment variable {missing} is not set.", hint)
    options = {name: os.environ[variable] for name, variable in source.options.items()}
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
        yield Delivery(Read(name=name, sha256=file_hash(copy), etag=etag), copy)
