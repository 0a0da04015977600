"""The new rows of the drop folder, file after file, as one batch file beside the data that is there.

A row is known by its texts, as the division into splits compares them: case, white space and the order of a
pair make no difference.
"""

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tuneline.core.params.data import DataParams
from tuneline.core.paths import SOURCE
from tuneline.core.runtime.errors import DataError, ParamsError
from tuneline.core.runtime.files import replace_file
from tuneline.core.runtime.terminal import listed
from tuneline.core.stage.records import file_hash
from tuneline.core.stage.tables import ROW_GROUP, rebatch, write_batches
from tuneline.model.tasks.columns import UNIT_SEPARATOR, label_texts, observed_classes, staged_type
from tuneline.operations.inbox import ChangedError, Incoming, complete_files, unread
from tuneline.rows.proposals.files import fitting_input
from tuneline.rows.reading.formats import data_input
from tuneline.rows.reading.label_values import written_classes
from tuneline.rows.reading.labelled import LABEL, POSITION, LabelledColumns, has_text, labelled_rows
from tuneline.rows.reading.rows import BadRows, RowProblem
from tuneline.rows.reading.tables import open_table
from tuneline.rows.splits.files import find_files, source_folder
from tuneline.rows.splits.splitting import row_hashes

LOGGED = 20
"""Contradicting rows of a file that the log names; all are counted."""
KINDS = ("new", "duplicate", "conflicting", "held out", "incomplete", "bad")
"""What becomes of a row, in the order in which people read it."""


@dataclass
class NewRows:
    """What a run read.

    Attributes:
        counts: Number of rows by what becomes of them: ``KINDS``.
        files: The files that were read.
        refused: The files that cannot be read, and why.
        batch: The batch file with the new rows, relative to the checkout; ``None`` if there are none.
    """

    counts: Counter[str] = field(default_factory=Counter)
    files: list[Incoming] = field(default_factory=list)
    refused: dict[Incoming, str] = field(default_factory=dict)
    batch: Path | None = None

    @property
    def summary(self) -> str:
        """The counts in words."""
        words = [f"{self.counts['new']:,} new"]
        for kind in KINDS[1:]:
            if self.counts[kind]:
                words.append(f"{self.counts[kind]:,} {kind}")
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

    def __init__(self, checkout: Path, data: DataParams, log: Callable[[str], None]) -> None:
        self._checkout = checkout
        self._data = data
        self._log = log
        train, held_out = splits_of_new_rows(data)
        self._folder = source_folder(data.path)
        self.batches = self._folder / train

        # the columns; that of group or time may be a text column or the label
        others = []
        if data.split is not None and data.split.column not in (None, data.label_column, *data.text_columns):
            others = [str(data.split.column)]
        self._columns = LabelledColumns.of(data, others)

        # the rows that the data has
        self._labels: dict[int, str | None] = {}
        self._held_out: set[int] = set()
        classes: set[str] = set()
        for path in self._files(train):
            classes |= self._read_known(path)
        for split in held_out:
            for path in self._files(split):
                self._read_known(path, self._held_out)
        self._log(f"The data has {len(self._labels):,} different rows that are labelled or held out.")
        self._classes = allowed_classes(data, classes)

    def tracked(self) -> Path:
        """Return the folder to ``dvc add``: the one that is tracked already, else that of the batches."""
        for path in (self.batches, *self.batches.parents):
            if path.name and (self._checkout / f"{path}.dvc").exists():
                return path
        return self.batches

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

    @property
    def _schema(self) -> pa.Schema:
        """Schema of a batch file."""
        columns = self._columns
        types = dict.fromkeys(columns.texts, pa.string())
        types[columns.label] = staged_type(columns.task)
        for name in columns.others:
            types[name] = pa.string()
        return pa.schema(list(types.items()))

    def _files(self, split: str) -> list[Path]:
        """List the files of a split of the source: the one that is named after it, then its batches."""
        file, batches = find_files(self._checkout / self._folder, split)
        if file is None:
            return batches
        return [file, *batches]

    def _read_known(self, path: Path, held_out: set[int] | None = None) -> set[str]:
        """Remember the rows of a file of the data, and return their classes.

        A row without a label is remembered only if it is held out: otherwise, its label is what may come. The
        file may lack the columns with label and group. Stage ``download`` limits the share of bad rows.
        """
        columns = self._columns
        optional = (columns.label, *columns.others)
        policy = replace(columns.policy, max_share=1.0)
        columns = replace(columns, optional=optional, policy=policy)
        source = data_input(path, self._data.files)
        classes: set[str] = set()
        with open_table(source) as table:
            for batch in labelled_rows(table, columns, BadRows(table.name, source.unit, policy)):
                keys = self._keys(batch)
                labels = label_texts(batch[LABEL]).to_pylist()
                for key, label in zip(keys, labels, strict=True):
                    if label is not None or held_out is not None:
                        self._labels.setdefault(key, label and sys.intern(label))
                classes |= observed_classes(columns.task, batch[LABEL]).keys()
                if held_out is not None:
                    held_out.update(keys)
        return classes

    def _keys(self, batch: pa.RecordBatch) -> list[int]:
        """Return a hash of the texts of each row."""
        if not batch.num_rows:
            return []
        keys: list[int] = row_hashes(batch.columns[: len(self._columns.texts)], None, 0).tolist()
        return keys

    def _read(self, incoming: Incoming, part: Path, result: NewRows) -> None:
        """Write the new rows of a file, and count what becomes of all once it is read to its end."""
        columns = self._columns
        schema = self._schema
        new: dict[int, str | None] = {}
        counts: Counter[str] = Counter()
        source = fitting_input(data_input(incoming.path, self._data.files), columns.label_columns)
        bad = BadRows(incoming.name, source.unit, columns.policy)
        with open_table(source) as table, pq.ParquetWriter(part, schema, compression="zstd") as writer:
            for batch in labelled_rows(table, columns, bad):
                counts["read"] += batch.num_rows
                complete = self._complete(batch, bad, counts)
                places = [f"{incoming.name}, {bad.unit} {row:,}" for row in complete[POSITION].to_pylist()]
                self._check_classes(complete[LABEL], places)

                labels = label_texts(complete[LABEL]).to_pylist()
                is_new = []
                for row, key in enumerate(self._keys(complete)):
                    kind = self._kind(key, labels[row], new)
                    counts[kind] += 1
                    is_new.append(kind == "new")
                    if kind == "conflicting" and counts[kind] <= LOGGED:
                        in_data = _shown(self._labels.get(key, new.get(key)))
                        self._log(f"{places[row]}: {_shown(labels[row])}, but {in_data} in the data")

                # In the order of the schema; the position is left out.
                *read, label, _position = complete.columns
                read.insert(len(columns.texts), label)
                rows = pa.record_batch(read, names=schema.names).cast(schema)
                writer.write_batch(rows.filter(pa.array(is_new, pa.bool_())))
            if not counts["read"] and not bad.count:
                raise DataError(f"{incoming.name} has no rows.", "Write labelled rows.")
        counts["bad"] = bad.count
        bad.check(counts["read"])
        incoming.check_unchanged()

        self._labels |= new
        result.counts += counts

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

    def _check_classes(self, labels: pa.Array, places: list[str]) -> None:
        """Refuse a file with a label that is not a class; the message has its place and column."""
        if not self._classes:
            return
        for place, label in zip(places, labels.to_pylist(), strict=True):
            names = label if isinstance(label, list) else [label]
            if not self._classes.issuperset(names):
                classes = listed(sorted(self._classes))
                hint = "Correct it; a new class must be listed in data.label_names, with all others."
                where = f"{place}, column {self._columns.label!r}"
                raise DataError(f"{where}: the label is not one of {classes}.", hint)

    def _kind(self, key: int, label: str | None, new: dict[int, str | None]) -> str:
        """Return what becomes of a row; remember a new one."""
        if key in self._labels:
            known = self._labels[key]
        elif key in new:
            known = new[key]
        else:
            new[key] = label
            return "new"
        if known not in (None, label):
            return "conflicting"
        if key in self._held_out:
            return "held out"
        return "duplicate"

    def _write(self, parts: list[Path], scratch: Path) -> Path:
        """Write the batch file, which is named after the day and its content; return its path."""
        write_batches(scratch, self._schema, rebatch(_batches(parts), self._schema))
        name = f"{datetime.now(UTC).date().isoformat()}-{file_hash(scratch)[:8]}.parquet"
        path = self.batches / name
        with replace_file(self._checkout / path) as partial:
            shutil.copyfile(scratch, partial)
        return path


def _batches(parts: list[Path]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        with pq.ParquetFile(part) as file:
            yield from file.iter_batches(ROW_GROUP)


def _shown(label: str | None) -> str:
    """Return a label of ``label_texts`` for people."""
    return "; ".join((label or "").split(UNIT_SEPARATOR)) or "(none)"


def splits_of_new_rows(data: DataParams) -> tuple[str, list[str]]:
    """Return the split of the source that gets new rows, and the splits that are held out.

    Raises:
        ParamsError: New rows cannot be added, or could change the split of other rows.
    """
    if data.source != "files":
        raise ParamsError(
            f"data.source is {data.source!r}: new rows are added to files under {SOURCE}/.",
            "Set up your own data with `tuneline init FILE`.",
        )
    if data.split is not None and data.split.stratify:
        raise ParamsError(
            "data.split.stratify is true: added rows would move a few others to another split.",
            "Set it to false: the split of a row then follows from the row alone (docs/your-data.md).",
        )
    specs = data.source_specs
    train = specs.pop("train")
    return train, list(specs.values())


def allowed_classes(data: DataParams, classes: set[str]) -> set[str]:
    """Return the labels that a new row may have, as the data writes them; empty if any is allowed.

    These are the classes of the data and of ``data.label_names``, by id if the data has ids.
    """
    if data.label_sets is not None and data.label_sets.columns is not None:
        return classes | set(data.label_sets.columns)  # also one that no row has
    return classes | set(written_classes(data.label_names or (), classes))
