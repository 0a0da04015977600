"""The new rows of all sources, as one batch file for each."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from flows.ingestion.columns import POSITION, RowColumns, as_text
from flows.ingestion.database import PROGRESS
from flows.ingestion.known import Classes, KnownData
from flows.ingestion.layout import Layout
from flows.ingestion.ledger import PLACES, Ingested, Ledger
from flows.ingestion.reading import LabelledFile
from flows.ingestion.selection import RowHashes, RowStatus, Selection
from flows.ingestion.sources import Collected, Delivery, collect
from flows.scoring.inbox import Incoming
from flows.settings.ingest import IngestSource
from tuneline.errors import DataError
from tuneline.files.schemas import ROW_GROUP, numpy_values, write_batches
from tuneline.params.data import DataParams
from tuneline.readers.urls import sha256

FindTexts = Callable[[str, pa.Array], pa.Table]
"""Takes an id column and ids; returns the ids and texts of scored rows that have one of them."""


@dataclass(frozen=True)
class Staged:
    """A file that was read: its rows, and what becomes of each."""

    delivery: Delivery
    path: Path
    statuses: NDArray[np.int8]
    unmatched: int
    incomplete: int
    bad: int
    conflicting: tuple[str, ...]


@dataclass
class Harvest:
    """What the sources gave.

    Attributes:
        entries: One for each source that gave any row, new or not.
        batches: The new batch files, relative to the checkout.
        files: Files of drop folders that were read.
        done: Those of which nothing is left to read.
        problems: What could not be read; the next run tries again.
    """

    entries: list[Ingested] = field(default_factory=list)
    batches: list[Path] = field(default_factory=list)
    files: list[Incoming] = field(default_factory=list)
    done: list[Incoming] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Number of new rows."""
        return sum(entry.added for entry in self.entries)


class Harvester:
    """Reads sources into a checkout.

    Args:
        root: The repository, which drop folders and SQL files are relative to.
        checkout: Root of the checkout.
        data: Section ``data`` of the checkout's parameters.
        key: ``ingest.key``.
        find_texts: Finds the texts of late labels.
        log: Called with messages and lines of progress.

    Raises:
        ParamsError: Rows cannot be added with these parameters.
        DataError: The data of the checkout cannot be read.
    """

    def __init__(
        self, root: Path, checkout: Path, data: DataParams, *, key: str | None, find_texts: FindTexts, log: Callable[[str], None]
    ) -> None:
        self._root, self._checkout, self._files, self._log, self._find_texts = root, checkout, data.files, log, find_texts
        self.layout = Layout.of(data)
        self._columns = RowColumns.of(data, key)
        known = KnownData.read(checkout, self.layout, self._columns, data.files, log)
        self._classes, self._selection = Classes.of(data, known.labels), Selection(known.rows)
        self._ledger = Ledger.of(checkout)

    def harvest(self, sources: Sequence[IngestSource], scratch: Path) -> Harvest:
        """Read the sources, one after the other, and write their batches.

        Args:
            sources: The sources.
            scratch: A folder for temporary files.
        """
        result = Harvest()
        for source in sources:
            folder = scratch / source.name
            folder.mkdir(parents=True)
            collected = collect(source, self._root, folder, self._ledger, self._log)
            staged = self._staged(source, collected)
            result.problems += collected.problems
            if staged:
                entry = self._entry(source, staged)
                result.entries.append(entry)
                result.files += [one.delivery.incoming for one in staged if one.delivery.incoming]
                result.done += [one.delivery.incoming for one in staged if one.delivery.incoming and not one.unmatched]
                if entry.batch:
                    result.batches.append(Path(entry.batch))
                self._log(f"{source.name}: {entry.counts}")
            shutil.rmtree(folder)
        return result

    def _staged(self, source: IngestSource, collected: Collected) -> list[Staged]:
        """Read the files of a source; those that cannot be read are added to the problems."""
        staged: list[Staged] = []
        for delivery in collected.deliveries:
            try:
                staged.append(self._stage(source, delivery, delivery.path.with_name(f"{len(staged)}.staged")))
            except DataError as error:
                message = str(error).replace(str(delivery.path), delivery.read.name)
                collected.problems.append(f"{source.name}: {message}")
        for problem in collected.problems:
            self._log(f"Not read: {problem}")
        return staged

    def _stage(self, source: IngestSource, delivery: Delivery, target: Path) -> Staged:
        """Read a file to its end before any row of it counts: one that cannot be read gives no row."""
        file = LabelledFile(delivery.path, delivery.read.name, self._columns, source.id)
        unmatched, positions, hashes, rows = 0, [], [], 0
        schema = self._columns.schema.append(pa.field(POSITION, pa.int64()))
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for given, missing in self._with_texts(file, source):
                table = self._classes.translate(given, self._columns.label, file)
                texts = [table[name].combine_chunks() for name in self._columns.texts]
                keys = table[self._columns.key].combine_chunks() if self._columns.key else None
                hashes.append(RowHashes.of(texts, table[self._columns.label].combine_chunks(), keys))
                positions.append(numpy_values(table[POSITION]))
                writer.write_table(table.select(schema.names))
                unmatched, before, rows = unmatched + missing, rows, rows + table.num_rows
                if rows // PROGRESS > before // PROGRESS:
                    self._log(f"{source.name}: {rows:,} rows of {delivery.read.name} read")
        statuses = self._selection.classify(RowHashes.joined(hashes))
        conflicts = np.concatenate([np.zeros(0, np.int64), *positions])[statuses == RowStatus.CONFLICT][:PLACES]
        places = tuple(f"{delivery.read.name}, {file.bad.unit} {position:,}" for position in conflicts.tolist())
        for place in places:
            self._log(f"{source.name}: {place} is left out: the data has this row with another label.")
        return Staged(delivery, target, statuses, unmatched, file.incomplete, file.bad.count, places)

    def _with_texts(self, file: LabelledFile, source: IngestSource) -> Iterator[tuple[pa.Table, int]]:
        """Yield rows with their texts, and the number of rows whose text is unknown: late labels are joined with what was scored."""
        late = []
        for table in file.batches(self._files):
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
            rows.setdefault(as_text(value), row)
        places = [rows.get(value) for value in labels[name].to_pylist()]
        matched = labels.filter(pa.array([place is not None for place in places], pa.bool_()))
        texts = found.take(pa.array([place for place in places if place is not None], pa.int64()))
        for column in self._columns.texts:
            matched = matched.append_column(column, texts[column].cast(pa.string()))
        yield matched, labels.num_rows - matched.num_rows

    def _entry(self, source: IngestSource, staged: Sequence[Staged]) -> Ingested:
        """Write the batch of a source and return its entry. While texts are missing, the watermark stays: those rows are read again."""
        statuses = np.concatenate([one.statuses for one in staged])
        counts = {status: int(np.count_nonzero(statuses == status)) for status in RowStatus}
        unmatched = sum(one.unmatched for one in staged)
        watermark = self._ledger.watermark(source.name) if unmatched else staged[-1].delivery.watermark
        now = datetime.now(UTC)
        return Ingested(
            date=now.isoformat(timespec="seconds"),
            source=source.name,
            batch=self._write(source, staged, now) if counts[RowStatus.NEW] else None,
            files=[one.delivery.read for one in staged],
            added=counts[RowStatus.NEW],
            duplicates=counts[RowStatus.DUPLICATE],
            conflicts=counts[RowStatus.CONFLICT],
            held_out=counts[RowStatus.HELD_OUT],
            incomplete=sum(one.incomplete for one in staged),
            bad=sum(one.bad for one in staged),
            unmatched=unmatched,
            conflicting=[place for one in staged for place in one.conflicting][:PLACES],
            watermark=watermark,
        )

    def _write(self, source: IngestSource, staged: Sequence[Staged], now: datetime) -> str:
        """Write the new rows; return the path of the file, which is named after its content."""
        folder, schema = self._checkout / self.layout.batches, self._columns.schema
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{source.name}.partial"
        write_batches(partial, schema, rebatched(_new_rows(staged, schema), schema))
        name = f"{now.date().isoformat()}-{source.name}-{sha256(partial)[:8]}.parquet"
        partial.rename(folder / name)
        return (self.layout.batches / name).as_posix()


def _new_rows(staged: Iterable[Staged], schema: pa.Schema) -> Iterator[pa.Table]:
    for one in staged:
        first = 0
        with pq.ParquetFile(one.path) as file:
            for batch in file.iter_batches(ROW_GROUP, columns=schema.names):
                new = one.statuses[first : first + batch.num_rows] == RowStatus.NEW
                yield pa.Table.from_batches([batch]).select(schema.names).filter(pa.array(new))
                first += batch.num_rows


def rebatched(tables: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of ``ROW_GROUP``, so that the bytes of a batch file follow from its rows."""
    waiting = schema.empty_table()
    for table in tables:
        waiting = pa.concat_tables([waiting, table.cast(schema)])
        if waiting.num_rows >= ROW_GROUP:
            whole = waiting.num_rows - waiting.num_rows % ROW_GROUP
            yield from waiting.slice(0, whole).combine_chunks().to_batches(max_chunksize=ROW_GROUP)
            waiting = waiting.slice(whole)
    if waiting.num_rows:
        yield from waiting.combine_chunks().to_batches(max_chunksize=ROW_GROUP)
