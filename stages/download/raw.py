"""Writes ``data/raw`` from the staged splits: complete rows, labels as ids, at most ``data.max_rows``, corrected by ``data/corrections/``.

Corrections are applied to the rows that are written, after the division into splits, so that no other row
changes its split.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.download.source import GROUP, INDEX, SourceSlice, StagedSplit
from tuneline.analysis.corrections import KEY, LATER, Corrections, dropped_file, label_file, row_keys
from tuneline.core.errors import DataError
from tuneline.core.hashes import file_hash
from tuneline.core.paths import SPLITS
from tuneline.core.raw_source import AppliedCorrections
from tuneline.core.tables import LABELS, ROW_GROUP, UNLABELLED, raw_schema, rebatch, write_batches
from tuneline.core.terminal import Progress, progress, say
from tuneline.params import Params
from tuneline.params.data import DataParams
from tuneline.readers.labelled import LABEL, POSITION, LabelledColumns, written_classes
from tuneline.readers.rows import listed
from tuneline.tasks import TASKS, Task


@dataclass(frozen=True)
class RowSelection:
    """The rows of one split of the pipeline: slices of the source, and a mask of their rows; ``None`` for all."""

    slices: list[SourceSlice]
    members: NDArray[np.bool_] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return (
            sum(part.stop - part.start for part in self.slices)
            if self.members is None
            else int(self.members.sum())
        )

    def batches(self, staged: Mapping[str, StagedSplit]) -> Iterator[tuple[StagedSplit, pa.RecordBatch]]:
        """Yield the rows, each batch with the split of the source that it comes from."""
        first = 0
        for part in self.slices:
            for batch in staged[part.source].batches(part.start, part.stop):
                last = first + batch.num_rows
                yield (
                    staged[part.source],
                    batch if self.members is None else batch.filter(pa.array(self.members[first:last])),
                )
                first = last


def divide_train(
    params: Params, slices: list[SourceSlice], staged: Mapping[str, StagedSplit]
) -> tuple[dict[str, RowSelection], int]:
    """Divide the rows of the train split's slices as ``data.split`` asks; without it they are all train.

    Return the rows of train and of each split that is taken from it, and the number of rows without a value
    in ``data.split.by``.
    """
    split, whole = params.data.split, RowSelection(slices)
    if split is None:
        return {"train": whole}, 0
    from tuneline.analysis.splitting import assign_splits, hashes, row_hashes

    rows, labels, ungrouped, kind = [], [], 0, TASKS[params.data.task]
    for _, batch in whole.batches(staged):
        groups = batch[GROUP] if split.by is not None else None
        ungrouped += groups.null_count if groups is not None else 0
        rows.append(row_hashes(batch.columns[: len(params.data.text_columns)], groups, params.seed))
        labels.append(hashes(kind.strata(batch[LABEL])))
    parts = assign_splits(np.concatenate(rows), np.concatenate(labels), split)
    return {
        name: RowSelection(slices, parts == SPLITS.index(name)) for name in ("train", *params.data.divided)
    }, ungrouped


MANY = 1_000
"""More distinct labels than this, and in more than half of the rows, mean that the wrong column was named."""


@dataclass(frozen=True)
class LabelEncoder:
    """Converts the labels of the source to ids.

    ``written`` is how its batches write each class: by its name, a whole number without decimals, or by its
    id where only ``data.label_names`` names the classes.
    """

    labels: Task
    written: tuple[str, ...]

    @classmethod
    def of(cls, staged: Mapping[str, StagedSplit], train: RowSelection, data: DataParams) -> Self:
        """Return the encoder of a regression, or of the given classes, else those of the source, else the sorted ones of train.

        A train split with fewer than two classes, or nearly as many as rows, is refused.
        """
        kind = TASKS[data.task]
        if not kind.has_classes:
            return cls(kind.of_outputs(()), ())
        observed, given = _observed(train.batches(staged)), data.label_names
        declared = next((staged[part.source].label_names for part in train.slices), None)
        are_numbers = all(name.removeprefix("-").isdecimal() and name.isascii() for name in observed)
        names = tuple(
            given or declared or sorted(observed, key=int if are_numbers else None)
        )  # as numbers, '2' is before '10'
        return cls(kind.of_outputs(names), written_classes(names, observed if given else ()))

    def ids(self, batch: pa.RecordBatch, labelled: bool) -> pa.Array:
        """Return the labels of a batch for ``data/raw``, int64 or float32: null where missing, -1 in a split without any labels.

        The id of an unknown label is -1, too.
        """
        if not labelled:
            return pa.array([UNLABELLED] * batch.num_rows, self.labels.label_type)
        return self.labels.stored(batch[LABEL], self.written)


def _observed(train: Iterable[tuple[StagedSplit, pa.RecordBatch]]) -> set[str]:
    observed: set[str] = set()
    rows = 0
    for split, batch in train:
        observed.update(pc.unique(batch[LABEL].drop_null()).to_pylist())
        rows += batch.num_rows
        if len(observed) > MANY and 2 * len(observed) > rows:
            raise DataError(
                f"{split.name}: {len(observed):,} distinct labels in {rows:,} rows.",
                "Check that data.label_column names the label column; to predict numbers, set data.task to"
                " regression.",
            )
    if len(observed) < 2:
        only = f"only the label {observed.pop()!r}" if observed else "no label"
        raise DataError(
            f"The train split has {only}.",
            "A classification needs at least two classes; check data.splits and data.label_column.",
        )
    return observed


def sample_rows(rows: int, at_most: int | None, seed: int) -> NDArray[np.int64]:
    """Return sorted row numbers: all of them, or ``at_most`` drawn without replacement."""
    if at_most is None or at_most >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, at_most, replace=False, shuffle=False))


Ids = NDArray[np.int64]
NAMED = 5
"""Lines that a warning names."""


class Lookup:
    """Finds the entries of a file of corrections by the hash of a row's texts."""

    def __init__(self, keys: pa.ChunkedArray) -> None:
        hashes = np.array(keys.to_pylist(), dtype="S32")
        self._order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._order]

    def find(self, keys: NDArray[np.bytes_]) -> tuple[Ids, Ids]:
        """Return all pairs of a row and an entry with the same hash: positions in ``keys`` and entries, in the order of the rows."""
        first, stop = (
            np.searchsorted(self._sorted, keys, "left"),
            np.searchsorted(self._sorted, keys, "right"),
        )
        rows = np.repeat(np.arange(len(keys)), stop - first)
        offsets = np.arange(len(rows)) - np.repeat(np.cumsum(stop - first) - (stop - first), stop - first)
        return rows, self._order[np.repeat(first, stop - first) + offsets]


class Corrector:
    """Corrects the rows of the splits, in the order in which they are written, and counts what the corrections did."""

    def __init__(self, corrections: Corrections, text_columns: Sequence[str], task: Task) -> None:
        self._task = task
        self._labels, self._dropped = corrections.labels, corrections.dropped
        self._texts = list(text_columns)
        self._by_label, self._by_dropped = Lookup(self._labels[KEY]), Lookup(self._dropped[KEY])
        self._before, self._after = (task.parsed(self._labels[name]) for name in ("before", "after"))
        self._usable = task.valid(self._after)
        self._from = np.array(self._dropped["split"].to_pylist(), dtype=object)
        self._later = np.array(self._dropped["rows"].to_pylist(), dtype=object) == LATER
        # Of each label correction: a row has its texts; it applied; a row has its texts and a label of
        # neither side.
        self._found, self._applied, self._differs = np.zeros((3, self._labels.num_rows), dtype=bool)
        self._matched = np.zeros(self._dropped.num_rows, dtype=bool)
        self.relabelled = self.left_out = 0
        self._taken: set[int] = set()  # classes that rows had before they were corrected or left out
        self._present: set[int] = set()  # classes of the rows that are written

    def apply(self, split: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the corrected rows of a split, given those of ``data/raw``."""
        if not self._labels.num_rows and not self._dropped.num_rows:
            yield from batches
            return
        for batch in batches:
            keys = np.array(row_keys([batch[name] for name in self._texts]).to_pylist(), dtype="S32")
            kept = pa.array(self._keep(split, keys))
            corrected = self._relabel(batch, keys)
            taken = pc.or_(pc.not_equal(batch[LABELS], corrected[LABELS]), pc.invert(kept))
            self._taken |= self._task.observed(batch[LABELS].filter(taken))
            self._present |= self._task.observed(corrected[LABELS].filter(kept))
            yield corrected.filter(kept)

    def _relabel(self, batch: pa.RecordBatch, keys: NDArray[np.bytes_]) -> pa.RecordBatch:
        rows, entries = self._by_label.find(keys)
        if not len(rows):
            return batch
        index = batch.schema.get_field_index(LABELS)
        values = batch.column(index).to_numpy(zero_copy_only=False).copy()
        current = values[rows]
        self._found[entries] = True
        usable = (current == self._before[entries]) & self._usable[entries]
        self._applied[entries[usable]] = True
        self._differs[entries[~usable & (current != self._after[entries])]] = True
        values[rows[usable]] = self._after[entries[usable]]
        self.relabelled += len(rows[usable])
        return batch.set_column(
            index, batch.schema.field(index), pa.array(values, batch.schema.field(index).type)
        )

    def _keep(self, split: str, keys: NDArray[np.bytes_]) -> NDArray[np.bool_]:
        rows, entries = self._by_dropped.find(keys)
        here = (self._from[entries] == "") | (self._from[entries] == split)
        rows, entries = rows[here], entries[here]
        is_first = np.zeros(len(rows), dtype=bool)
        is_first[np.unique(entries, return_index=True)[1]] = True
        spared = self._later[entries] & is_first & ~self._matched[entries]
        self._matched[entries] = True
        kept = np.ones(len(keys), dtype=bool)
        kept[rows[~spared]] = False
        self.left_out += int((~kept).sum())
        return kept

    def emptied_classes(self) -> list[int]:
        """Return the ids of the classes that had rows and have none now; none if fewer than two others are left."""
        empty = sorted(self._taken - self._present - {UNLABELLED})
        return empty if len(self._present - {UNLABELLED}) > 1 else []

    def report(self) -> AppliedCorrections | None:
        """Print what was applied and what was not, and return it; ``None`` without corrections."""
        if not self._labels.num_rows and not self._dropped.num_rows:
            return None
        labels = f"{self.relabelled:,} label{'s' * (self.relabelled != 1)} corrected"
        say(
            f"download: {labels}, {self.left_out:,} row{'s' * (self.left_out != 1)} left out, as"
            " data/corrections says."
        )
        stale, done = self._differs & ~self._applied, self._found & ~self._applied & ~self._differs
        lost = (
            "The source has lost these rows or changed their texts, or data.max_rows, data.as_of or"
            " data.last_days leaves them out."
        )
        _warn(label_file(), ~self._found, "match no row of this data", lost)
        _warn(
            label_file(),
            stale,
            "are not applied",
            "Their rows have another label now than the one that was corrected.",
        )
        _warn(label_file(), done, "are not needed", "The source has these labels by now: remove the lines.")
        _warn(dropped_file(), ~self._matched, "match no row of this data", lost)
        return AppliedCorrections(
            labels=self.relabelled,
            dropped=self.left_out,
            unmatched=int((~self._found).sum() + (~self._matched).sum()),
            stale=int(stale.sum()),
            sha256={path.name: file_hash(path) for path in (label_file(), dropped_file()) if path.exists()},
        )


def _warn(path: Path, entries: NDArray[np.bool_], problem: str, hint: str) -> None:
    if lines := (np.flatnonzero(entries)[:NAMED] + 2).tolist():
        more = ", ..." if entries.sum() > NAMED else ""
        where = f"{path}, line {', '.join(map(str, lines))}{more}"
        say(
            f"download: warning: {entries.sum():,} of {len(entries):,} corrections {problem} ({where})."
            f" {hint}"
        )


@dataclass
class RawWriter:
    """Writes one split of the pipeline; ``left_out`` counts the rows without text or label."""

    columns: LabelledColumns
    shard_rows: int
    encoder: LabelEncoder
    corrector: Corrector
    left_out: int = 0

    def write(
        self,
        folder: Path,
        staged: Mapping[str, StagedSplit],
        selection: RowSelection,
        at_most: int | None,
        seed: int,
    ) -> int:
        """Write the rows of a split, into the folder of its name, and return their number, at least one.

        Every label is checked, also of rows that are not drawn: a run on few rows finds the same errors as a
        run on all.
        """
        schema = raw_schema(self.columns.texts, self.encoder.labels)
        chosen = None if at_most is None else sample_rows(selection.rows, at_most, seed)
        with progress(f"download: writing {folder.name}", selection.rows) as step:
            batches = self._batches(selection.batches(staged), chosen, schema, step)
            rows = write_shards(folder, schema, self.corrector.apply(folder.name, batches), self.shard_rows)
        if rows == 0:
            hint = (
                "Fill in its texts and labels, name another split in data.splits, or raise its fraction in"
                " data.split."
            )
            if self.corrector.left_out:
                hint = (
                    f"{dropped_file()} leaves out {self.corrector.left_out:,} rows: remove some of its lines."
                )
            raise DataError(f"The {folder.name} split has no complete row left.", hint)
        return rows

    def _batches(
        self,
        batches: Iterator[tuple[StagedSplit, pa.RecordBatch]],
        chosen: NDArray[np.int64] | None,
        schema: pa.Schema,
        step: Progress,
    ) -> Iterator[pa.RecordBatch]:
        first = 0
        for staged, batch in batches:
            complete: NDArray[np.bool_] = staged.complete(batch).to_numpy(zero_copy_only=False)
            ids = self.encoder.ids(batch, staged.labelled)
            if staged.labelled:
                known = self.encoder.labels.valid(ids.to_numpy(zero_copy_only=False))
                self._refuse(batch, staged, complete & ~known)
            raw = pa.record_batch(
                [*batch.columns[: len(self.columns.texts)], ids, batch[INDEX]], schema=schema
            )
            keep = np.ones(batch.num_rows, dtype=bool)
            if chosen is not None:
                start, stop = np.searchsorted(chosen, (first, first + batch.num_rows))
                keep[:] = False
                keep[chosen[start:stop] - first] = True
            self.left_out += int((keep & ~complete).sum())
            yield raw.filter(pa.array(keep & complete))
            first += batch.num_rows
            step.advance(batch.num_rows)

    def _refuse(self, batch: pa.RecordBatch, staged: StagedSplit, unknown: NDArray[np.bool_]) -> None:
        if unknown.any():
            row = int(unknown.argmax())
            where, name = (
                f"{staged.place(batch, row)}, column {self.columns.label!r}",
                batch[LABEL][row].as_py(),
            )
            hint = "Correct it; if the train split lacks this class, list all classes in data.label_names."
            if batch[POSITION][row].as_py() == 1:
                hint = (
                    "It is in the first line: if that is a header, set data.files.columns to null (`tuneline"
                    " init FILE --header`)."
                )
            raise DataError(f"{where}: label {name!r} is not one of {listed(self.encoder.written)}.", hint)


def write_shards(folder: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch], shard_rows: int) -> int:
    """Write rows as ``00000.parquet``, ``00001.parquet``, ... of ``shard_rows`` rows in a new folder, and return their number."""
    folder.mkdir(parents=True)
    rows = 0
    for number, numbered in groupby(_cut(batches, shard_rows), itemgetter(0)):
        shard = (batch for _, batch in numbered)
        rows += write_batches(folder / f"{number:05d}.parquet", schema, rebatch(shard, schema))
    return rows


def _cut(batches: Iterator[pa.RecordBatch], shard_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows with the number of their shard."""
    row = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, shard_rows - row % shard_rows)
            yield row // shard_rows, part
            row, start = row + part.num_rows, start + part.num_rows


def remove_classes(files: Iterable[tuple[Path, Path]], labels: Task, empty: Collection[int]) -> Task:
    """Copy files of the raw splits, each to its path, without the empty classes; return the schema of the others, which get new ids."""
    kept = [label for label in range(labels.outputs) if label not in empty]
    fewer = labels.of_outputs([labels.label_text(label) for label in kept])
    for path, target in files:
        with pq.ParquetFile(path) as file:
            schema = raw_schema(file.schema_arrow.names[:-2], fewer)
            batches = (
                (batch, pc.index_in(batch[LABELS], value_set=pa.array(kept, pa.int64())))
                for batch in file.iter_batches(ROW_GROUP)
            )
            numbered = ((batch, pc.fill_null(ids, UNLABELLED).cast(pa.int64())) for batch, ids in batches)
            place = schema.get_field_index(LABELS)
            write_batches(
                target, schema, (batch.set_column(place, LABELS, ids).cast(schema) for batch, ids in numbered)
            )
    return fewer
