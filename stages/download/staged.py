"""Temporary Parquet copies of the source's splits.

Row counts, label names and the division by ``data.split`` must be known before the first row is written.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stages.download.source import LABEL, POSITION
from tuneline.readers.bad_rows import BadRows

INDEX = "idx"
HAS_TEXT = "has_text"


class Origin(NamedTuple):
    """Where rows of a staged split come from: the ``idx`` of the first row of a file, and the file's bad rows."""

    first: int
    bad: BadRows


@dataclass(frozen=True)
class StagedSplit:
    """A split of the source as temporary Parquet files.

    Attributes:
        name: Its file, its folder of files, or its data set and split, for messages.
        origins: Its files, in the order of their rows.
        label_names: Class names in the order of their ids, where the source declares them.
        paths: The Parquet files: ``SourceColumns.schema``, ``idx``, the row number from 0, and ``has_text``.
        starts: Number of the first row of each of them, then the number of all rows.
        labelled: True if any label is neither null nor -1.
        gaps: True if any row has no text or a null for its label.
    """

    name: str
    origins: Sequence[Origin]
    label_names: tuple[str, ...] | None
    paths: Sequence[Path]
    starts: Sequence[int]
    labelled: bool
    gaps: bool

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.starts[-1]

    @property
    def file_rows(self) -> dict[str, int]:
        """Number of rows of each file of the source, by its name."""
        ends = [*(origin.first for origin in self.origins[1:]), self.rows]
        return {origin.bad.name: end - origin.first for origin, end in zip(self.origins, ends, strict=True)}

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

    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from ``start`` to ``stop`` (exclusive). Only the row groups that contain them are read."""
        for path, first, end in zip(self.paths, self.starts, self.starts[1:], strict=False):
            if first < stop and start < end:
                yield from _rows(path, start - first, stop - first)


def _rows(path: Path, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    first = 0
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            end = first + file.metadata.row_group(group).num_rows
            if first < stop and start < end:
                begin = max(start - first, 0)
                yield from file.read_row_group(group).slice(begin, min(stop, end) - first - begin).to_batches()
            first = end
