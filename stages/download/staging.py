"""Temporary Parquet copies of the source's splits, and the selection of rows from them.

Row counts, label names and the division by ``data.split`` must be known before the first row is written.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.download.slices import Slice
from stages.download.source import GROUP, LABEL, POSITION, SourceColumns, SourceFile, SourceSplit, rebatch
from tuneline.files.schemas import ROW_GROUP, UNLABELLED, write_batches
from tuneline.params import Params
from tuneline.paths import SPLITS
from tuneline.readers.bad_rows import BadRows
from tuneline.readers.limits import MB, too_large
from tuneline.readers.rows import PARAMETERS, RowProblem
from tuneline.terminal import Progress, progress

INDEX = "idx"
HAS_TEXT = "has_text"


class Origin(NamedTuple):
    """Where rows of a staged split come from: the ``idx`` of the first row of a file, and the file's bad rows."""

    first: int
    bad: BadRows


@dataclass(frozen=True)
class StagedSplit:
    """A split of the source as a temporary Parquet file.

    Attributes:
        name: Its file, its folder of files, or its data set and split, for messages.
        origins: Its files, in the order of their rows.
        label_names: Class names in the order of their ids, where the source declares them.
        path: The Parquet file: ``SourceColumns.schema``, ``idx``, the row number from 0, and ``has_text``.
        rows: Number of rows.
        labelled: True if any label is neither null nor -1.
        gaps: True if any row has no text or a null for its label.
    """

    name: str
    origins: Sequence[Origin]
    label_names: tuple[str, ...] | None
    path: Path
    rows: int
    labelled: bool
    gaps: bool

    def file(self, index: int) -> BadRows:
        """Return the bad rows of the file that the row of this ``idx`` is from."""
        return self.origins[bisect_right(self.origins, index, key=lambda one: one.first) - 1].bad

    def place(self, batch: pa.RecordBatch, row: int) -> str:
        """Return where a row of a batch is: its file, and its line or row there."""
        file = self.file(batch[INDEX][row].as_py())
        return f"{file.name}, {file.unit} {batch[POSITION][row].as_py():,}"

    def complete(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows of a batch have a text and, in a split with labels, a label."""
        return pc.and_(batch[HAS_TEXT], pc.is_valid(batch[LABEL])) if self.labelled else batch[HAS_TEXT]

    def batches(self, part: Slice) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a slice. Only the row groups that contain them are read."""
        with pq.ParquetFile(self.path) as file:
            for group in range(part.start // ROW_GROUP, -(-part.stop // ROW_GROUP)):
                first = group * ROW_GROUP
                table = file.read_row_group(group)
                start, stop = max(part.start - first, 0), min(part.stop - first, table.num_rows)
                yield from table.slice(start, stop - start).to_batches()


@dataclass(frozen=True)
class Selection:
    """The rows of one split of the pipeline.

    Attributes:
        slices: Slices of the source's splits, in the order of their rows.
        members: Mask of the rows of the slices that are in the split; ``None`` for all.
    """

    slices: list[Slice]
    members: NDArray[np.bool_] | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(part.stop - part.start for part in self.slices) if self.members is None else int(self.members.sum())

    def batches(self, staged: Mapping[str, StagedSplit]) -> Iterator[tuple[StagedSplit, pa.RecordBatch]]:
        """Yield the rows, each batch with the split of the source that it comes from."""
        first = 0
        for part in self.slices:
            for batch in staged[part.source].batches(part):
                last = first + batch.num_rows
                yield staged[part.source], batch if self.members is None else batch.filter(pa.array(self.members[first:last]))
                first = last


@dataclass(frozen=True)
class Division:
    """The splits that ``data.split`` makes of the train split's slices.

    Attributes:
        selections: The rows of train and of each split that is taken from it.
        ungrouped: Rows without a value in ``data.split.by``.
    """

    selections: dict[str, Selection]
    ungrouped: int = 0


def divide(params: Params, slices: list[Slice], staged: Mapping[str, StagedSplit]) -> Division:
    """Divide the rows of the train split's slices as ``data.split`` asks; without it they are all train."""
    split, whole = params.data.split, Selection(slices)
    if split is None:
        return Division({"train": whole})
    from tuneline.splitting import assign_splits, hashes, row_hashes

    rows, labels, ungrouped = [], [], 0
    for _, batch in whole.batches(staged):
        groups = batch[GROUP] if split.by is not None else None
        ungrouped += groups.null_count if groups is not None else 0
        rows.append(row_hashes(batch.columns[: len(params.data.text_columns)], groups, params.seed))
        labels.append(np.zeros(batch.num_rows, np.uint64) if params.data.task == "regression" else hashes(batch[LABEL]))
    parts = assign_splits(np.concatenate(rows), np.concatenate(labels), split)
    return Division({name: Selection(slices, parts == SPLITS.index(name)) for name in ("train", *params.data.divided)}, ungrouped)


def stage_split(
    split: SourceSplit, columns: SourceColumns, path: Path, max_row_group_mb: int, on_skip: Callable[[BadRows, RowProblem], None]
) -> StagedSplit:
    """Copy a split of the source to a Parquet file. Rows that cannot be read are left out; those without text or label are only marked.

    Args:
        split: The split.
        columns: The columns that it gives.
        path: The Parquet file.
        max_row_group_mb: Largest size of ``ROW_GROUP`` rows.
        on_skip: Called with each row that is left out, and the bad rows of its file.

    Raises:
        DataError: It cannot be read, or has too large rows; a row is bad, and bad rows are an error; or very many are bad.
    """
    schema = columns.schema.append(pa.field(INDEX, pa.int64(), nullable=False)).append(pa.field(HAS_TEXT, pa.bool_()))
    for file in split.files:
        file.bad.on_skip = partial(on_skip, file.bad)
    staging = _Staging(columns, max_row_group_mb)
    rows = write_batches(path, schema, rebatch(staging.indexed(split.files, schema), schema))
    return StagedSplit(split.name, staging.origins, split.files[0].label_names, path, rows, staging.labelled, staging.gaps)


class _Staging:
    """Numbers the rows, shows progress, checks sizes, marks rows without text, and notes whether there are labels."""

    def __init__(self, columns: SourceColumns, max_row_group_mb: int) -> None:
        self.columns = columns
        self.origins: list[Origin] = []
        self.limit = max_row_group_mb
        self.size = 0
        self.rows = 0
        self.labelled = False
        self.gaps = False

    def indexed(self, files: Iterable[SourceFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for file in files:
            self.origins.append(Origin(self.rows, file.bad))
            with progress(f"download: {file.bad.name}") as step:
                yield from self._indexed(file, schema, step)

    def _indexed(self, file: SourceFile, schema: pa.Schema, step: Progress) -> Iterator[pa.RecordBatch]:
        for batch in file.batches:
            index = pa.array(range(self.rows, self.rows + batch.num_rows), pa.int64())
            step.advance(batch.num_rows)
            self._check_size(batch, file)
            self.rows += batch.num_rows
            self.labelled = self.labelled or _any_label(batch[LABEL])
            filled = has_text(batch.columns[: len(self.columns.text_columns)])
            self.gaps = self.gaps or bool(batch[LABEL].null_count) or not pc.all(filled).as_py()
            yield pa.record_batch([*batch.columns, index, filled], schema=schema)

    def _check_size(self, batch: pa.RecordBatch, file: SourceFile) -> None:
        """Check the rows that will be in memory together: those of this batch, and those before it in the same row group."""
        begins = self.rows % ROW_GROUP + batch.num_rows > ROW_GROUP or not self.rows % ROW_GROUP
        self.size = batch.nbytes + (0 if begins else self.size)
        if self.size > self.limit * MB:
            where = f"{file.bad.name}, before {file.bad.unit} {batch[POSITION][-1].as_py():,}"
            raise too_large(where, f"up to {ROW_GROUP:,} rows take more", f"{self.limit:,} MB", PARAMETERS.row_group)


def _any_label(labels: pa.Array) -> bool:
    none = pa.scalar(UNLABELLED).cast(labels.type)
    return bool(pc.any(pc.not_equal(labels, none)).as_py())


def has_text(texts: list[pa.Array]) -> pa.BooleanArray:
    """Return which rows have a text. One text of a pair may be empty, but not null."""
    present, filled = pc.is_valid(texts[0]), _is_filled(texts[0])
    for text in texts[1:]:
        present, filled = pc.and_(present, pc.is_valid(text)), pc.or_(filled, _is_filled(text))
    return pc.and_(present, filled)


def _is_filled(text: pa.Array) -> pa.BooleanArray:
    return pc.not_equal(pc.utf8_trim_whitespace(pc.fill_null(text, "")), "")
