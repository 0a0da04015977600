"""Sources of rows: what each of them gives, and which of them ``data.source`` selects."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa

from tuneline.files.schemas import ROW_GROUP
from tuneline.params import DataParams
from tuneline.readers.bad_rows import STOP, BadRowPolicy, BadRows
from tuneline.readers.rows import check_columns

LABEL = "label"
GROUP = "group"
POSITION = "position"
BATCH_CHARACTERS = 1 << 24
"""Characters of texts and labels from which a batch has fewer rows than usual."""


@dataclass(frozen=True)
class SourceColumns:
    """The columns that the pipeline reads from a source.

    Attributes:
        text_columns: One or two names.
        label_column: Its name.
        regression: Labels are numbers; otherwise they are class names.
        label_optional: The split may have no label column.
        group_column: ``data.split.by``, in the split of the source that is divided.
        policy: What to do about bad rows.
    """

    text_columns: tuple[str, ...]
    label_column: str
    regression: bool = False
    label_optional: bool = False
    group_column: str | None = None
    policy: BadRowPolicy = STOP

    @property
    def grouped(self) -> list[str]:
        """The group column, if any."""
        return [] if self.group_column is None else [self.group_column]

    def bad_rows(self, name: str, unit: str) -> BadRows:
        """Return the counter of the bad rows of a file."""
        return BadRows(name, unit, self.policy)

    def names(self, has_label: bool) -> list[str]:
        """Return the text columns, the group column if any, and the label column where the source has it; each once."""
        return list(dict.fromkeys([*self.text_columns, *self.grouped, *([self.label_column] if has_label else [])]))

    def check(self, present: Sequence[str], where: str, hint: str | None = None) -> bool:
        """Check that a source has these columns.

        Args:
            present: The columns of the source.
            where: The file or data set, for messages.
            hint: What to do about a missing column. Default: list the columns that are present.

        Returns:
            True if the label column is present; it may be missing only where it is optional.

        Raises:
            DataError: A column is missing or duplicated.
        """
        required = dict.fromkeys(self.text_columns, "data.text_columns")
        if not self.label_optional or self.label_column in present:
            required[self.label_column] = "data.label_column"
        required = dict.fromkeys(self.grouped, "data.split.by") | required
        check_columns(present, required, where, hint)
        return self.label_column in present

    @property
    def schema(self) -> pa.Schema:
        """Schema of a source's batches: ``text_0``, ``group`` if asked for, ``label`` (class name or number), ``position``.

        A missing text, group or label is null.
        """
        text = [pa.field(f"text_{index}", pa.string()) for index in range(len(self.text_columns))]
        label = pa.float64() if self.regression else pa.string()
        group = [pa.field(GROUP, pa.string()) for _ in self.grouped]
        return pa.schema([*text, *group, pa.field(LABEL, label), pa.field(POSITION, pa.int64(), nullable=False)])


@dataclass
class Cursor:
    """How far a file has been read.

    Attributes:
        position: Line or row of the last record that was read; reading begins behind it. It is that of the rows of a batch when the
            batch is yielded, so that who has written the batch can go on there later.
    """

    position: int = 0


@dataclass(frozen=True)
class SourceFile:
    """One file of a split, or a whole split where it is no file.

    Attributes:
        bad: Its path, or its data set and split, for messages; what ``position`` counts, from 1: ``line`` in a text file, ``row``
            elsewhere; and the bad rows that reading the batches meets.
        batches: Returns batches of ``SourceColumns.schema``, of the rows behind a cursor. Iterating may raise a ``DataError``.
        label_names: Class names in the order of their ids, where the source declares them.
    """

    bad: BadRows
    batches: Callable[[Cursor], Iterator[pa.RecordBatch]]
    label_names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class SourceSplit:
    """One split of a source.

    Attributes:
        name: That of its file, or of its folder of files, for messages.
        files: Its files, in the order of their rows. The first one's class names are those of the split.
    """

    name: str
    files: Sequence[SourceFile]

    @classmethod
    def of(cls, file: SourceFile) -> Self:
        """Return a split of one file."""
        return cls(file.bad.name, [file])


class Source(Protocol):
    """A source of rows."""

    def read(self, split: str, columns: SourceColumns) -> SourceSplit:
        """Open one split.

        Raises:
            DataError: The source has no such split or column.
        """
        ...

    def provenance(self, rows: Mapping[str, int], /) -> dict[str, Any]:
        """Return what ``source.json`` records about the source: neither times nor paths of this machine.

        Args:
            rows: Rows of each file, by the name in its ``SourceFile.bad``.
        """
        ...

    @property
    def inputs(self) -> Sequence[Path]:
        """The files that are read. What their content does not determine is in the provenance."""
        ...


def open_source(params: DataParams, seed: int) -> Source:
    """Open the source that ``data.source`` names. Only its module, and the libraries that it needs, are imported.

    Raises:
        DataError: The source does not exist.
    """
    match params.source:
        case "sample":
            from stages.download.sample import Sample

            return Sample(params.sample, seed)
        case "files":
            from stages.download.files import Files

            return Files(params)
        case "hub":
            from stages.download.hub import Hub

            return Hub(str(params.path), params.name, params.revision)


def batches_of(rows: Iterator[Sequence[Any]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Collect rows of Python values into batches of ``ROW_GROUP`` rows, or fewer where the rows are large."""
    batch: list[Sequence[Any]] = []
    characters = 0
    for row in rows:
        batch.append(row)
        characters += sum(len(value) for value in row if isinstance(value, str))
        if len(batch) == ROW_GROUP or characters >= BATCH_CHARACTERS:
            yield _batch(batch, schema)
            batch, characters = [], 0
    if batch:
        yield _batch(batch, schema)


def _batch(rows: list[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.record_batch([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema)


def rebatch(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of exactly ``ROW_GROUP`` (the last may be shorter), so that outputs do not depend on the reader."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ROW_GROUP:
            table = pa.Table.from_batches(waiting, schema).combine_chunks()
            whole = rows - rows % ROW_GROUP
            yield from table.slice(0, whole).to_batches(max_chunksize=ROW_GROUP)
            waiting, rows = table.slice(whole).to_batches(), rows - whole
    if rows:
        yield from pa.Table.from_batches(waiting, schema).combine_chunks().to_batches()
