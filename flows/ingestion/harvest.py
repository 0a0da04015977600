"""What the sources have, drop folders, URLs and databases: their new rows, as one batch file for each."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, NullPool, bindparam, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.types import NullType

from flows.inbox import Incoming, settled, unread
from flows.ingestion.conflicts import Contradiction, Contradictions, identity_of
from flows.ingestion.known import (
    BatchColumns,
    ClassNames,
    DataLayout,
    NewRowSelection,
    RowHashes,
    RowStatus,
    ending_of,
    read_known,
)
from flows.ingestion.ledger import PLACES, Ingested, Ledger, Read
from tuneline.core.atomic_files import replace_file
from tuneline.core.errors import DataError, StageError
from tuneline.core.hashes import file_hash
from tuneline.core.tables import ROW_GROUP, numpy_values, rebatch, write_batches
from tuneline.params.data import DataParams, FilesParams
from tuneline.project.drop_folder import labelled_files
from tuneline.readers.files import shown, version_of
from tuneline.readers.inputs import Input, open_table
from tuneline.readers.labelled import LABEL, POSITION, LabelledColumns, has_text, labelled_rows, plain_text
from tuneline.readers.rows import ENDINGS, BadRows, RowProblem
from tuneline.settings import IngestSource

Log = Callable[[str], None]
FETCHED_ROWS = 10_000
"""Rows that are fetched at a time."""
PROGRESS = 100_000
"""Rows between two lines of progress."""
_SINCE = re.compile(r"(?<!:):since\b")


def run_query(
    source: IngestSource, sql: Path, target: Path, since: str | int | float | None, log: Callable[[str], None]
) -> Any:
    """Write the rows of a query to a JSON Lines file; return the largest value of the column ``watermark``, ``since`` if there is none.

    The SQL file has one ``SELECT``; ``:since`` in it is a bind parameter.

    Raises:
        DataError: The SQL file, the variable or the column ``watermark`` is missing.
    """
    if not sql.is_file():
        raise DataError(
            f"{source.query} is missing.", "It is the SQL file that ingest.sources in conf/flows.yaml names."
        )
    query = sql.read_text(encoding="utf-8")
    statement = text(query)
    if _SINCE.search(query):
        # Without a type: the database takes the value for that of the column it is compared with.
        statement = statement.bindparams(bindparam("since", since, type_=NullType()))
    largest: Any = None
    with _engine(source).connect() as connection, target.open("w", encoding="utf-8") as file:
        for rows, values in enumerate(_read_only(connection).execute(statement).mappings(), start=1):
            if source.watermark:
                largest = _larger(source, largest, values)
            file.write(
                json.dumps({name: _plain(value) for name, value in values.items()}, ensure_ascii=False) + "\n"
            )
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
        url = url.set(
            drivername="postgresql+psycopg"
        )  # SQLAlchemy's default is another driver, which is not installed
    return create_engine(url, poolclass=NullPool, hide_parameters=True)


def _read_only(connection: Connection) -> Connection:
    """Make the transaction read-only where the database can; everywhere, it is never committed.

    Rows come in batches.
    """
    options: dict[str, Any] = {"stream_results": True, "max_row_buffer": FETCHED_ROWS}
    if connection.dialect.name == "postgresql":
        options["postgresql_readonly"] = True
    connection = connection.execution_options(**options)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA query_only = ON")
    return connection


def _larger(source: IngestSource, largest: Any, values: Any) -> Any:
    if source.watermark not in values:
        raise DataError(
            f"{source.query} gives no column {source.watermark!r} (watermark).",
            f"It gives {', '.join(values)}.",
        )
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


@dataclass(frozen=True)
class Delivery:
    """A file of a source, on this machine: of a drop folder, with its state when it was read; of a query, with the next ``:since``."""

    read: Read
    path: Path
    incoming: Incoming | None = None
    watermark: str | int | float | None = None


def collect_deliveries(
    source: IngestSource, root: Path, scratch: Path, ledger: Ledger, log: Log
) -> tuple[list[Delivery], list[str]]:
    """Bring what a source has to this machine, into an empty folder for copies.

    Drop folders and SQL files are relative to ``root``.

    Return the files, and what stopped it as a problem: files that could not be had do not hold up the others.
    """
    deliveries: list[Delivery] = []
    try:
        deliveries.extend(_deliveries(source, root, scratch, ledger, log))
    except StageError as error:
        return deliveries, [f"{source.name}: {error}"]
    except (
        Exception
    ) as error:  # fsspec and database drivers raise whatever they like; a source that is away stops no other
        message = shown(str(error).partition("\n")[0])
        return deliveries, [f"{source.name}: {type(error).__name__}: {message}"]
    return deliveries, []


def _deliveries(
    source: IngestSource, root: Path, scratch: Path, ledger: Ledger, log: Log
) -> Iterator[Delivery]:
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
            yield Delivery(
                Read(name=source.query.as_posix(), sha256=file_hash(target)), target, watermark=watermark
            )


def folder_files(source: IngestSource, folder: Path, scratch: Path, log: Log) -> Iterator[Delivery]:
    """Copy the files of a drop folder, by name.

    One that still changes is left for the next run, a hidden one is not looked at.
    """
    if not folder.is_dir():
        raise DataError(
            f"{source.folder} is not a folder.",
            f"`mkdir -p {source.folder}`, or correct ingest.sources in conf/flows.yaml.",
        )
    for problem in unread(folder, ending_of).values():
        log(
            f"{source.name}: not read: {problem}. Read are files, not links, that end with"
            f" {', '.join(ENDINGS)}."
        )
    files = [file for path in labelled_files(folder) if (file := Incoming.find(path))]
    complete = frozenset(settled(files, source.settle_seconds))
    for incoming in files:
        copy = scratch / incoming.path.name
        if incoming in complete:
            shutil.copyfile(incoming.path, copy)  # so that what is read is what is hashed
        if incoming not in complete or not incoming.unchanged:
            log(f"{source.name}: {incoming.name} is still being written; the next run reads it.")
            continue
        yield Delivery(Read(name=incoming.name, sha256=file_hash(copy)), copy, incoming)


def url_files(source: IngestSource, scratch: Path, ledger: Ledger) -> Iterator[Delivery]:
    """Download the files of a URL that are not those of the last run, by their ETags.

    Raises:
        DataError: A storage option's variable is not set, no file matches, or its name has an unknown ending.
    """
    from fsspec.core import url_to_fs

    address = str(source.url)
    if missing := next(
        (variable for variable in source.options.values() if variable not in os.environ), None
    ):
        hint = f"The worker needs it: source {source.name} of ingest names it."
        raise DataError(f"The environment variable {missing} is not set.", hint)
    options = {name: os.environ[variable] for name, variable in source.options.items()}
    filesystem, path = url_to_fs(address, **options)
    paths = sorted(filesystem.glob(path)) if "*" in path else [path]
    if not paths:
        raise DataError(
            f"{shown(address)} matches no file.", "Correct the pattern in ingest.sources of conf/flows.yaml."
        )
    seen = ledger.etags(source.name)
    for number, file_path in enumerate(paths):
        name = shown(address if file_path == path else filesystem.unstrip_protocol(file_path))
        ending = ending_of(PurePosixPath(urlsplit(file_path).path).name)
        if ending is None:
            raise DataError(
                f"{name}: its name ends with none of {', '.join(ENDINGS)}.", "Name a file of labelled rows."
            )
        etag = version_of(filesystem.info(file_path))
        if etag is not None and seen.get(name) == etag:
            continue
        copy = scratch / f"{number}{ending}"
        filesystem.get_file(file_path, str(copy))
        yield Delivery(Read(name=name, sha256=file_hash(copy), etag=etag), copy)


FindTexts = Callable[[str, pa.Array], pa.Table]
"""Takes an id column and ids; returns the ids and texts of scored rows that have one of them."""


class LabelledDelivery:
    """A file with new labels: rows with texts, or late labels of texts that were scored.

    It counts the rows that are ``incomplete``, because a person has left the label open, and ``bad``.
    """

    def __init__(
        self, delivery: Delivery, columns: BatchColumns, files: FilesParams, id_column: str | None = None
    ) -> None:
        self._source, self._name, self._columns, self._id = (
            Input.of_data(delivery.path, files),
            delivery.read.name,
            columns,
            id_column,
        )
        self.incomplete = 0
        self.bad = BadRows(self._name, self._source.unit, columns.policy)

    def batches(self) -> Iterator[pa.Table]:
        """Yield complete rows with ``POSITION``: columns of a batch file; of late labels without the texts, but with the id as text.

        Raises:
            DataError: The file cannot be used, a row is bad and that is an error, or too many are; while
                reading.
        """
        rows = bad = 0
        with open_table(self._source) as table:
            names = table.names()
            late = self._id if self._id in names and not set(self._columns.texts) & set(names) else None
            read = self._columns.labelled(late)
            for batch in labelled_rows(table, read, self.bad):
                rows, before = rows + batch.num_rows, self.bad.count
                kept = batch.filter(self._complete(batch, read, late))
                bad += self.bad.count - before
                yield pa.table({**self._columns.named(kept, read), POSITION: kept[POSITION]})
            if self._source.kind == "jsonl" and not table.keys and not self.bad.count:
                raise DataError(f"{self._name} has no rows.", "Write one JSON object per line.")
        self.bad.check(rows - bad)

    def _complete(self, batch: pa.RecordBatch, read: LabelledColumns, late: str | None) -> pa.BooleanArray:
        """Return which rows have all they need; count the others."""
        labelled = pc.is_valid(batch[LABEL])
        filled = (
            has_text(batch.columns[: len(read.texts)])
            if late is None
            else pc.is_valid(self._columns.named(batch, read)[late])
        )
        self.incomplete += batch.num_rows - labelled.true_count
        for row in np.flatnonzero(pc.and_not(labelled, filled).to_numpy(zero_copy_only=False)).tolist():
            self.bad.add(
                RowProblem(
                    batch[POSITION][row].as_py(), f"no {'text' if late is None else 'id'}", "Fill it in."
                )
            )
        return pc.and_(labelled, filled)

    def place(self, position: int) -> str:
        """Return the place of a row, for messages."""
        return f"{self._name}, {self.bad.unit} {position:,}"


@dataclass(frozen=True)
class Staged:
    """A file that was read: its rows, and what becomes of each."""

    delivery: Delivery
    path: Path
    hashes: RowHashes
    statuses: NDArray[np.int8]
    unmatched: int
    incomplete: int
    bad: int
    conflicting: tuple[str, ...]


@dataclass
class NewRows:
    """What the sources gave.

    Attributes:
        entries: One for each source that gave any row, new or not.
        batches: The new batch files, relative to the checkout.
        files: Files of drop folders that were read.
        done: Those of which nothing is left to read.
        problems: What could not be read; the next run tries again.
        contradictions: The rows that are left out because the data have them with another label.
        tracked: Folder of the batches that DVC tracks; ``None`` for a data set of the hub.
    """

    entries: list[Ingested] = field(default_factory=list)
    batches: list[Path] = field(default_factory=list)
    files: list[Delivery] = field(default_factory=list)
    done: list[Delivery] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)
    tracked: Path | None = None

    @property
    def rows(self) -> int:
        """Number of new rows."""
        return sum(entry.added for entry in self.entries)

    @property
    def conflicts(self) -> int:
        """Number of rows that contradict the data."""
        return sum(entry.conflicts for entry in self.entries)

    @property
    def conflict_share(self) -> float:
        """Share of the contradicting rows in the rows with a label that are for training."""
        read = sum(entry.added + entry.duplicates + entry.conflicts for entry in self.entries)
        return self.conflicts / read if read else 0.0

    @property
    def names(self) -> str:
        """The names of the sources."""
        return ", ".join(entry.source for entry in self.entries)

    @property
    def summary(self) -> str:
        """The counts of each source."""
        return "; ".join(
            f"{entry.source}: {entry.counts}" + (f", at {entry.revision[:12]}" if entry.revision else "")
            for entry in self.entries
        )


class Harvester:
    """Reads sources, whose folders and SQL files are relative to ``root``, into a checkout with the parameters ``data``.

    Raises:
        ParamsError: Rows cannot be added with these parameters.
        DataError: The data of the checkout cannot be read.
    """

    def __init__(
        self,
        root: Path,
        checkout: Path,
        data: DataParams,
        *,
        key: str | None,
        find_texts: FindTexts,
        log: Callable[[str], None],
    ) -> None:
        self._root, self._checkout, self._files, self._log, self._find_texts = (
            root,
            checkout,
            data.files,
            log,
            find_texts,
        )
        self.layout = DataLayout.of(data)
        self._columns = BatchColumns.of(data, key)
        rows, labels = read_known(checkout, self.layout, self._columns, data.files, log)
        self._classes, self._selection = ClassNames.of(data, labels), NewRowSelection(rows)
        self._ledger = Ledger.of(checkout)

    def harvest(self, sources: Sequence[IngestSource], scratch: Path) -> NewRows:
        """Read the sources, one after the other, and write their batches.

        ``scratch`` is a folder for temporary files.
        """
        result, contradictions = NewRows(), Contradictions(self._columns)
        for source in sources:
            folder = scratch / source.name
            folder.mkdir(parents=True)
            deliveries, problems = collect_deliveries(source, self._root, folder, self._ledger, self._log)
            staged: list[Staged] = []
            for delivery in deliveries:
                try:
                    staged.append(
                        self._stage(source, delivery, folder / f"{len(staged)}.staged", contradictions)
                    )
                except DataError as error:
                    message = error.problem.replace(
                        str(delivery.path), delivery.read.name
                    )  # the hint may quote the file
                    problems.append(f"{source.name}: {message}")
            for problem in problems:
                self._log(f"Not read: {problem}")
            result.problems += problems
            if staged:
                entry = self._entry(source, staged)
                result.entries.append(entry)
                result.files += [
                    staged_file.delivery for staged_file in staged if staged_file.delivery.incoming
                ]
                result.done += [
                    staged_file.delivery
                    for staged_file in staged
                    if staged_file.delivery.incoming and not staged_file.unmatched
                ]
                if entry.batch:
                    result.batches.append(Path(entry.batch))
                self._log(f"{source.name}: {entry.counts}")
            shutil.rmtree(folder)
        result.contradictions = contradictions.resolved(self._checkout, self.layout, self._files)
        return result

    def _stage(
        self, source: IngestSource, delivery: Delivery, target: Path, contradictions: Contradictions
    ) -> Staged:
        """Read a file to its end before any row of it counts: one that cannot be read gives no row."""
        columns, file = self._columns, LabelledDelivery(delivery, self._columns, self._files, source.id)
        unmatched, positions, hashes, rows = 0, [], [], 0
        schema = columns.schema.append(pa.field(POSITION, pa.int64()))
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for given, missing in self._with_texts(file, source):
                places = given[POSITION].to_pylist()
                label = given[columns.label].combine_chunks()
                labels = self._classes.translate(
                    label,
                    lambda row: f"{file.place(places[row])}, column {columns.label!r}",  # noqa: B023
                )
                table = given.set_column(
                    given.schema.get_field_index(columns.label), columns.label, labels
                ).select(schema.names)
                keys = table[columns.key].combine_chunks() if columns.key else None
                hashes.append(
                    RowHashes.of([table[name].combine_chunks() for name in columns.texts], labels, keys)
                )
                positions.append(numpy_values(table[POSITION]))
                writer.write_table(table)
                unmatched, before, rows = unmatched + missing, rows, rows + table.num_rows
                if rows // PROGRESS > before // PROGRESS:
                    self._log(f"{source.name}: {rows:,} rows of {delivery.read.name} read")
        joined, numbers = RowHashes.joined(hashes), np.concatenate([np.zeros(0, np.int64), *positions])
        statuses = self._selection.classify(joined, delivery.read.name)
        contradictions.add(source.name, target, statuses, joined, lambda row: file.place(int(numbers[row])))
        conflicts = np.flatnonzero(statuses == RowStatus.CONFLICT)[:PLACES].tolist()
        conflicting = tuple(file.place(int(numbers[row])) for row in conflicts)
        for row, place in zip(conflicts, conflicting, strict=True):
            other = self._selection.disagreeing.get(row, "the data")
            self._log(f"{source.name}: {place} is left out: {other} has this row with another label.")
        return Staged(
            delivery, target, joined, statuses, unmatched, file.incomplete, file.bad.count, conflicting
        )

    def _with_texts(self, file: LabelledDelivery, source: IngestSource) -> Iterator[tuple[pa.Table, int]]:
        """Yield rows with their texts, and the number of rows whose text is unknown: late labels are joined with what was scored."""
        late = []
        for table in file.batches():
            if self._columns.texts[0] in table.column_names:
                yield table, 0
            else:
                late.append(table)
        if not late:
            return
        labels, name = pa.concat_tables(late), str(source.id)
        found = self._find_texts(name, labels[name].combine_chunks())
        rows: dict[str | None, int] = {}
        for row, value in enumerate(found[name].to_pylist()):
            rows.setdefault(plain_text(value), row)
        places = [rows.get(value) for value in labels[name].to_pylist()]
        matched = labels.filter(pa.array([place is not None for place in places], pa.bool_()))
        texts = found.take(pa.array([place for place in places if place is not None], pa.int64()))
        for column in self._columns.texts:
            matched = matched.append_column(column, texts[column].cast(pa.string()))
        yield matched, labels.num_rows - matched.num_rows

    def _entry(self, source: IngestSource, staged: Sequence[Staged]) -> Ingested:
        """Write the batch of a source and return its entry.

        While texts are missing, the watermark stays: those rows are read again.
        """
        statuses = np.concatenate([staged_file.statuses for staged_file in staged])
        counts = {status: int(np.count_nonzero(statuses == status)) for status in RowStatus}
        unmatched = sum(staged_file.unmatched for staged_file in staged)
        watermark = self._ledger.watermark(source.name) if unmatched else staged[-1].delivery.watermark
        now = datetime.now(UTC)
        return Ingested(
            date=now.isoformat(timespec="seconds"),
            source=source.name,
            batch=self._write(source, staged, now) if counts[RowStatus.NEW] else None,
            files=[staged_file.delivery.read for staged_file in staged],
            added=counts[RowStatus.NEW],
            duplicates=counts[RowStatus.DUPLICATE],
            conflicts=counts[RowStatus.CONFLICT],
            held_out=counts[RowStatus.HELD_OUT],
            incomplete=sum(staged_file.incomplete for staged_file in staged),
            bad=sum(staged_file.bad for staged_file in staged),
            unmatched=unmatched,
            conflicting=[place for staged_file in staged for place in staged_file.conflicting][:PLACES],
            contradictions=identity_of(
                [staged_file.hashes for staged_file in staged],
                [staged_file.statuses for staged_file in staged],
            ),
            watermark=watermark,
        )

    def _write(self, source: IngestSource, staged: Sequence[Staged], now: datetime) -> str:
        """Write the new rows; return the path of the file, which is named after its content."""
        batch, schema = staged[0].path.with_name("batch.parquet"), self._columns.schema
        write_batches(batch, schema, rebatch(_new_rows(staged, schema), schema))
        path = self.layout.batches / f"{now.date().isoformat()}-{source.name}-{file_hash(batch)[:8]}.parquet"
        with replace_file(self._checkout / path) as partial:
            shutil.copyfile(batch, partial)
        return path.as_posix()


def _new_rows(staged: Iterable[Staged], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for staged_file in staged:
        first = 0
        with pq.ParquetFile(staged_file.path) as file:
            for batch in file.iter_batches(ROW_GROUP, columns=schema.names):
                new = staged_file.statuses[first : first + batch.num_rows] == RowStatus.NEW
                yield batch.select(schema.names).cast(schema).filter(pa.array(new))
                first += batch.num_rows
