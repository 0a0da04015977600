"""A source file of the user: its columns, and its rows, read by the rules of the stage ``download``.

The file is read once. What was read stays in a temporary file without a name, batch by batch: whatever is
asked of the rows afterwards reads the columns that it needs from there. A format that reads columns one by
one needs no copy.
"""

import copy
import itertools
import json
import pickle
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

import pyarrow as pa

from tuneline.columns.profiles import NESTED, Cells, ColumnProfile, profile, sampling
from tuneline.readers.label_values import NumberFormat, plain_text
from tuneline.readers.rows import STOP, BadRowPolicy, BadRows, RowProblem, check_columns
from tuneline.readers.tables import FileTable, Input, Layout, ValueBatch, open_table
from tuneline.runtime.disk_errors import cannot_write


@dataclass
class Kept:
    """The rows of a file as they were read: pickled batches, one after the other."""

    file: IO[bytes] = field(default_factory=tempfile.TemporaryFile)

    def __del__(self) -> None:
        """Remove the file."""
        self.file.close()

    def add(self, batch: ValueBatch) -> None:
        """Keep a batch.

        Raises:
            DiskError: The folder of temporary files is full.
        """
        try:
            pickle.dump((batch.positions, batch.columns), self.file, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise cannot_write(Path(tempfile.gettempdir()), error) from error

    def batches(self) -> Iterator[ValueBatch]:
        """Yield the batches again."""
        end = self.file.seek(0, 2)
        position = 0
        while position < end:
            self.file.seek(position)
            yield ValueBatch(*pickle.load(self.file))  # noqa: S301 - this process wrote it, and no other can
            position = self.file.tell()


class KeptTable(FileTable):
    """The kept rows as an open table."""

    def __init__(self, source: Input, columns: Sequence[str], kept: Kept) -> None:
        super().__init__(source)
        self._columns = list(columns)
        self._kept = kept

    def names(self) -> list[str]:
        """Return the names of all columns."""
        return self._columns

    def rows(
        self,
        columns: Mapping[str, str],
        everywhere: Collection[str] | None = None,
        lists: Collection[str] = (),
    ) -> Iterator[tuple[int, Sequence[Any] | RowProblem]]:
        """Yield the line and the values of each row."""
        for batch in self.batches(columns, BadRows(self.name, "line", STOP), everywhere, lists):
            yield from zip(batch.positions, zip(*batch.columns.values(), strict=True), strict=True)

    def batches(
        self,
        columns: Mapping[str, str],
        bad: BadRows,  # noqa: ARG002
        everywhere: Collection[str] | None = None,  # noqa: ARG002
        lists: Collection[str] = (),  # noqa: ARG002
    ) -> Iterator[ValueBatch]:
        """Yield batches of some columns. Values that a row lacks are ``None``."""
        for batch in self._kept.batches():
            values = {}
            for name in columns:
                values[name] = batch.columns.get(name, [None] * batch.rows)
            yield ValueBatch(batch.positions, values)


FIRST_ROWS = 5
"""Rows that the user is shown."""


@dataclass(frozen=True)
class Seen:
    """What the rows of a file have.

    Attributes:
        profiles: Statistics of the columns.
        sample: A random sample of the rows.
        first: The first rows.
    """

    profiles: Sequence[ColumnProfile]
    sample: Sequence[Cells]
    first: Sequence[Cells]


class RowFile:
    """A source file.

    Attributes:
        source: The file as the stage ``download`` reads it.
        columns: Column names: the names in the header, ``column_1`` and so on without a header; the keys of
            all JSON objects, in the order of their first occurrence; the names in a Parquet schema.
        policy: What to do about rows that cannot be read.
    """

    def __init__(self, source: Input, policy: BadRowPolicy = STOP) -> None:
        """Read the file."""
        self.source = source
        self.policy = policy
        self._bad = BadRows(source.name, source.unit, policy)
        self._kept: Kept | None = None
        with open_table(source) as table:
            self.columns = table.names()
            check_columns(self.columns, dict.fromkeys(self.columns, ""), source.name)
            self._readable = table.readable_names()
            if not source.layout.format.is_columnar:
                self._kept = Kept()
                self._keep(table.all_columns(self._bad), self._kept)

    def _keep(self, batches: Iterable[ValueBatch], kept: Kept) -> None:
        """Keep all rows, and note the columns that the first ones do not have."""
        rows = 0
        columns = dict.fromkeys(self.columns)
        for batch in batches:
            rows += batch.rows
            columns |= dict.fromkeys(batch.columns)
            kept.add(batch)
        self._bad.check(rows)
        self.columns = list(columns)
        self._readable = self.columns

    @property
    def path(self) -> str:
        """The path, for messages."""
        return self.source.name

    @property
    def layout(self) -> Layout:
        """How it is written."""
        return self.source.layout

    @cached_property
    def seen(self) -> Seen:
        """What its rows have."""
        sample: list[Cells] = []
        first: list[Cells] = []
        rows = sampling(self.rows(self.columns), sample)
        profiles = profile(self.columns, _noting(rows, first))
        return Seen(profiles, sample, first)

    def with_numbers(self, numbers: NumberFormat) -> Self:
        """Return the file with numbers that are written otherwise."""
        layout = replace(self.layout, decimal=numbers.decimal, thousands=numbers.thousands, unit=numbers.unit)
        changed = copy.copy(self)
        changed.source = replace(self.source, layout=layout)
        return changed

    def bad_rows(self) -> BadRows:
        """Return a counter of bad rows that has those that could not be read."""
        return copy.deepcopy(self._bad)

    def open(self) -> AbstractContextManager[FileTable]:
        """Open the rows that could be read."""
        if self._kept is None:
            return open_table(self.source)
        return nullcontext(KeptTable(self.source, self.columns, self._kept))

    def rows(self, names: Sequence[str]) -> Iterator[Cells]:
        """Yield the cells of some columns of all rows; ``NESTED`` for columns that cannot be read."""
        read = [name for name in names if name in self._readable]
        with self.open() as table:
            for batch in table.batches(dict.fromkeys(read, ""), self.bad_rows(), everywhere=(), lists=read):
                columns: list[Iterable[str | None]] = []
                for name in names:
                    if name in batch.columns:
                        columns.append(_cells(batch.columns[name]))
                    else:
                        columns.append(itertools.repeat(NESTED, batch.rows))
                yield from zip(*columns, strict=True)


def _noting(rows: Iterator[Cells], first: list[Cells]) -> Iterator[Cells]:
    """Yield rows, and note the first ones."""
    for row in rows:
        if len(first) < FIRST_ROWS:
            first.append(row)
        yield row


def _cells(values: pa.Array | list[Any]) -> list[str | None]:
    """Return values as the texts of cells."""
    if isinstance(values, pa.Array):
        values = values.to_pylist()
    return list(map(_cell, values))


def _cell(value: object) -> str | None:
    """Return a value as the text of a cell."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return NESTED
    if isinstance(value, list):
        return NESTED + json.dumps(value, ensure_ascii=False, default=str)
    return plain_text(value)
