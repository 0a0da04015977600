"""The new rows of all sources, as one batch file for each."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from flows.ingestion.known import BatchColumns, ClassNames, DataLayout, KnownData, NewRowSelection, RowHashes, RowStatus
from flows.ingestion.ledger import PLACES, Ingested, Ledger
from flows.ingestion.sources import PROGRESS, Collected, Delivery, collect
from flows.scoring.inbox import Incoming
from flows.settings import IngestSource
from tuneline.core.errors import DataError
from tuneline.core.files import file_hash
from tuneline.core.tables import ROW_GROUP, numpy_values, rebatch, write_batches
from tuneline.params.data import DataParams, FilesParams
from tuneline.readers.inputs import Input, open_table
from tuneline.readers.labelled import LABEL, POSITION, LabelledColumns, has_text, labelled_rows, plain_text
from tuneline.readers.rows import BadRows, RowProblem

FindTexts = Callable[[str, pa.Array], pa.Table]
"""Takes an id column and ids; returns the ids and texts of scored rows that have one of them."""


class LabelledFile:
    """A file with new labels: rows with texts, or late labels of texts that were scored.

    Attributes:
        incomplete: Rows without a label, so far: a person has left them open.
        bad: The bad rows, so far.
    """

    def __init__(self, delivery: Delivery, columns: BatchColumns, files: FilesParams, id_column: str | None = None) -> None:
        self._source, self._name, self._columns, self._id = Input.of_data(delivery.path, files), delivery.read.name, columns, id_column
        self.incomplete = 0
        self.bad = BadRows(self._name, self._source.unit, columns.policy)

    def batches(self) -> Iterator[pa.Table]:
        """Yield complete rows with ``POSITION``: columns of a batch file; of late labels without the texts, but with the id as text.

        Raises:
            DataError: The file cannot be used, a row is bad and that is an error, or too many are; while reading.
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
        """Return which rows have all they need; count the others.

        Raises:
            DataError: A labelled row has no text or id, and bad rows are an error.
        """
        labelled = pc.is_valid(batch[LABEL])
        filled = has_text(batch.columns[: len(read.texts)]) if late is None else pc.is_valid(self._columns.named(batch, read)[late])
        self.incomplete += batch.num_rows - labelled.true_count
        for row in np.flatnonzero(pc.and_not(labelled, filled).to_numpy(zero_copy_only=False)).tolist():
            self.bad.add(RowProblem(batch[POSITION][row].as_py(), f"no {'text' if late is None else 'id'}", "Fill it in."))
        return pc.and_(labelled, filled)

    def place(self, position: int) -> str:
        """Return the place of a row, for messages."""
        return f"{self._name}, {self.bad.unit} {position:,}"


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
class NewRows:
    """What the sources gave.

    Attributes:
        entries: One for each source that gave any row, new or not.
        batches: The new batch files, relative to the checkout.
        files: Files of drop folders that were read.
        done: Those of which nothing is left to read.
        problems: What could not be read; the next run tries again.
        tracked: Folder of the batches that DVC tracks; ``None`` for a data set of the hub.
    """

    entries: list[Ingested] = field(default_factory=list)
    batches: list[Path] = field(default_factory=list)
    files: list[Incoming] = field(default_factory=list)
    done: list[Incoming] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    tracked: Path | None = None

    @property
    def rows(self) -> int:
        """Number of new rows."""
        return sum(entry.added for entry in self.entries)

    @property
    def names(self) -> str:
        """The names of the sources."""
        return ", ".join(one.source for one in self.entries)

    @property
    def summary(self) -> str:
        """The counts of each source."""
        return "; ".join(f"{one.source}: {one.counts}" + (f", at {one.revision[:12]}" if one.revision else "") for one in self.entries)


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
        self.layout = DataLayout.of(data)
        self._columns = BatchColumns.of(data, key)
        known = KnownData.read(checkout, self.layout, self._columns, data.files, log)
        self._classes, self._selection = ClassNames.of(data, known.labels), NewRowSelection(known.rows)
        self._ledger = Ledger.of(checkout)

    def harvest(self, sources: Sequence[IngestSource], scratch: Path) -> NewRows:
        """Read the sources, one after the other, and write their batches.

        Args:
            sources: The sources.
            scratch: A folder for temporary files.
        """
        result = NewRows()
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
        columns, file = self._columns, LabelledFile(delivery, self._columns, self._files, source.id)
        unmatched, positions, hashes, rows = 0, [], [], 0
        schema = columns.schema.append(pa.field(POSITION, pa.int64()))
        with pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for given, missing in self._with_texts(file, source):
                places = given[POSITION].to_pylist()
                label = given[columns.label].combine_chunks()
                labels = self._classes.translate(label, lambda row: f"{file.place(places[row])}, column {columns.label!r}")  # noqa: B023
                table = given.set_column(given.schema.get_field_index(columns.label), columns.label, labels).select(schema.names)
                keys = table[columns.key].combine_chunks() if columns.key else None
                hashes.append(RowHashes.of([table[name].combine_chunks() for name in columns.texts], labels, keys))
                positions.append(numpy_values(table[POSITION]))
                writer.write_table(table)
                unmatched, before, rows = unmatched + missing, rows, rows + table.num_rows
                if rows // PROGRESS > before // PROGRESS:
                    self._log(f"{source.name}: {rows:,} rows of {delivery.read.name} read")
        statuses = self._selection.classify(RowHashes.joined(hashes))
        conflicts = np.concatenate([np.zeros(0, np.int64), *positions])[statuses == RowStatus.CONFLICT][:PLACES]
        conflicting = tuple(map(file.place, conflicts.tolist()))
        for place in conflicting:
            self._log(f"{source.name}: {place} is left out: the data has this row with another label.")
        return Staged(delivery, target, statuses, unmatched, file.incomplete, file.bad.count, conflicting)

    def _with_texts(self, file: LabelledFile, source: IngestSource) -> Iterator[tuple[pa.Table, int]]:
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
        write_batches(partial, schema, rebatch(_new_rows(staged, schema), schema))
        name = f"{now.date().isoformat()}-{source.name}-{file_hash(partial)[:8]}.parquet"
        partial.rename(folder / name)
        return (self.layout.batches / name).as_posix()


def _new_rows(staged: Iterable[Staged], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for one in staged:
        first = 0
        with pq.ParquetFile(one.path) as file:
            for batch in file.iter_batches(ROW_GROUP, columns=schema.names):
                new = one.statuses[first : first + batch.num_rows] == RowStatus.NEW
                yield batch.select(schema.names).cast(schema).filter(pa.array(new))
                first += batch.num_rows
