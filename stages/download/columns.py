"""Finds the wanted columns among those that are there."""

import difflib
from collections.abc import Iterable, Sequence

from stages.download.reading import Wanted
from tuneline.errors import DataError


def find_columns(present: Sequence[str], wanted: Wanted, where: str, hint: str | None = None) -> bool:
    """Sees to it that the wanted columns are there, each once.

    Args:
        present: The columns there are.
        wanted: The columns asked for.
        where: The file or data set, for messages.
        hint: What to do about a missing column, where more is known than which there are.

    Returns:
        Whether the label column is there; it may be missing only where it is optional.

    Raises:
        DataError: A column is missing, or stands there twice.
    """
    for column in (*wanted.text_columns, wanted.label_column):
        if present.count(column) > 1:
            raise DataError(f"{where}: column {column!r} stands there twice.", "Rename one of the two.")
    for column in wanted.text_columns:
        if column not in present:
            raise _missing(where, column, "data.text_columns", present, hint)
    if wanted.label_column not in present and not wanted.label_optional:
        raise _missing(where, wanted.label_column, "data.label_column", present, hint)
    return wanted.label_column in present


def _missing(where: str, column: str, parameter: str, present: Sequence[str], hint: str | None) -> DataError:
    return DataError(f"{where}: no column {column!r} ({parameter}){did_you_mean(column, present)}.", hint or f"It has {listed(present)}.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` without its question mark, or nothing where no name comes near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; the nearest is {near[0]!r}" if near else ""


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names for a message, cut short when there are many."""
    shown = [repr(name) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")
