"""The new rows of the drop folder, file after file, as one batch file."""

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flows.inbox import ChangedError, Incoming, complete_files, unread
from flows.ingestion.known import (
    BatchColumns,
    DataLayout,
    KnownRows,
    Log,
    RowHashes,
    RowStatus,
    class_names,
    name_labels,
    with_class_names,
)
from tuneline.core.hashes import file_hash
from tuneline.core.tables import ROW_GROUP, rebatch, write_batches
from tuneline.params.data import DataParams
from tuneline.readers.formats import data_input
from tuneline.readers.labelled import LABEL, POSITION, has_text, labelled_rows
from tuneline.readers.rows import BadRows, RowProblem
from tuneline.readers.tables import open_table
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import DataError
from tuneline.sniffing.files import fitting_input
from tuneline.tasks.columns import label_texts

LISTED = 10_000
"""Contradicting rows of a run that are listed; all are counted."""
COUNTS = {
    "new": RowStatus.NEW,
    "duplicate": RowStatus.DUPLICATE,
    "conflicting": RowStatus.CONFLICT,
    "held out": RowStatus.HELD_OUT,
}


@dataclass
class NewRows:
    """What a run read.

    Attributes:
        counts: Number of rows by what becomes of them: those of ``COUNTS``, ``incomplete`` (without a label)
            and ``bad``.
        files: The files that were read.
        refused: The files that cannot be read, and why.
        conflicts: Place, label, label in the data and texts of the first rows that contradict the data.
        batch: The batch file with the new rows, relative to the checkout; ``None`` if there are none.
    """

    counts: Counter[str] = field(default_factory=Counter)
    files: list[Incoming] = field(default_factory=list)
    refused: dict[Incoming, str] = field(default_factory=dict)
    conflicts: list[tuple[str, ...]] = field(default_factory=list)
    batch: Path | None = None

    @property
    def summary(self) -> str:
        """The counts in words."""
        words = [f"{self.counts['new']:,} new"]
        for name in ("duplicate", "conflicting", "held out", "incomplete", "bad"):
            if self.counts[name]:
                words.append(f"{self.counts[name]:,} {name}")
        return ", ".join(words)


class Harvester:
    """Reads a drop folder into a checkout.

    Args:
        checkout: The checkout that gets the batch file.
        data: Parameters of the checkout.
        log: Takes a line for the log of the run.

    Raises:
        ParamsError: Rows cannot be added with these parameters.
        DataError: The data of the checkout cannot be read.
    """

    def __init__(self, checkout: Path, data: DataParams, log: Log) -> None:
        self._checkout = checkout
        self._data = data
        self._log = log
        self.layout = DataLayout.of(data)
        self._columns = BatchColumns.of(data)
        self._known = KnownRows.read(checkout, self.layout, self._columns, data.files, log)
        self._classes = class_names(data, self._known.classes)

    def harvest(self, folder: Path, settle_seconds: float, scratch: Path) -> NewRows:
        """Read the files of a folder, and write their new rows to a batch file.

        A file that cannot be read gives no row, and stops no other. ``scratch`` is for temporary files.
        """
        for problem in unread(folder):
            self._log(f"Not read: {problem}.")
        result = NewRows()
        parts: list[Path] = []
        scratch.mkdir(parents=True)
        for incoming in complete_files(folder, settle_seconds):
            part = scratch / f"{len(parts)}.parquet"
            try:
                self._read(incoming, part, result)
            except ChangedError:
                continue  # the next run reads it
            except DataError as error:
                # Without the hint, which may quote the file.
                result.refused[incoming] = error.problem.replace(str(incoming.path), incoming.name)
                self._log(f"Refused: {result.refused[incoming]}")
                continue
            result.files.append(incoming)
            parts.append(part)
        if result.counts["new"]:
            result.batch = self._write(parts, scratch / "batch")
        return result

    def _read(self, incoming: Incoming, part: Path, result: NewRows) -> None:
        """Write the new rows of a file, and count what becomes of all once it is read to its end."""
        columns = self._columns
        new: dict[int, int] = {}
        counts: Counter[str] = Counter()
        conflicts: list[tuple[str, ...]] = []
        source = fitting_input(data_input(incoming.path, self._data.files), columns.labelled().label_columns)
        bad = BadRows(incoming.name, source.unit, columns.policy)
        schema = columns.schema
        with open_table(source) as table, pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for batch in labelled_rows(table, columns.labelled(), bad):
                counts["read"] += batch.num_rows
                complete = self._complete(batch, bad, counts)
                places = [f"{incoming.name}, {bad.unit} {row:,}" for row in complete[POSITION].to_pylist()]

                named = columns.named(complete)
                labels = with_class_names(named[columns.label], self._classes, places, columns.label)
                named[columns.label] = labels
                texts = [named[name] for name in columns.texts]
                hashes = RowHashes.of(texts, label_texts(columns.task, labels))
                name_labels(self._known.label_names, hashes, columns.task, labels)

                statuses = self._known.classify(hashes, new)
                for name, status in COUNTS.items():
                    counts[name] += int(np.count_nonzero(statuses == status))
                for row in np.flatnonzero(statuses == RowStatus.CONFLICT).tolist():
                    if len(conflicts) + len(result.conflicts) < LISTED:
                        in_data = self._known.label(int(hashes.texts[row]), new)
                        label = self._known.label_names[int(hashes.labels[row])]
                        conflicts.append(
                            (places[row], label, in_data, *(text[row].as_py() for text in texts))
                        )
                rows = pa.record_batch([named[name] for name in schema.names], names=schema.names)
                writer.write_batch(rows.cast(schema).filter(pa.array(statuses == RowStatus.NEW)))
            if not counts["read"] and not bad.count:
                raise DataError(f"{incoming.name} has no rows.", "Write labelled rows.")
        counts["bad"] = bad.count
        bad.check(counts["read"])
        incoming.check_unchanged()

        self._known.add(new)
        result.counts += counts
        result.conflicts += conflicts

    def _complete(self, batch: pa.RecordBatch, bad: BadRows, counts: Counter[str]) -> pa.RecordBatch:
        """Return the rows that have label and texts; count those without a label, and those without texts."""
        labelled = pc.is_valid(batch[LABEL])
        filled = has_text(batch.columns[: len(self._columns.texts)])
        counts["incomplete"] += batch.num_rows - labelled.true_count
        without_text = pc.and_not(labelled, filled).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(without_text).tolist():
            bad.add(RowProblem(batch[POSITION][row].as_py(), "no text", "Fill it in."))
            counts["read"] -= 1
        return batch.filter(pc.and_(labelled, filled))

    def _write(self, parts: list[Path], scratch: Path) -> Path:
        """Write the batch file, which is named after the day and its content; return its path."""
        schema = self._columns.schema
        write_batches(scratch, schema, rebatch(_batches(parts), schema))
        name = f"{datetime.now(UTC).date().isoformat()}-{file_hash(scratch)[:8]}.parquet"
        path = self.layout.batches / name
        with replace_file(self._checkout / path) as partial:
            shutil.copyfile(scratch, partial)
        return path


def _batches(parts: list[Path]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        with pq.ParquetFile(part) as file:
            yield from file.iter_batches(ROW_GROUP)
