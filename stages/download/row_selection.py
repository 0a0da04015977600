"""Which rows of the source are in which split of the pipeline: slices of it, divided by ``data.split``."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stages.download.source import GROUP, SourceSlice, StagedSplit
from tuneline.analysis.splitting import strata
from tuneline.params import Params
from tuneline.params.data import SplitParams
from tuneline.paths import SPLITS
from tuneline.readers.labelled import LABEL
from tuneline.tasks import unnamed_task


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
    from tuneline.analysis.splitting import assign_splits, row_hashes

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
