"""The splits of the pipeline: which rows of the source they have, and their files in ``data/raw``.

A split has slices of the source, divided by ``data.split``; of these the complete and corrected rows, at most
``data.max_rows``, with labels as ids.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.download.corrector import Corrector
from stages.download.source import GROUP, INDEX, SourceSlice, StagedSplit
from tuneline.analysis.clusters import renumbered
from tuneline.analysis.corrections import dropped_file
from tuneline.analysis.splitting import assign_splits, row_hashes, strata
from tuneline.analysis.text import Keys
from tuneline.core.tables import LABELS, ROW_GROUP, numpy_values, rebatch, write_batches
from tuneline.params import Params
from tuneline.params.data import DataParams, SplitParams
from tuneline.paths import SPLITS
from tuneline.readers.label_values import written_classes
from tuneline.readers.labelled import LABEL, POSITION, LabelledColumns
from tuneline.runtime.errors import DataError
from tuneline.runtime.terminal import Progress, progress
from tuneline.runtime.wording import listed
from tuneline.tasks import Task, unnamed_task
from tuneline.tasks.columns import array_of, column_of, label_type, observed_classes, stored_labels
from tuneline.tasks.schemas import raw_schema
from tuneline.tasks.task import UNLABELLED


@dataclass(frozen=True)
class RowSelection:
    """The rows of a split of the pipeline: slices of the source, and a mask of their rows (``None``: all)."""

    slices: list[SourceSlice]
    members: NDArray[np.bool_] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        if self.members is not None:
            return int(self.members.sum())
        return sum(part.stop - part.start for part in self.slices)

    def batches(self, staged: Mapping[str, StagedSplit]) -> Iterator[tuple[StagedSplit, pa.RecordBatch]]:
        """Yield the rows, each batch with the split of the source that it comes from."""
        first = 0
        for part in self.slices:
            source = staged[part.source]
            for batch in source.batches(part.start, part.stop):
                last = first + batch.num_rows
                if self.members is None:
                    yield source, batch
                else:
                    yield source, batch.filter(pa.array(self.members[first:last]))
                first = last


def divide_train(
    params: Params, slices: list[SourceSlice], staged: Mapping[str, StagedSplit]
) -> tuple[dict[str, RowSelection], int]:
    """Divide the rows of the train split's slices as ``data.split`` asks; without it they are all train.

    Returns:
        The rows of train and of each split that is taken from it, and the number of rows without a value in
        ``data.split.by``.
    """
    split = params.data.split
    whole = RowSelection(slices)
    if split is None:
        return {"train": whole}, 0
    if split.by_time is not None:
        parts = _parts_by_time(split, whole, staged)
        return _selections(params, slices, parts), 0
    rows = []
    labels = []
    ungrouped = 0
    for _, batch in whole.batches(staged):
        texts = batch.columns[: len(params.data.text_columns)]
        groups = None
        if split.by is not None:
            groups = batch[GROUP]
            ungrouped += groups.null_count
        rows.append(row_hashes(texts, groups, params.seed))
        labels.append(batch[LABEL])

    row_strata = strata(unnamed_task(params.data.task), pa.concat_arrays(labels))
    parts = assign_splits(np.concatenate(rows), row_strata, split)
    return _selections(params, slices, parts), ungrouped


def _selections(
    params: Params, slices: list[SourceSlice], parts: NDArray[np.int8]
) -> dict[str, RowSelection]:
    """Return the rows of each split, given the split of each row."""
    selections = {}
    for name in ("train", *params.data.divided):
        selections[name] = RowSelection(slices, parts == SPLITS.index(name))
    return selections


def _parts_by_time(
    split: SplitParams, whole: RowSelection, staged: Mapping[str, StagedSplit]
) -> NDArray[np.int8]:
    """Return the split of each row by its time, as an index into ``SPLITS``.

    Raises:
        DataError: A complete row has no time, or the day may be the month.
    """
    from tuneline.analysis.time_splitting import split_by_time

    texts = []
    complete = []
    for source, batch in whole.batches(staged):
        texts.append(batch[GROUP])
        complete.append(source.complete(batch))

    def place(row: int) -> str:
        for source, batch in whole.batches(staged):
            if row < batch.num_rows:
                return source.place(batch, row)
            row -= batch.num_rows
        raise IndexError(row)

    is_complete = pa.concat_arrays(complete).to_numpy(zero_copy_only=False)
    return split_by_time(pa.concat_arrays(texts), is_complete, split, place)


def sample_rows(rows: int, at_most: int | None, seed: int) -> NDArray[np.int64]:
    """Return sorted row numbers: all of them, or ``at_most`` drawn without replacement."""
    if at_most is None or at_most >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, at_most, replace=False, shuffle=False))


MANY = 1_000
"""More distinct labels than this, and in more than half of the rows, mean that the wrong column was named."""


@dataclass(frozen=True)
class LabelEncoder:
    """Converts the labels of the source to ids.

    Attributes:
        labels: The task with its classes.
        written: How the batches of the source write each class: by its name, a whole number without decimals,
            or by its id where only ``data.label_names`` names the classes.
    """

    labels: Task
    written: tuple[str, ...]

    @classmethod
    def of(cls, staged: Mapping[str, StagedSplit], train: RowSelection, data: DataParams) -> Self:
        """Return the encoder of a regression or of the classes.

        The classes are ``data.label_names``, else the ones that the source declares, else the sorted labels
        of train.

        Raises:
            DataError: The train split has fewer than two classes, or nearly as many as rows.
        """
        unnamed = unnamed_task(data.task)
        if not unnamed.has_classes:
            return cls(unnamed, ())

        observed = _observed(unnamed, train.batches(staged))
        declared = staged[train.slices[0].source].label_names
        names = tuple(data.label_names or declared or _sorted(observed))
        written = written_classes(names, observed if data.label_names else ())
        return cls(unnamed.of_outputs(names), written)

    def ids(self, batch: pa.RecordBatch, labelled: bool) -> pa.Array:
        """Return the labels of a batch for ``data/raw``, of the type of the task.

        A missing label is null, and -1 in a split without any labels. The id of an unknown label is -1, too.
        """
        if not labelled:
            kind = label_type(self.labels)
            missing = [UNLABELLED] if pa.types.is_list(kind) else UNLABELLED
            return pa.array([missing] * batch.num_rows, kind)
        return stored_labels(self.labels, batch[LABEL], self.written)


def _sorted(names: Collection[str]) -> list[str]:
    """Return class names in the order of their ids: whole numbers as numbers, so that '2' is before '10'."""
    if all(name.removeprefix("-").isdecimal() and name.isascii() for name in names):
        return sorted(names, key=int)
    return sorted(names)


def _observed(task: Task, train: Iterable[tuple[StagedSplit, pa.RecordBatch]]) -> set[str]:
    """Return the distinct labels of train."""
    observed: set[str] = set()
    rows = 0
    for split, batch in train:
        observed |= observed_classes(task, batch[LABEL])
        rows += batch.num_rows
        # Checked in the loop: a column of texts would fill the memory with distinct labels.
        if len(observed) > MANY and 2 * len(observed) > rows:
            raise DataError(
                f"{split.name}: {len(observed):,} distinct labels in {rows:,} rows.",
                "Check that data.label_column names the label column; to predict numbers, set data.task to"
                " regression.",
            )
    if len(observed) < 2:
        only = "no label"
        if observed:
            only = f"only the label {observed.pop()!r}"
        raise DataError(
            f"The train split has {only}.",
            "A classification needs at least two classes; check data.splits and data.label_column.",
        )
    return observed


GROUP_KEY = "\0group"
"""Column with the hash of a row's group; no column of a file has this name."""


@dataclass
class RawWriter:
    """Writes one split of the pipeline; ``left_out`` counts the rows without text or label."""

    columns: LabelledColumns
    shard_rows: int
    encoder: LabelEncoder
    corrector: Corrector
    left_out: int = 0
    _groups: list[Keys] = field(default_factory=list)

    @property
    def groups(self) -> NDArray[np.int32] | None:
        """The group of each row by ``data.split.by``, from 0; ``None`` for a split that has no groups.

        It is a number, because values of the column can be names of people.
        """
        if not self._groups:
            return None
        return renumbered(np.concatenate(self._groups))

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
        split = folder.name
        schema = raw_schema(self.columns.texts, self.encoder.labels)
        drawn = None
        if at_most is not None:
            drawn = sample_rows(selection.rows, at_most, seed)
        with progress(f"download: writing {split}", selection.rows) as step:
            batches = self._batches(selection.batches(staged), drawn, schema, step)
            corrected = self._without_groups(self.corrector.apply(split, batches))
            rows = write_shards(folder, schema, corrected, self.shard_rows)
        if rows == 0:
            raise DataError(f"The {split} split has no complete row left.", self._hint())
        return rows

    def _hint(self) -> str:
        if self.corrector.left_out:
            return f"{dropped_file()} leaves out {self.corrector.left_out:,} rows: remove some of its lines."
        return (
            "Fill in its texts and labels, name another split in data.splits, or raise its fraction in"
            " data.split."
        )

    def _batches(
        self,
        batches: Iterator[tuple[StagedSplit, pa.RecordBatch]],
        drawn: NDArray[np.int64] | None,
        schema: pa.Schema,
        step: Progress,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the complete rows as ``data/raw`` has them, of all rows or of the ``drawn`` row numbers."""
        first = 0
        for staged, batch in batches:
            complete: NDArray[np.bool_] = staged.complete(batch).to_numpy(zero_copy_only=False)
            ids = self.encoder.ids(batch, staged.labelled)
            if staged.labelled:
                labels = array_of(self.encoder.labels, ids.filter(ids.is_valid()))
                valid = np.zeros(batch.num_rows, dtype=bool)
                valid[ids.is_valid().to_numpy(zero_copy_only=False)] = self.encoder.labels.valid(labels)
                self._refuse_unknown(batch, staged, complete & ~valid)

            # columns of data/raw
            texts = batch.columns[: len(self.columns.texts)]
            raw = pa.record_batch([*texts, ids, batch[INDEX]], schema=schema)
            if GROUP in batch.schema.names:
                raw = raw.append_column(GROUP_KEY, pa.array(row_hashes(texts, batch[GROUP], seed=0)))

            # rows of this batch that are drawn: `drawn` is sorted
            is_drawn = np.ones(batch.num_rows, dtype=bool)
            if drawn is not None:
                start, stop = np.searchsorted(drawn, (first, first + batch.num_rows))
                is_drawn[:] = False
                is_drawn[drawn[start:stop] - first] = True
            self.left_out += int((is_drawn & ~complete).sum())
            yield raw.filter(pa.array(is_drawn & complete))
            first += batch.num_rows
            step.advance(batch.num_rows)

    def _without_groups(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches as ``data/raw`` has them, and keep the groups of their rows."""
        for batch in batches:
            if GROUP_KEY in batch.schema.names:
                self._groups.append(numpy_values(batch[GROUP_KEY]))
                batch = batch.drop_columns(GROUP_KEY)  # noqa: PLW2901
            yield batch

    def _refuse_unknown(self, batch: pa.RecordBatch, staged: StagedSplit, unknown: NDArray[np.bool_]) -> None:
        """Refuse the first row whose label is unknown."""
        if not unknown.any():
            return
        row = int(unknown.argmax())
        label = batch[LABEL][row].as_py()
        if isinstance(label, list):
            label = next(name for name in label if name not in self.encoder.written)
        if batch[POSITION][row].as_py() == 1:
            hint = (
                "It is in the first line: if that is a header, set data.files.columns to null (`tuneline"
                " init FILE --header`)."
            )
        else:
            hint = "Correct it, or give train rows of this class: a model cannot learn a class without them."
        raise DataError(
            f"{staged.place(batch, row)}, column {self.columns.label!r}: label {label!r} is not one of"
            f" {listed(self.encoder.written)}.",
            hint,
        )


def write_shards(folder: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch], shard_rows: int) -> int:
    """Write rows as ``00000.parquet``, ``00001.parquet``, ... in a new folder, and return their number.

    Each file but the last has ``shard_rows`` rows.
    """
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
            row += part.num_rows
            start += part.num_rows


def remove_classes(files: Iterable[tuple[Path, Path]], labels: Task, empty: Collection[int]) -> Task:
    """Copy files of the raw splits, each to its path, without the empty classes.

    Returns:
        The task with the classes that are left, which get new ids.
    """
    kept = []
    for label, name in enumerate(labels.output_names):
        if label not in empty:
            kept.append(name)
    fewer = labels.of_outputs(kept)
    for path, target in files:
        with pq.ParquetFile(path) as file:
            texts = file.schema_arrow.names[:-2]  # without labels and idx
            schema = raw_schema(texts, fewer)
            write_batches(target, schema, _renumbered(file.iter_batches(ROW_GROUP), schema, labels, fewer))
    return fewer


def _renumbered(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, before: Task, after: Task
) -> Iterator[pa.RecordBatch]:
    """Yield rows with the labels of one task as labels of another; what is missing stays missing."""
    column = schema.get_field_index(LABELS)
    for batch in batches:
        labels = array_of(before, batch[LABELS])
        valid = before.valid(labels)
        translated = np.full((len(labels), *after.label_shape), UNLABELLED, after.label_dtype)
        translated[valid] = after.translated(labels[valid], before)
        yield batch.set_column(column, LABELS, column_of(after, translated)).cast(schema)
