"""The splits of the pipeline: which rows of the source they have, and their files in ``data/raw``.

A split has the rows of a split of the source, or those that ``data.split`` takes from it; of these the
complete and corrected rows, at most ``data.max_rows``, with labels as ids.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.params import Params
from tuneline.core.params.data import DataParams
from tuneline.core.paths import SPLITS
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import Progress, listed, progress
from tuneline.core.stage.provenance import AppliedCorrections, SplitSource
from tuneline.core.stage.tables import (
    GROUP_COLUMN,
    LABELS,
    numpy_values,
    rebatch,
    shard_file,
    write_batches,
    write_numbers,
)
from tuneline.core.stage.texts import Keys, renumbered
from tuneline.model.tasks import Task, unnamed_task
from tuneline.model.tasks.columns import array_of, label_type, observed_classes, raw_schema, stored_labels
from tuneline.model.tasks.task import UNLABELLED
from tuneline.rows.reading.label_values import sorted_names, written_classes
from tuneline.rows.reading.labelled import LABEL, LabelledColumns
from tuneline.rows.reading.limits import MANY_LABELS
from tuneline.rows.splits.corrections import Corrections, dropped_file
from tuneline.rows.splits.corrector import Corrector
from tuneline.rows.splits.source import GROUP, INDEX, StagedSplit
from tuneline.rows.splits.splitting import assign_splits, row_hashes, split_by_time, strata

WORK = "work"
"""Temporary folder: copies of the splits of the source, and files of the raw splits."""


@dataclass(frozen=True)
class RowSelection:
    """The rows of a split of the pipeline: a split of the source, and a mask of its rows (``None``: all)."""

    staged: StagedSplit
    members: NDArray[np.bool_] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        if self.members is not None:
            return int(self.members.sum())
        return self.staged.rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        first = 0
        for batch in self.staged.batches():
            last = first + batch.num_rows
            if self.members is None:
                yield batch
            else:
                yield batch.filter(pa.array(self.members[first:last]))
            first = last


def divide_train(params: Params, train: StagedSplit) -> dict[str, RowSelection]:
    """Divide the rows of ``data.splits.train`` as ``data.split`` asks; without it they are all train.

    Returns:
        The rows of train and of each split that is taken from it.

    Raises:
        DataError: ``data.split.by_time``: a complete row has no time, or the day may be the month.
    """
    split = params.data.split
    if split is None:
        return {"train": RowSelection(train)}
    groups: list[pa.Array] = []
    hashes = []
    labels = []
    complete = []
    for batch in train.batches():
        texts = batch.columns[: len(params.data.text_columns)]
        group = None
        if split.column is not None:
            group = batch[GROUP]
            groups.append(group)
        hashes.append(row_hashes(texts, group, params.seed))
        labels.append(batch[LABEL])
        complete.append(train.complete(batch))

    if split.by_time is not None:
        is_complete = pa.concat_arrays(complete).to_numpy(zero_copy_only=False)
        parts = split_by_time(pa.concat_arrays(groups), is_complete, split, train.place_of)
    else:
        row_strata = strata(unnamed_task(params.data.task), pa.concat_arrays(labels))
        parts = assign_splits(np.concatenate(hashes), row_strata, split)

    selections = {}
    for name in SPLITS:
        if name == "train" or name in params.data.divided:
            selections[name] = RowSelection(train, parts == SPLITS.index(name))
    return selections


def sample_rows(rows: int, at_most: int | None, seed: int) -> NDArray[np.int64]:
    """Return sorted row numbers: all of them, or ``at_most`` drawn without replacement."""
    if at_most is None or at_most >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, at_most, replace=False, shuffle=False))


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
    def of(cls, train: RowSelection, data: DataParams) -> Self:
        """Return the encoder of a regression or of the classes.

        The classes are ``data.label_names``, else the ones that the source declares, else the sorted labels
        of train.

        Raises:
            DataError: The train split has fewer than two classes, or nearly as many as rows.
        """
        unnamed = unnamed_task(data.task)
        if not unnamed.has_classes:
            return cls(unnamed, ())

        observed = _observed(unnamed, train)
        names = tuple(data.label_names or train.staged.label_names or sorted_names(observed))
        written = written_classes(names, observed if data.label_names else ())
        task = unnamed.of_outputs(names)
        if task.one_class and len(names) == 2 and observed[written[0]] < observed[written[1]]:
            task = task.with_decisions({"positive": names[0]})
        return cls(task, written)

    def ids(self, batch: pa.RecordBatch, labelled: bool) -> pa.Array:
        """Return the labels of a batch for ``data/raw``, of the type of the task.

        A missing label is null, and -1 in a split without any labels. The id of an unknown label is -1, too.
        """
        if not labelled:
            kind = label_type(self.labels)
            missing = [UNLABELLED] if pa.types.is_list(kind) else UNLABELLED
            return pa.array([missing] * batch.num_rows, kind)
        return stored_labels(self.labels, batch[LABEL], self.written)


def _observed(task: Task, train: RowSelection) -> Counter[str]:
    """Return how often each label is in train."""
    observed: Counter[str] = Counter()
    rows = 0
    for batch in train.batches():
        observed.update(observed_classes(task, batch[LABEL]))
        rows += batch.num_rows
        # Checked in the loop: a column of texts would fill the memory with distinct labels.
        if len(observed) > MANY_LABELS and 2 * len(observed) > rows:
            raise DataError(
                f"{train.staged.name}: {len(observed):,} distinct labels in {rows:,} rows.",
                "Check that data.label_column names the label column; to predict numbers, set data.task to"
                " regression.",
            )
    if len(observed) < 2:
        only = "no label"
        if observed:
            only = f"only the label {min(observed)!r}"
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
            batches = self._batches(selection, drawn, schema, step)
            corrected = self._without_groups(self.corrector.apply(split, batches))
            rows = write_shards(folder, schema, corrected, self.shard_rows)
        if rows == 0:
            raise DataError(
                f"The {split} split has no complete row left.",
                "Fill in its texts and labels, name another split in data.splits, raise its fraction in"
                f" data.split, or remove lines from {dropped_file()}.",
            )
        return rows

    def _batches(
        self,
        selection: RowSelection,
        drawn: NDArray[np.int64] | None,
        schema: pa.Schema,
        step: Progress,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the complete rows as ``data/raw`` has them, of all rows or of the ``drawn`` row numbers."""
        first = 0
        staged = selection.staged
        for batch in selection.batches():
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
        raise DataError(
            f"{staged.place(batch, row)}, column {self.columns.label!r}: label {label!r} is not one of"
            f" {listed(self.encoder.written)}.",
            "Correct it, or give train rows of this class: a model cannot learn a class without them.",
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


def refuse_unlabelled(split: str, selection: RowSelection) -> None:
    """Refuse a split without labels: no model can be trained or evaluated on it."""
    if not selection.staged.labelled:
        raise DataError(
            f"{selection.staged.name} has no labels (all are -1 or missing), but the {split} split"
            " needs them.",
            "Published test splits often have none: name another in data.splits, or evaluate on"
            " validation (evaluate.split).",
        )


def refuse_constant(split: str, files: Sequence[Path]) -> None:
    """Refuse a split of a regression whose targets are all equal.

    Nothing is learned from such targets, and no model correlates with them.
    """
    targets: list[pa.Array] = []
    for path in files:
        targets += pq.read_table(path, columns=[LABELS])[LABELS].chunks
    values = pc.unique(pa.chunked_array(targets))
    if len(values) < 2:
        raise DataError(
            f"All targets of the {split} split are {values[0].as_py():g}.",
            "A regression needs different numbers; check data.label_column, data.splits and data.max_rows.",
        )


def write_splits(
    params: Params, selections: Mapping[str, RowSelection], folder: Path, groups: Path
) -> tuple[dict[str, SplitSource], tuple[str, ...] | None, AppliedCorrections | None]:
    """Write the Parquet files of the three splits.

    Returns:
        The origin of each split, the class names, and what was corrected.
    """
    data = params.data
    encoder = LabelEncoder.of(selections["train"], data)
    labels = encoder.labels
    corrector = Corrector(Corrections.read(), data.text_columns, labels)

    splits: dict[str, SplitSource] = {}
    for position, split in enumerate(SPLITS):
        written = folder / WORK / split
        writer = RawWriter(LabelledColumns.of(data), data.shard_rows, encoder, corrector)
        rows = writer.write(written, selections[split], data.max_rows, params.seed + position)
        if writer.groups is not None:
            write_numbers(groups / f"{split}.parquet", GROUP_COLUMN, writer.groups)

        # shards, whose names in data/raw have their number: known only now
        count = math.ceil(rows / data.shard_rows)
        files = [shard_file(folder, split, number, count) for number in range(count)]
        for number, path in enumerate(files):
            (written / f"{number:05d}.parquet").replace(path)
        if not labels.has_classes and split in {"train", params.evaluate.split}:
            refuse_constant(split, files)

        specification = data.source_specs.get(split, data.splits.train)
        splits[split] = SplitSource(specification=specification, rows=rows, left_out=writer.left_out)
    return splits, labels.names, corrector.report()
