"""Copies the source's splits to temporary Parquet files, and continues where a killed process has stopped.

Each file of a copy is written whole, with the state of reading at its end in its metadata. What a killed process has copied is not copied
again: the next one restores the state of the last file, and reads on from there.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stages.download.skipped import start_of
from stages.download.source import LABEL, POSITION, Cursor, SourceColumns, SourceFile, SourceSplit, rebatch
from stages.download.staged import HAS_TEXT, INDEX, Origin, StagedSplit
from tuneline.files import replace_file
from tuneline.files.schemas import ROW_GROUP, UNLABELLED
from tuneline.params.data import DataParams
from tuneline.readers.bad_rows import BadRows
from tuneline.readers.limits import MB, too_large
from tuneline.readers.rows import PARAMETERS, RowProblem
from tuneline.terminal import progress, say

OnSkip = Callable[[BadRows, RowProblem], None]
STATE = b"state"


@dataclass
class State:
    """How far a split has been copied: in the metadata of each file of the copy, as JSON.

    Attributes:
        rows: Rows so far.
        firsts: The ``idx`` of the first row of each file of the source that was begun.
        position: Line or row up to which the last of these files was read.
        bad: State of the bad rows of each of these files.
        skipped: Rows that were left out since the file of the copy before: number of their file in the source, and the problem.
        labelled, gaps: As in ``StagedSplit``, of the rows so far.
        is_last: No rows are behind.
    """

    rows: int = 0
    firsts: list[int] = field(default_factory=list)
    position: int = 0
    bad: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    labelled: bool = False
    gaps: bool = False
    is_last: bool = False

    @classmethod
    def of(cls, path: Path) -> Self | None:
        """Read the state from a file of a copy; ``None`` if there is no such file, or it is damaged."""
        try:
            return cls(**json.loads(pq.read_metadata(path).metadata[STATE]))
        except (pa.ArrowException, OSError, KeyError):
            return None


def stage_split(split: SourceSplit, columns: SourceColumns, folder: Path, params: DataParams, on_skip: OnSkip) -> StagedSplit:
    """Copy a split of the source. Rows that cannot be read are left out; those without text or label are only marked.

    Args:
        split: The split.
        columns: The columns that it gives.
        folder: For the files of the copy; it may have those of a killed process.
        params: Section ``data``. A file of the copy ends when it has ``shard_rows`` rows.
        on_skip: Called with each row that is left out, and the bad rows of its file.

    Raises:
        DataError: It cannot be read, or has too large rows; a row is bad, and bad rows are an error; or very many are bad.
    """
    folder.mkdir(parents=True, exist_ok=True)
    copy = _Copy(split, columns, params, on_skip)
    paths, starts = [folder / "00000.parquet"], [0]
    while state := State.of(paths[-1]):
        copy.restore(state)
        starts.append(state.rows)
        paths.append(folder / f"{len(paths):05d}.parquet")
    if copy.state.rows:
        say(f"download: {split.name}: continues after row {copy.state.rows:,}, up to which an interrupted run has read it")
    batches = copy.batches()
    while not copy.state.is_last:
        with replace_file(paths[-1]) as path:
            copy.write(path, batches)
        starts.append(copy.state.rows)
        paths.append(folder / f"{len(paths):05d}.parquet")
    for file in split.files:
        file.bad.on_skip = partial(on_skip, file.bad)
    origins = [Origin(first, file.bad) for first, file in zip(copy.state.firsts, split.files, strict=True)]
    return StagedSplit(split.name, origins, split.files[0].label_names, paths[:-1], starts, copy.state.labelled, copy.state.gaps)


class _Copy:
    """Numbers the rows, shows progress, checks sizes, marks rows without text, and keeps the state.

    Attributes:
        state: How far it is.
    """

    def __init__(self, split: SourceSplit, columns: SourceColumns, params: DataParams, on_skip: OnSkip) -> None:
        self.state = State()
        self._files, self._texts = split.files, len(columns.text_columns)
        self._schema = columns.schema.append(pa.field(INDEX, pa.int64(), nullable=False)).append(pa.field(HAS_TEXT, pa.bool_()))
        self._shard_rows, self._limit, self._on_skip = params.shard_rows, params.files.max_row_group_mb, on_skip
        self._first = self._size = 0
        for number, file in enumerate(self._files):
            file.bad.on_skip = partial(self._skip, number)

    def _skip(self, number: int, problem: RowProblem) -> None:
        self.state.skipped.append((number, {**asdict(problem), "content": start_of(problem.content)}))
        self._on_skip(self._files[number].bad, problem)

    def restore(self, state: State) -> None:
        """Go on behind a file of the copy."""
        for number, problem in state.skipped:
            self._on_skip(self._files[number].bad, RowProblem(**problem))
        for file, bad in zip(self._files, state.bad, strict=False):
            file.bad.state = bad
        state.skipped.clear()
        self.state = state

    def write(self, path: Path, batches: Iterator[pa.RecordBatch]) -> None:
        """Write the next file of the copy."""
        self._first = self.state.rows
        with pq.ParquetWriter(path, self._schema, compression="zstd") as writer:
            for batch in rebatch(self._until_full(batches), self._schema):
                writer.write_batch(batch)
            self.state.bad = [file.bad.state for file in self._files[: len(self.state.firsts)]]
            writer.add_key_value_metadata({STATE: json.dumps(asdict(self.state))})
        self.state.skipped.clear()

    def _until_full(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if self.state.rows - self._first >= self._shard_rows or len(self.state.skipped) >= ROW_GROUP:
                return

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are not copied yet. The state is that behind the rows of a batch when the batch is yielded."""
        state = self.state
        for number in range(max(len(state.firsts) - 1, 0), len(self._files)):
            if number == len(state.firsts):
                state.firsts.append(state.rows)
                state.position = 0
            file, cursor = self._files[number], Cursor(state.position)
            with progress(f"download: {file.bad.name}") as step:
                step.advance(state.rows - state.firsts[-1])
                for batch in file.batches(cursor):
                    staged = self._staged(batch, file)
                    state.position = cursor.position
                    step.advance(batch.num_rows)
                    yield staged
        state.is_last = True

    def _staged(self, batch: pa.RecordBatch, file: SourceFile) -> pa.RecordBatch:
        state = self.state
        index = pa.array(np.arange(state.rows, state.rows + batch.num_rows))
        self._check_size(batch, file)
        state.rows += batch.num_rows
        state.labelled = state.labelled or _any_label(batch[LABEL])
        filled = has_text(batch.columns[: self._texts])
        state.gaps = state.gaps or bool(batch[LABEL].null_count) or not pc.all(filled).as_py()
        return pa.record_batch([*batch.columns, index, filled], schema=self._schema)

    def _check_size(self, batch: pa.RecordBatch, file: SourceFile) -> None:
        """Check the rows that will be in memory together: those of this batch, and those before it in the same row group."""
        before = (self.state.rows - self._first) % ROW_GROUP
        begins = before + batch.num_rows > ROW_GROUP or not before
        self._size = batch.nbytes + (0 if begins else self._size)
        if self._size > self._limit * MB:
            where = f"{file.bad.name}, before {file.bad.unit} {batch[POSITION][-1].as_py():,}"
            raise too_large(where, f"up to {ROW_GROUP:,} rows take more", f"{self._limit:,} MB", PARAMETERS.row_group)


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
