"""A source file of the user: its columns, and its rows, read by the rules of the stage ``download``."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from tuneline.cli.init.profiles import NESTED, Cells
from tuneline.readers.delimited import numbered_column
from tuneline.readers.inputs import Input, open_table, readable
from tuneline.readers.label_values import plain_text
from tuneline.readers.layout import SOURCES, Layout
from tuneline.readers.rows import DEFAULT_LIMITS, STOP, BadRowPolicy, BadRows, Limits, check_columns
from tuneline.readers.text import open_text


@dataclass(frozen=True)
class RowFile:
    """A source file.

    Attributes:
        columns: Column names: the names in the header, ``column_1`` and so on without a header; the keys of
            all JSON objects, in the order of their first occurrence; the names in a Parquet schema.
        limits: Largest sizes that are read.
        policy: What to do about rows that cannot be read.
    """

    path: Path
    layout: Layout
    columns: list[str]
    limits: Limits = DEFAULT_LIMITS
    policy: BadRowPolicy = STOP

    @property
    def source(self) -> Input:
        """The file as the stage ``download`` reads it."""
        layout = self.layout
        dialect = layout.dialect
        if not layout.header:
            dialect = replace(dialect, columns=tuple(self.columns))
        kind = "csv" if layout.kind == "delimited" else layout.kind
        return Input(self.path, kind, dialect, layout.encoding, self.limits, options=SOURCES, strict=True)

    def with_decimal(self, decimal: str) -> Self:
        """Return the file with another character before the decimals of numbers."""
        dialect = replace(self.layout.dialect, decimal=decimal)
        return replace(self, layout=replace(self.layout, dialect=dialect))

    def bad_rows(self) -> BadRows:
        """Return a counter of the rows that cannot be read."""
        return BadRows(str(self.path), "line", self.policy)

    def rows(self) -> Iterator[Cells]:
        """Yield all rows, by the rules of the stage ``download``; refuse a file with too many bad rows."""
        bad = self.bad_rows()
        number = 0
        with open_table(self.source) as table:
            # Columns of objects are not read: all their cells are NESTED.
            flat = []
            positions = []
            for position, name in enumerate(self.columns):
                if not table.is_nested(name) or table.has_lists(name):
                    flat.append(name)
                    positions.append(position)

            rows = table.rows(dict(zip(flat, flat, strict=True)), everywhere=(), lists=flat)
            for _, values in readable(rows, bad):
                number += 1
                cells: list[str | None] = [NESTED] * len(self.columns)
                for position, value in zip(positions, values, strict=True):
                    cells[position] = _cell(value)
                yield tuple(cells)
        bad.check(number)


def _cell(value: object) -> str | None:
    """Return a value as the text of a cell."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return NESTED
    if isinstance(value, list):
        return NESTED + json.dumps(value, ensure_ascii=False, default=str)
    return plain_text(value)


def open_row_file(
    path: Path, layout: Layout, limits: Limits = DEFAULT_LIMITS, policy: BadRowPolicy = STOP
) -> RowFile:
    """Open a source file."""
    file = RowFile(path, layout, [], limits, policy)
    if not layout.header:
        with open_text(path, layout.encoding, SOURCES, limits) as lines:
            first = next(filter(None, layout.reader(iter(lines))))  # the first line that is not empty
        return replace(file, columns=list(map(numbered_column, range(len(first)))))

    with open_table(file.source) as table:
        columns = table.all_names(file.bad_rows())
    check_columns(columns, dict.fromkeys(columns, ""), str(path))
    return replace(file, columns=columns)
