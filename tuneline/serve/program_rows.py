"""Rows as a program has them, and the windows of rows that are predicted together.

A text is a row, and so are a tuple of as many texts as the model reads, and a mapping that has its columns.
Commands and programs have the same windows, so that the same rows have the same batches, and the same bits.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tuneline.core.runtime.errors import DataError
from tuneline.rows.reading.rows import row_problem

BATCH_SIZE = 32
"""Default rows per forward pass."""
WINDOW = 4096
"""Default rows in memory."""
WINDOW_CHARACTERS = 1 << 22
"""Characters from which a window has no more rows, however few it has.

A tokenizer takes about 60 bytes of memory for each character.
"""
AnyRow = TypeVar("AnyRow")
ProgramRow = str | tuple[str, ...] | Mapping[str, Any]
"""A row."""


def texts_of_rows(rows: Any, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the texts of several rows.

    Args:
        rows: An iterable of rows, or a table of pandas or Arrow.
        columns: The columns that the model reads.

    Raises:
        DataError: A row or column is missing, or is not a text; it names both.
    """
    table = _table_rows(rows, columns)
    if table is not None:
        rows = table
    elif isinstance(rows, (str, Mapping)) or not isinstance(rows, Iterable):
        raise DataError(
            f"{type(rows).__name__}: not several rows.", f"{_expected(columns)} One row: predict_one."
        )

    return [texts_of_row(row, columns, f"rows[{number}]") for number, row in enumerate(rows)]


def texts_of_row(row: object, columns: tuple[str, ...], place: str) -> tuple[str, ...]:
    """Return the texts of a row, which messages name ``place``.

    Raises:
        DataError: As ``texts_of_rows``.
    """
    values = _values(row, columns, place)
    problem = row_problem(values)
    if problem is not None:
        raise DataError(f"{place}: {problem}.", _expected(columns))
    return tuple(values.values())


def characters_of(texts: tuple[str, ...]) -> int:
    """Return the length of all texts of a row."""
    return sum(map(len, texts))


def _table_rows(table: Any, columns: tuple[str, ...]) -> Iterable[tuple[Any, ...]] | None:
    """Return the rows of a table of Arrow or pandas; ``None`` if this is not a table.

    Neither library is imported: a program that has a table has its library.
    """
    # Arrow's tables have names of columns; those of pandas have columns, which are not a method.
    is_arrow = hasattr(table, "column_names")
    names = list(table.column_names) if is_arrow else getattr(table, "columns", None)
    if names is None or callable(names):
        return None
    names = list(names)
    for column in columns:
        if names.count(column) != 1:
            raise DataError(
                f"the table has {names.count(column)} columns {column!r}; it has {names}.", _expected(columns)
            )
    if is_arrow:
        return zip(*(table.column(column).to_pylist() for column in columns), strict=True)
    return zip(*(table[column].tolist() for column in columns), strict=True)


def _values(row: object, columns: tuple[str, ...], place: str) -> dict[str, Any]:
    """Return the values of a row by column."""
    if isinstance(row, Mapping):
        values_of_columns = {}
        for column in columns:
            if column not in row:
                raise DataError(f"{place}: no column {column!r}.", _expected(columns))
            values_of_columns[column] = row[column]
        return values_of_columns

    values: Sequence[object] = row if isinstance(row, (tuple, list)) else (row,)
    if len(values) != len(columns):
        texts = "1 text" if len(values) == 1 else f"{len(values)} texts"
        raise DataError(f"{place}: {texts}, but the model reads {len(columns)}.", _expected(columns))
    return dict(zip(columns, values, strict=True))


def _expected(columns: tuple[str, ...]) -> str:
    """Say what a row is for the model."""
    if len(columns) == 1:
        return f"A row is a text, or a mapping with the column {columns[0]!r}."
    names = ", ".join(map(repr, columns))
    return f"A row is a tuple of {len(columns)} texts or a mapping with {names}."


def windows(
    rows: Iterable[AnyRow], first_size: int, max_size: int, characters: Callable[[AnyRow], int]
) -> Iterator[list[AnyRow]]:
    """Yield windows of rows, each twice as large as the one before.

    The first one has ``first_size`` rows and none has more than ``max_size``. Where rows are long, a window
    has fewer: it ends with ``WINDOW_CHARACTERS``, as ``characters`` counts them in a row.
    """
    size = min(first_size, max_size)
    window = []
    count = 0
    for row in rows:
        window.append(row)
        count += characters(row)
        if len(window) == size or count >= WINDOW_CHARACTERS:
            yield window
            size = min(2 * size, max_size)
            window = []
            count = 0
    if window:
        yield window
