"""The rows of each split of the pipeline: slices of the staged splits, or the parts that ``data.split`` makes of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stages.download.slices import Slice
from stages.download.source import GROUP, LABEL
from stages.download.staged import StagedSplit
from tuneline.params import Params
from tuneline.paths import SPLITS


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
            for batch in staged[part.source].batches(part.start, part.stop):
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
