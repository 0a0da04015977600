"""From staged rows to ``data/raw``: complete rows only, labels as ids, at most so many."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.download.labels import Encoding, unknown
from stages.download.reading import LABEL, PLACE, Wanted, rebatch
from stages.download.slices import Slice
from stages.download.staging import INDEX, Staged
from tuneline.errors import DataError
from tuneline.files.schemas import UNLABELLED, raw_schema, write_batches


def sample_rows(rows: int, at_most: int | None, seed: int) -> NDArray[np.int64]:
    """Positions of the rows that stay, in order: all of them, or ``at_most`` drawn without replacement."""
    if at_most is None or at_most >= rows:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, at_most, replace=False, shuffle=False))


@dataclass
class RawSplit:
    """One split of the line, while it is written.

    Attributes:
        wanted: The columns asked for.
        encoding: How labels become ids.
        drop_incomplete: Leave rows without text or label out; else the first one is an error.
        left_out: How many were.
    """

    wanted: Wanted
    encoding: Encoding
    drop_incomplete: bool
    left_out: int = 0

    def write(self, path: Path, staged: Mapping[str, Staged], slices: Sequence[Slice], at_most: int | None, seed: int) -> int:
        """Writes the rows of some slices and returns how many they are.

        Every row of the slices is checked, also those that are not drawn: a quick run finds the same faults as a whole one.

        Raises:
            DataError: A row has no text or no label, or a label that is no class; or no row is left.
        """
        schema = raw_schema(self.wanted.text_columns, self.encoding.labels)
        chosen = sample_rows(sum(part.stop - part.start for part in slices), at_most, seed)
        rows = write_batches(path, schema, rebatch(self._batches(staged, slices, chosen, schema), schema))
        if rows == 0:
            raise DataError(
                f"The {path.stem} split has no complete row left.", "Fill in its texts and labels, or take another split in data.splits."
            )
        return rows

    def _batches(
        self, staged: Mapping[str, Staged], slices: Sequence[Slice], chosen: NDArray[np.int64], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        first = 0
        for part in slices:
            for batch in staged[part.source].batches(part):
                complete = self._complete(batch, staged[part.source])
                raw = self._raw(batch, staged[part.source], schema)
                start, stop = np.searchsorted(chosen, (first, first + batch.num_rows))
                keep = np.zeros(batch.num_rows, dtype=bool)
                keep[chosen[start:stop] - first] = True
                self.left_out += int((keep & ~complete).sum())
                yield raw.filter(pa.array(keep & complete))
                first += batch.num_rows

    def _raw(self, batch: pa.RecordBatch, staged: Staged, schema: pa.Schema) -> pa.RecordBatch:
        ids = self.encoding.ids(batch, staged.labelled)
        if staged.labelled and not self.encoding.labels.is_regression:
            self._refuse(batch, staged, pc.equal(ids, UNLABELLED))
        return pa.record_batch([*batch.columns[: len(self.wanted.text_columns)], ids, batch[INDEX]], schema=schema)

    def _refuse(self, batch: pa.RecordBatch, staged: Staged, unknown_: pa.BooleanArray) -> None:
        row = pc.index(unknown_, pa.scalar(True)).as_py()
        if row >= 0:
            raise unknown(self._where(batch, row, staged, self.wanted.label_column), batch[LABEL][row].as_py(), self.encoding)

    def _complete(self, batch: pa.RecordBatch, staged: Staged) -> NDArray[np.bool_]:
        """Which rows have a text and, in a split with labels, a label. One text of two may be empty, but not null."""
        complete = np.ones(batch.num_rows, dtype=bool)
        blank = np.ones(batch.num_rows, dtype=bool)
        for position, column in enumerate(self.wanted.text_columns):
            text = batch[f"text_{position}"]
            complete &= self._whole(batch, staged, pc.is_valid(text), f"column {column!r}: no text (null)")
            blank &= pc.equal(pc.utf8_trim_whitespace(pc.fill_null(text, "")), "").to_numpy(zero_copy_only=False)
        columns = " and ".join(repr(column) for column in self.wanted.text_columns)
        complete &= self._whole(batch, staged, pa.array(~blank), f"column {columns}: no text, or only white space")
        if staged.labelled:
            complete &= self._whole(batch, staged, pc.is_valid(batch[LABEL]), f"column {self.wanted.label_column!r}: no label")
        return complete

    def _whole(self, batch: pa.RecordBatch, staged: Staged, whole: pa.BooleanArray, otherwise: str) -> NDArray[np.bool_]:
        rows: NDArray[np.bool_] = whole.to_numpy(zero_copy_only=False)
        if not self.drop_incomplete and not rows.all():
            place = batch[PLACE][int(rows.argmin())].as_py()
            hint = "Fill it in or take the row out; data.drop_incomplete: true leaves such rows out."
            raise DataError(f"{staged.name}, {staged.unit} {place:,}, {otherwise}.", hint)
        return rows

    def _where(self, batch: pa.RecordBatch, row: int, staged: Staged, column: str) -> str:
        return f"{staged.name}, {staged.unit} {batch[PLACE][row].as_py():,}, column {column!r}"
