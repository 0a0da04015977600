"""The rows of a source file as text."""

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from tuneline.cli.init.layout import Layout
from tuneline.readers.bad_rows import STOP, BadRowPolicy, BadRows
from tuneline.readers.delimited import DelimitedReader
from tuneline.readers.jsonl import read_jsonl
from tuneline.readers.limits import DEFAULT_LIMITS, Limits
from tuneline.readers.parquet import open_parquet
from tuneline.readers.rows import OptionNames, RowProblem, check_columns
from tuneline.readers.text import open_text

Row = tuple[str | None, ...]
"""Cells in the order of the columns; ``None`` for a missing one."""
Record = TypeVar("Record")
NESTED = "\x00nested"
"""Cell that holds a list or an object, which is neither text nor label."""
PARQUET_BATCH = 10_000
"""Rows."""
SOURCES = OptionNames("the delimiter", "the quoting", "the first row", "--encoding")
"""What messages name instead of options: ``tuneline init`` detects them."""


@dataclass(frozen=True)
class RowFile:
    """A source file.

    Attributes:
        path: The file.
        layout: Its layout.
        columns: Column names: those of the header, ``column_1`` and so on without one; the keys of all JSON objects, in the order
            of their first occurrence; the names in a Parquet schema.
        limits: Largest sizes that are read.
        policy: What to do about rows that cannot be read.
    """

    path: Path
    layout: Layout
    columns: list[str]
    limits: Limits = DEFAULT_LIMITS
    policy: BadRowPolicy = STOP

    def rows(self, bad: BadRows | None = None) -> Iterator[Row]:
        """Read the file from the first row to the last.

        Args:
            bad: Gets the rows that cannot be read.

        Raises:
            DataError: The file cannot be read, by the rules of the stage ``download``, or too many of its rows cannot.
        """
        bad = bad or BadRows(str(self.path), "line", self.policy)
        if self.layout.kind == "delimited":
            rows = _delimited_rows(self, bad)
        else:
            rows = _json_rows(self, bad) if self.layout.kind == "jsonl" else _parquet_rows(self)
        number = 0
        for row in rows:
            yield row
            number += 1
        bad.check(number)


class Sample:
    """A random sample of rows, the same for the same file, that is drawn while the rows are read (reservoir sampling, algorithm R).

    Attributes:
        rows: The sample, in no order.
    """

    SIZE = 5000
    LONGEST = 1 << 15
    """Characters that are kept of a cell: more than any encoder reads."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def watch(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows and draw the sample."""
        generator = random.Random(0)  # noqa: S311 - no secret depends on it
        for number, row in enumerate(rows):
            position = number if number < self.SIZE else generator.randrange(number + 1)
            if position < self.SIZE:
                kept = tuple(cell and cell[: self.LONGEST] for cell in row)
                self.rows[position : position + 1] = [kept]
            yield row


def open_rows(path: Path, layout: Layout, limits: Limits = DEFAULT_LIMITS, policy: BadRowPolicy = STOP) -> RowFile:
    """Open a source file.

    Raises:
        DataError: The file cannot be read.
    """
    if layout.kind == "delimited":
        return RowFile(path, layout, _delimited_columns(path, layout, limits), limits, policy)
    if layout.kind == "jsonl":
        objects = _objects(path, layout, limits, BadRows(str(path), "line", policy))
        return RowFile(path, layout, list(dict.fromkeys(key for value in objects for key in value)), limits, policy)
    with open_parquet(path, SOURCES, limits) as file:
        check_columns(file.schema.names, dict.fromkeys(file.schema.names, "Parquet"), str(path))
        return RowFile(path, layout, list(file.schema.names), limits, policy)


def _delimited_columns(path: Path, layout: Layout, limits: Limits) -> list[str]:
    with open_text(path, layout.encoding, SOURCES, limits) as lines:
        if layout.header:
            return DelimitedReader(lines, layout.dialect(None)).names
        width = len(next(cells for cells in layout.reader(iter(lines)) if cells))
        return [f"column_{position}" for position in range(1, width + 1)]


def _delimited_rows(file: RowFile, bad: BadRows) -> Iterator[Row]:
    with open_text(file.path, file.layout.encoding, SOURCES, file.limits) as lines:
        reader = DelimitedReader(lines, file.layout.dialect(None if file.layout.header else file.columns))
        yield from (tuple(cells) for cells in _readable(reader, bad))


def _json_rows(file: RowFile, bad: BadRows) -> Iterator[Row]:
    for value in _objects(file.path, file.layout, file.limits, bad):
        yield tuple(as_text(value.get(name)) for name in file.columns)


def _objects(path: Path, layout: Layout, limits: Limits, bad: BadRows) -> Iterator[dict[str, Any]]:
    with open_text(path, layout.encoding, SOURCES, limits) as lines:
        yield from _readable(read_jsonl(lines), bad)


def _parquet_rows(file: RowFile) -> Iterator[Row]:
    with open_parquet(file.path, SOURCES, file.limits) as content:
        flat = [name for name in file.columns if not pa.types.is_nested(content.schema.field(name).type)]
        for batch in content.batches(PARQUET_BATCH, flat):
            cells = {name: map(as_text, batch[name].to_pylist()) for name in flat}
            yield from zip(*(cells.get(name) or itertools.repeat(NESTED, batch.num_rows) for name in file.columns), strict=True)


def _readable(records: Iterable[tuple[int, Record | RowProblem]], bad: BadRows) -> Iterator[Record]:
    for _, record in records:
        if isinstance(record, RowProblem):
            bad.add(record)
        else:
            yield record


def as_text(value: Any) -> str | None:
    """Return a JSON or Arrow value as the text of a cell, as the stage ``download`` does: NaN is missing, 1.0 is ``1``."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return None if value != value else str(int(value) if value.is_integer() else value)  # NaN differs from itself  # noqa: PLR0124
    return NESTED if isinstance(value, (list, dict, tuple)) else str(value)
