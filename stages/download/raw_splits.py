"""Files of ``data/raw``, from the staged splits: complete and corrected rows, at most ``data.max_rows``."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.download.corrector import Corrector
from stages.download.label_encoding import LabelEncoder
from stages.download.row_selection import RowSelection, sample_rows
from stages.download.source import GROUP, INDEX, StagedSplit
from tuneline.analysis.clusters import renumbered
from tuneline.analysis.corrections import dropped_file
from tuneline.analysis.splitting import row_hashes
from tuneline.analysis.text import Keys
from tuneline.core.tables import LABELS, ROW_GROUP, numpy_values, rebatch, write_batches
from tuneline.readers.labelled import LABEL, POSITION, LabelledColumns
from tuneline.runtime.errors import DataError
from tuneline.runtime.terminal import Progress, progress
from tuneline.runtime.wording import listed
from tuneline.tasks import Task
from tuneline.tasks.columns import array_of, column_of
from tuneline.tasks.schemas import raw_schema
from tuneline.tasks.task import UNLABELLED

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
