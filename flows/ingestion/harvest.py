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

from flows.inbox import Incoming, regular_files, settled, unread
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
from tuneline.core.hashes import file_hash
from tuneline.core.tables import ROW_GROUP, numpy_values, rebatch, write_batches
from tuneline.labels.drop_folder import labelled_files
from tuneline.params.data import DataParams, FilesParams
from tuneline.readers.files import shown, version_of
from tuneline.readers.formats import ENDINGS, data_input
from tuneline.readers.label_values import plain_text
from tuneline.readers.labelled import LABEL, POSITION, LabelledColumns, has_text, labelled_rows
from tuneline.readers.rows import BadRows, RowProblem
from tuneline.readers.tables import open_table
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import DataError, StageError
from tuneline.settings import IngestSource
from tuneline.sniffing.files import fitting_input
from tuneline.tasks.columns import label_texts

Log = Callable[[str], None]
FETCHED_ROWS = 10_000
"""Rows that are fetched at a time."""
PROGRESS = 100_000
"""Rows between two lines of progress."""
_SINCE = re.compile(r"(?<!:):since\b")


def run_query(
    source: IngestSource, sql: Path, target: Path, since: str | int | float | None, log: Callable[[str], None]
) -> Any:
    """Write the rows of a query to a JSON Lines file, and return the watermark.

    The watermark is the largest value of the column ``watermark``, or ``since`` if there is none. The SQL
    file has one ``SELECT``; ``:since`` in it is a bind parameter.

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
        # Without a type: the database converts the value to the type of the column it is compared with.
        statement = statement.bindparams(bindparam("since", since, type_=NullType()))

    largest: Any = None
    with _engine(source).connect() as connection, target.open("w", encoding="utf-8") as file:
        rows = _read_only(connection).execute(statement).mappings()
        for number, row in enumerate(rows, start=1):
            if source.watermark:
                largest = _larger(source, largest, row)
            values = {name: _plain(value) for name, value in row.items()}
            file.write(json.dumps(values, ensure_ascii=False) + "\n")
            if number % PROGRESS == 0:
                log(f"{source.name}: {number:,} rows fetched")
    if largest is None:
        return since
    return _plain(largest)


def _engine(source: IngestSource) -> Engine:
    """Return the database of a source, at the address in its environment variable."""
    address = os.environ.get(str(source.database))
    if not address:
        hint = f"The worker needs it, with an SQLAlchemy URL: source {source.name} of ingest names it."
        raise DataError(f"The environment variable {source.database} is not set.", hint)
    url = make_url(address)
    # SQLAlchemy's default is another driver, which is not installed.
    if url.drivername in {"postgresql", "postgres"}:
        url = url.set(drivername="postgresql+psycopg")
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


def _larger(source: IngestSource, largest: Any, row: Any) -> Any:
    """Return the larger of a watermark and its value in a row; NULL is smaller than every value."""
    if source.watermark not in row:
        raise DataError(
            f"{source.query} gives no column {source.watermark!r} (watermark).",
            f"It gives {', '.join(row)}.",
        )
    value = row[source.watermark]
    if largest is None or (value is not None and value > largest):
        return value
    return largest


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; times as ISO 8601 with a space, which every database reads."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


@dataclass(frozen=True)
class Delivery:
    """A file of a source, on this machine.

    Attributes:
        read: What the ledger has about the file.
        path: The copy that is read.
        incoming: The file in a drop folder, with its state when it was read.
        watermark: Value of ``:since`` in the next run of a query.
    """

    read: Read
    path: Path
    incoming: Incoming | None = None
    watermark: str | int | float | None = None


def collect_deliveries(
    source: IngestSource, root: Path, scratch: Path, ledger: Ledger, log: Log
) -> tuple[list[Delivery], list[str]]:
    """Bring what a source has to this machine.

    Drop folders and SQL files are relative to ``root``. ``scratch`` is an empty folder for copies.

    Returns:
        The files, and the problems. What cannot be had does not hold up the files before it.
    """
    deliveries: list[Delivery] = []
    problems: list[str] = []
    try:
        deliveries.extend(_deliveries(source, root, scratch, ledger, log))
    except StageError as error:
        problems.append(f"{source.name}: {error}")
    except Exception as error:
        # fsspec and database drivers raise whatever they like. A source that is away stops no other source.
        message = shown(str(error).partition("\n")[0])
        problems.append(f"{source.name}: {type(error).__name__}: {message}")
    return deliveries, problems


def _deliveries(
    source: IngestSource, root: Path, scratch: Path, ledger: Ledger, log: Log
) -> Iterator[Delivery]:
    """Yield the files of a source."""
    if source.folder:
        yield from folder_files(source, root / source.folder, scratch, log)
    elif source.url:
        yield from url_files(source, scratch, ledger)
    elif source.query:
        since = ledger.watermark(source.name)
        if since is None:
            since = source.since
        target = scratch / "rows.jsonl"
        watermark = run_query(source, root / source.query, target, since, log)
        if target.stat().st_size:
            read = Read(name=source.query.as_posix(), sha256=file_hash(target))
            yield Delivery(read, target, watermark=watermark)


def folder_files(source: IngestSource, folder: Path, scratch: Path, log: Log) -> Iterator[Delivery]:
    """Copy the files of a drop folder, by name.

    A file that still changes is left for the next run; a hidden file is not looked at.
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

    files = regular_files(labelled_files(folder))
    complete = frozenset(settled(files, source.settle_seconds))
    for incoming in files:
        copy = scratch / incoming.path.name
        # A copy, so that what is read is what is hashed.
        if incoming in complete:
            shutil.copyfile(incoming.path, copy)
        if incoming not in complete or not incoming.unchanged:
            log(f"{source.name}: {incoming.name} is still being written; the next run reads it.")
            continue
        yield Delivery(Read(name=incoming.name, sha256=file_hash(copy)), copy, incoming)


def url_files(source: IngestSource, scratch: Path, ledger: Ledger) -> Iterator[Delivery]:
    """Download the files of a URL that changed since the last run, as their ETags tell.

    Raises:
        DataError: A storage option's variable is not set, no file matches, or its name has an unknown ending.
    """
    from fsspec.core import url_to_fs

    # the files
    address = str(source.url)
    filesystem, path = url_to_fs(address, **_storage_options(source))
    paths = [path]
    if "*" in path:
        paths = sorted(filesystem.glob(path))
    if not paths:
        raise DataError(
            f"{shown(address)} matches no file.", "Correct the pattern in ingest.sources of conf/flows.yaml."
        )

    # the changed ones
    etags = ledger.etags(source.name)
    for number, file_path in enumerate(paths):
        file_address = address if file_path == path else filesystem.unstrip_protocol(file_path)
        name = shown(file_address)
        ending = ending_of(PurePosixPath(urlsplit(file_path).path).name)
        if ending is None:
            raise DataError(
                f"{name}: its name ends with none of {', '.join(ENDINGS)}.", "Name a file of labelled rows."
            )
        etag = version_of(filesystem.info(file_path))
        if etag is not None and etags.get(name) == etag:
            continue

        copy = scratch / f"{number}{ending}"
        filesystem.get_file(file_path, str(copy))
        yield Delivery(Read(name=name, sha256=file_hash(copy), etag=etag), copy)


def _storage_options(source: IngestSource) -> dict[str, str]:
    """Return the options of a URL's file system, such as credentials, from the environment."""
    options = {}
    for name, variable in source.options.items():
        if variable not in os.environ:
            hint = f"The worker needs it: source {source.name} of ingest names it."
            raise DataError(f"The environment variable {variable} is not set.", hint)
        options[name] = os.environ[variable]
    return options


FindTexts = Callable[[str, pa.Array], pa.Table]
"""Takes an id column and ids; returns the ids and texts of scored rows that have one of them."""


class LabelledDelivery:
    """A file with new labels: rows with texts, or late labels of texts that were scored.

    Attributes:
        incomplete: Number of the rows whose label a person has left open.
        bad: The bad rows, counted.
    """

    def __init__(
        self, delivery: Delivery, columns: BatchColumns, files: FilesParams, id_column: str | None = None
    ) -> None:
        self._source = fitting_input(data_input(delivery.path, files), columns.labelled().label_columns)
        self._name = delivery.read.name
        self._columns = columns
        self._id = id_column
        self.incomplete = 0
        self.bad = BadRows(self._name, self._source.unit, columns.policy)

    def batches(self) -> Iterator[pa.Table]:
        """Yield complete rows, with ``POSITION``.

        Rows have the columns of a batch file. Late labels lack the texts, and have the id as text instead.

        Raises:
            DataError: The file cannot be used, a row is bad and that is an error, or too many are; while
                reading.
        """
        rows = 0
        unfilled = 0  # rows without text or id, which are bad although they could be read
        with open_table(self._source) as table:
            names = table.names()
            late = None
            if self._id in names and not set(self._columns.texts) & set(names):
                late = self._id
            read = self._columns.labelled(late)

            for batch in labelled_rows(table, read, self.bad):
                rows += batch.num_rows
                bad_before = self.bad.count
                complete = batch.filter(self._complete(batch, read, late))
                unfilled += self.bad.count - bad_before
                yield pa.table({**self._columns.named(complete, read), POSITION: complete[POSITION]})

            if not table.has_schema and not table.keys and not self.bad.count:
                raise DataError(f"{self._name} has no rows.", "Write one JSON object per line.")
        self.bad.check(rows - unfilled)

    def _complete(self, batch: pa.RecordBatch, read: LabelledColumns, late: str | None) -> pa.BooleanArray:
        """Return which rows have all they need; count the rows without a label, and without text or id."""
        labelled = pc.is_valid(batch[LABEL])
        if late is None:
            missing = "no text"
            filled = has_text(batch.columns[: len(read.texts)])
        else:
            missing = "no id"
            filled = pc.is_valid(self._columns.named(batch, read)[late])

        self.incomplete += batch.num_rows - labelled.true_count
        bad = pc.and_not(labelled, filled).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(bad).tolist():
            self.bad.add(RowProblem(batch[POSITION][row].as_py(), missing, "Fill it in."))
        return pc.and_(labelled, filled)

    def place(self, position: int) -> str:
        """Return the place of a row, for messages."""
        return f"{self._name}, {self.bad.unit} {position:,}"


@dataclass(frozen=True)
class Staged:
    """A file that was read: its rows, and what becomes of each.

    Attributes:
        path: The complete rows, as Parquet.
        hashes: Their hashes.
        statuses: Their ``RowStatus``, of shape ``(rows,)``.
        unmatched: Number of late labels whose text is unknown.
        incomplete: Number of rows without a label.
        bad: Number of bad rows.
        conflicting: Places of the first rows that contradict the data.
    """

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
        done: Files of drop folders in which nothing is left to read.
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
        if not read:
            return 0.0
        return self.conflicts / read

    @property
    def names(self) -> str:
        """The names of the sources."""
        return ", ".join(entry.source for entry in self.entries)

    @property
    def summary(self) -> str:
        """The counts of each source."""
        sources = []
        for entry in self.entries:
            source = f"{entry.source}: {entry.counts}"
            if entry.revision:
                source += f", at {entry.revision[:12]}"
            sources.append(source)
        return "; ".join(sources)


class Harvester:
    """Reads sources into a checkout.

    Args:
        root: The repository; folders and SQL files of sources are relative to it.
        checkout: The checkout that gets the batch files.
        data: Parameters of the checkout.
        key: Column with the key of a row, ``ingest.key``.
        find_texts: Returns the texts of scored rows by their ids, for late labels.
        log: Takes a line for the log of the run.

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
        self._root = root
        self._checkout = checkout
        self._files = data.files
        self._find_texts = find_texts
        self._log = log

        self.layout = DataLayout.of(data)
        self._columns = BatchColumns.of(data, key)
        rows, labels = read_known(checkout, self.layout, self._columns, data.files, log)
        self._classes = ClassNames.of(data, labels)
        names = data.label_names or self._columns.labelled().label_names or sorted(labels)
        self._task = self._columns.task.of_outputs(names)
        self._selection = NewRowSelection(rows)
        self._ledger = Ledger.of(checkout)

    def harvest(self, sources: Sequence[IngestSource], scratch: Path) -> NewRows:
        """Read the sources, one after the other, and write their batches.

        ``scratch`` is a folder for temporary files.
        """
        result = NewRows()
        contradictions = Contradictions(self._columns, self._task)
        for source in sources:
            folder = scratch / source.name
            folder.mkdir(parents=True)

            staged, problems = self._read(source, folder, contradictions)
            for problem in problems:
                self._log(f"Not read: {problem}")
            result.problems += problems

            if staged:
                entry = self._entry(source, staged)
                result.entries.append(entry)
                if entry.batch:
                    result.batches.append(Path(entry.batch))
                self._log(f"{source.name}: {entry.counts}")
            for staged_file in staged:
                if staged_file.delivery.incoming:
                    result.files.append(staged_file.delivery)
                    if not staged_file.unmatched:
                        result.done.append(staged_file.delivery)
            shutil.rmtree(folder)
        result.contradictions = contradictions.resolved(self._checkout, self.layout, self._files)
        return result

    def _read(
        self, source: IngestSource, folder: Path, contradictions: Contradictions
    ) -> tuple[list[Staged], list[str]]:
        """Read the files of a source; return the files that could be read, and the problems."""
        deliveries, problems = collect_deliveries(source, self._root, folder, self._ledger, self._log)
        staged: list[Staged] = []
        for delivery in deliveries:
            target = folder / f"{len(staged)}.staged"
            try:
                staged.append(self._stage(source, delivery, target, contradictions))
            except DataError as error:
                # Without the hint, which may quote the file; with the user's name of it, not the copy's.
                problem = error.problem.replace(str(delivery.path), delivery.read.name)
                problems.append(f"{source.name}: {problem}")
        return staged, problems

    def _stage(
        self, source: IngestSource, delivery: Delivery, target: Path, contradictions: Contradictions
    ) -> Staged:
        """Read a file to its end before any row of it counts: a file that cannot be read gives no row."""
        file = LabelledDelivery(delivery, self._columns, self._files, source.id)
        hashes, positions, unmatched = self._write_staged(source, file, delivery.read.name, target)

        # what becomes of the rows
        statuses = self._selection.classify(hashes, delivery.read.name)
        contradictions.add(source.name, target, statuses, hashes, lambda row: file.place(int(positions[row])))

        conflicting = []
        for row in np.flatnonzero(statuses == RowStatus.CONFLICT)[:PLACES].tolist():
            place = file.place(int(positions[row]))
            conflicting.append(place)
            disagreeing = self._selection.disagreeing.get(row, "the data")
            self._log(f"{source.name}: {place} is left out: {disagreeing} has this row with another label.")
        return Staged(
            delivery, target, hashes, statuses, unmatched, file.incomplete, file.bad.count, tuple(conflicting)
        )

    def _write_staged(
        self, source: IngestSource, file: LabelledDelivery, name: str, target: Path
    ) -> tuple[RowHashes, NDArray[np.int64], int]:
        """Write the complete rows of a file as Parquet, with the labels as the data writes them.

        Returns:
            Hashes and positions of the rows, and the number of late labels whose text is unknown.
        """
        columns = self._columns
        schema = columns.schema.append(pa.field(POSITION, pa.int64()))
        hashes = []
        positions = [np.zeros(0, np.int64)]
        rows = 0
        unmatched = 0
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for labelled, labelled_unmatched in self._with_texts(file, source):
                table = self._with_class_names(labelled, file)
                texts = [table[column].combine_chunks() for column in columns.texts]
                keys = table[columns.key].combine_chunks() if columns.key else None
                labels = label_texts(columns.task, table[columns.label].combine_chunks())
                hashes.append(RowHashes.of(texts, labels, keys))
                positions.append(numpy_values(table[POSITION]))
                writer.write_table(table.select(schema.names))

                unmatched += labelled_unmatched
                rows_before = rows
                rows += table.num_rows
                if rows // PROGRESS > rows_before // PROGRESS:
                    self._log(f"{source.name}: {rows:,} rows of {name} read")
        return RowHashes.joined(hashes), np.concatenate(positions), unmatched

    def _with_class_names(self, table: pa.Table, file: LabelledDelivery) -> pa.Table:
        """Return rows with their labels as the data writes them."""
        label = self._columns.label
        positions = table[POSITION].to_pylist()
        labels = self._classes.translate(
            table[label].combine_chunks(), lambda row: f"{file.place(positions[row])}, column {label!r}"
        )
        return table.set_column(table.schema.get_field_index(label), label, labels)

    def _with_texts(self, file: LabelledDelivery, source: IngestSource) -> Iterator[tuple[pa.Table, int]]:
        """Yield rows with their texts, and the number of rows whose text is unknown.

        Late labels are joined with what was scored.
        """
        late = []
        for table in file.batches():
            if self._columns.texts[0] in table.column_names:
                yield table, 0
            else:
                late.append(table)
        if not late:
            return

        # the scored rows with the ids of the late labels
        labels = pa.concat_tables(late)
        id_column = str(source.id)
        scored = self._find_texts(id_column, labels[id_column].combine_chunks())
        rows: dict[str | None, int] = {}
        for row, value in enumerate(scored[id_column].to_pylist()):
            rows.setdefault(plain_text(value), row)

        # the join, in the order of the labels
        scored_rows = []
        matches = []
        for value in labels[id_column].to_pylist():
            matches.append(value in rows)
            if value in rows:
                scored_rows.append(rows[value])
        matched = labels.filter(pa.array(matches, pa.bool_()))
        texts = scored.take(pa.array(scored_rows, pa.int64()))
        for column in self._columns.texts:
            matched = matched.append_column(column, texts[column].cast(pa.string()))
        yield matched, labels.num_rows - matched.num_rows

    def _entry(self, source: IngestSource, staged: Sequence[Staged]) -> Ingested:
        """Write the batch of a source and return its entry.

        While texts are missing, the watermark stays: those rows are read again.
        """
        hashes = []
        statuses = []
        files = []
        conflicting: list[str] = []
        unmatched = 0
        incomplete = 0
        bad = 0
        for staged_file in staged:
            hashes.append(staged_file.hashes)
            statuses.append(staged_file.statuses)
            files.append(staged_file.delivery.read)
            conflicting += staged_file.conflicting
            unmatched += staged_file.unmatched
            incomplete += staged_file.incomplete
            bad += staged_file.bad
        counts = np.bincount(np.concatenate(statuses), minlength=len(RowStatus)).tolist()
        watermark = staged[-1].delivery.watermark
        if unmatched:
            watermark = self._ledger.watermark(source.name)

        now = datetime.now(UTC)
        batch = None
        if counts[RowStatus.NEW]:
            batch = self._write(source, staged, now)
        return Ingested(
            date=now.isoformat(timespec="seconds"),
            source=source.name,
            batch=batch,
            files=files,
            added=counts[RowStatus.NEW],
            duplicates=counts[RowStatus.DUPLICATE],
            conflicts=counts[RowStatus.CONFLICT],
            held_out=counts[RowStatus.HELD_OUT],
            incomplete=incomplete,
            bad=bad,
            unmatched=unmatched,
            conflicting=conflicting[:PLACES],
            contradictions=identity_of(hashes, statuses),
            watermark=watermark,
        )

    def _write(self, source: IngestSource, staged: Sequence[Staged], now: datetime) -> str:
        """Write the new rows; return the path of the file, which is named after its content."""
        batch = staged[0].path.with_name("batch.parquet")
        schema = self._columns.schema
        write_batches(batch, schema, rebatch(_new_rows(staged, schema), schema))

        path = self.layout.batches / f"{now.date().isoformat()}-{source.name}-{file_hash(batch)[:8]}.parquet"
        with replace_file(self._checkout / path) as partial:
            shutil.copyfile(batch, partial)
        return path.as_posix()


def _new_rows(staged: Iterable[Staged], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the new rows of the files of a source."""
    for staged_file in staged:
        first = 0
        with pq.ParquetFile(staged_file.path) as file:
            for batch in file.iter_batches(ROW_GROUP, columns=schema.names):
                new = staged_file.statuses[first : first + batch.num_rows] == RowStatus.NEW
                yield batch.select(schema.names).cast(schema).filter(pa.array(new))
                first += batch.num_rows
