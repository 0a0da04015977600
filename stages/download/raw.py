"""Writes ``data/raw`` from the staged splits: complete rows, labels as ids, at most ``data.max_rows``."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.download.correct import Corrector
from stages.download.selection import Selection
from stages.download.shards import write_shards
from stages.download.source import LABEL, SourceColumns
from stages.download.staged import INDEX, StagedSplit
from stages.download.values import class_texts
from tuneline.corrections import dropped_file
from tuneline.errors import DataError
from tuneline.files.schemas import UNLABELLED, LabelSchema, raw_schema
from tuneline.readers.rows import listed
from tuneline.terminal import Progress, progress

MANY = 1_000
"""More distinct labels than this, and in more than half of the rows, mean that the wrong column was named."""


@dataclass(frozen=True)
class LabelEncoder:
    """Converts the labels of the source to ids.

    Attributes:
        labels: The label schema of ``data/raw``.
        written: How the batches of the source write each class: by its name, a whole number without decimals, or by its id where only
            ``data.label_names`` names the classes.
    """

    labels: LabelSchema
    written: tuple[str, ...]

    @classmethod
    def regression(cls) -> Self:
        """Return the encoder of a regression."""
        return cls(LabelSchema(None), ())

    @classmethod
    def classification(cls, staged: Mapping[str, StagedSplit], train: Selection, given: Sequence[str] | None) -> Self:
        """Return the encoder of a classification: with the given names, else those of the source, else the sorted ones of train.

        Args:
            staged: The splits of the source.
            train: The rows of the train split.
            given: ``data.label_names``.

        Raises:
            DataError: The train split has fewer than two classes, or nearly as many as rows.
        """
        observed = _observed(train.batches(staged))
        declared = next((staged[part.source].label_names for part in train.slices), None)
        names = tuple(given or declared or sorted_names(observed))
        ids = tuple(str(position) for position in range(len(names)))
        written = tuple(class_texts(pa.array(names, pa.string())).to_pylist())
        if given and not observed <= set(written) and observed <= set(ids):
            written = ids
        return cls(LabelSchema(names), written)

    def ids(self, batch: pa.RecordBatch, labelled: bool) -> pa.Array:
        """Return the labels of a batch for ``data/raw``, int64 or float32: null where missing, -1 in a split without any labels.

        The id of an unknown label is -1, too.
        """
        if not labelled:
            return pa.array([UNLABELLED] * batch.num_rows, self.labels.type)
        values = batch[LABEL]
        if self.labels.is_regression:
            return values.cast(pa.float32(), safe=False)
        ids = pc.index_in(values, value_set=pa.array(self.written, pa.string()))
        return pc.if_else(pc.is_null(values), None, pc.fill_null(ids, UNLABELLED)).cast(pa.int64())


def _observed(train: Iterable[tuple[StagedSplit, pa.RecordBatch]]) -> set[str]:
    observed: set[str] = set()
    rows = 0
    for split, batch in train:
        observed.update(pc.unique(batch[LABEL].drop_null()).to_pylist())
        rows += batch.num_rows
        if len(observed) > MANY and 2 * len(observed) > rows:
            raise DataError(
                f"{split.name}: {len(observed):,} distinct labels in {rows:,} rows.",
                "Check that data.label_column names the label column; to predict numbers, set data.task to regression.",
            )
    if len(observed) < 2:
        only = f"only the label {observed.pop()!r}" if observed else "no label"
        raise DataError(
            f"The train split has {only}.", "A classification needs at least two classes; check data.splits and data.label_column."
        )
    return observed


def sorted_names(names: set[str]) -> tuple[str, ...]:
    """Sort class names: as numbers where all are whole numbers ('2' before '10'), else as text."""
    if all(name.removeprefix("-").isdecimal() and name.isascii() for name in names):
        return tuple(sorted(names, key=int))
    return tuple(sorted(names))


def unknown_label(where: str, name: str, encoder: LabelEncoder) -> DataError:
    """Return the error for a label that is not a class."""
    hint = "Correct it; if the train split lacks this class, list all classes in data.label_names."
    return DataError(f"{where}: label {name!r} is not one of {listed(encoder.written)}.", hint)


def sample_rows(rows: int, at_most: int | None, seed: int) -> NDArray[np.int64]:
    """Return sorted row numbers: all of them, or ``at_most`` drawn without replacement."""
    if at_most is None or at_most >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, at_most, replace=False, shuffle=False))


@dataclass
class RawWriter:
    """Writes one split of the pipeline.

    Attributes:
        columns: The columns asked for.
        shard_rows: Most rows of a file.
        encoder: Converts labels to ids.
        corrector: Corrects the rows that are written.
        left_out: Number of rows without text or label, which were left out.
    """

    columns: SourceColumns
    shard_rows: int
    encoder: LabelEncoder
    corrector: Corrector
    left_out: int = 0

    def write(self, folder: Path, staged: Mapping[str, StagedSplit], selection: Selection, at_most: int | None, seed: int) -> int:
        """Write the rows of a split, into the folder of its name, and return their number.

        Every label is checked, also of rows that are not drawn: a run on few rows finds the same errors as a run on all.

        Raises:
            DataError: A label is unknown, or no row is left.
        """
        schema = raw_schema(self.columns.text_columns, self.encoder.labels)
        chosen = None if at_most is None else sample_rows(selection.rows, at_most, seed)
        with progress(f"download: writing {folder.name}", selection.rows) as step:
            batches = self._batches(selection.batches(staged), chosen, schema, step)
            rows = write_shards(folder, schema, self.corrector.apply(folder.name, batches), self.shard_rows)
        if rows == 0:
            hint = "Fill in its texts and labels, name another split in data.splits, or raise its fraction in data.split."
            if self.corrector.left_out:
                hint = f"{dropped_file()} leaves out {self.corrector.left_out:,} rows: remove some of its lines."
            raise DataError(f"The {folder.name} split has no complete row left.", hint)
        return rows

    def _batches(
        self, batches: Iterator[tuple[StagedSplit, pa.RecordBatch]], chosen: NDArray[np.int64] | None, schema: pa.Schema, step: Progress
    ) -> Iterator[pa.RecordBatch]:
        first = 0
        for staged, batch in batches:
            complete: NDArray[np.bool_] = staged.complete(batch).to_numpy(zero_copy_only=False)
            raw = self._raw(batch, staged, schema)
            keep = np.ones(batch.num_rows, dtype=bool)
            if chosen is not None:
                start, stop = np.searchsorted(chosen, (first, first + batch.num_rows))
                keep[:] = False
                keep[chosen[start:stop] - first] = True
            self.left_out += int((keep & ~complete).sum())
            yield raw.filter(pa.array(keep & complete))
            first += batch.num_rows
            step.advance(batch.num_rows)

    def _raw(self, batch: pa.RecordBatch, staged: StagedSplit, schema: pa.Schema) -> pa.RecordBatch:
        ids = self.encoder.ids(batch, staged.labelled)
        if staged.labelled and not self.encoder.labels.is_regression:
            self._refuse(batch, staged, pc.and_(staged.complete(batch), pc.equal(ids, UNLABELLED)))
        return pa.record_batch([*batch.columns[: len(self.columns.text_columns)], ids, batch[INDEX]], schema=schema)

    def _refuse(self, batch: pa.RecordBatch, staged: StagedSplit, unknown: pa.BooleanArray) -> None:
        row = pc.index(unknown, pa.scalar(True)).as_py()
        if row >= 0:
            where = f"{staged.place(batch, row)}, column {self.columns.label_column!r}"
            raise unknown_label(where, batch[LABEL][row].as_py(), self.encoder)
