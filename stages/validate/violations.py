"""The rows that violate a check most, with excerpts of their texts."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stages.validate.raw import RawSplit
from stages.validate.rows import Rows, take_rows
from stages.validate.runner import Outcome
from stages.validate.tables import Table
from tuneline.paths import split_file
from tuneline.records.checks import Violation

MAX_ROWS = 5
"""Violating rows that are reported per expectation."""
MAX_CHARACTERS = 120
"""Characters of an excerpt."""
WITHIN = {"duplicate_of", "conflict_with"}
"""Columns with a row of the same split that a row repeats."""
ACROSS = {"leak_of", "near_duplicate_of"}
"""Columns with a row that a row repeats, numbered through all splits."""
BY_CLASS = {"rare_class", "name_faults"}
"""Columns that say something about the class of a row."""
UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\uffff\U00010000-\U0010ffff]|[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class Excerpts:
    """Reads excerpts of single rows of the raw splits.

    Args:
        folder: Folder of the raw files.
        text_columns: Columns with texts.
        raw: Raw splits by name, earlier splits first.
    """

    def __init__(self, folder: Path, text_columns: Sequence[str], raw: Mapping[str, RawSplit]) -> None:
        self._folder = folder
        self._text_columns = text_columns
        self._rows = {split: len(split_data.frame) for split, split_data in raw.items()}

    def texts(self, table: Table, row: int) -> dict[str, str]:
        """Return excerpts of a row's texts, by column; none if the rows of the table are not rows of the split."""
        return self._read(table.split, row) if table.kind in ("raw", "tokenized") else {}

    def repeated_row(self, outcome: Outcome, position: int) -> str | None:
        """Return the location and the texts of the row that a row of the table repeats; ``None`` for other checks."""
        others = other_rows(outcome, np.array([position]), self._rows)
        if others is None:
            return None
        split, row = str(others[0][0]), int(others[1][0])
        return f"{split}, row {row}: " + " | ".join(self._read(split, row).values())

    def _read(self, split: str, row: int) -> dict[str, str]:
        if split not in self._rows:
            return {}
        rows = take_rows(split_file(self._folder, split), np.array([row]), self._text_columns).to_pylist()
        return {name: excerpt(text) for name, text in rows[0].items()} if rows else {}


def other_rows(outcome: Outcome, positions: Rows, sizes: Mapping[str, int]) -> tuple[NDArray[np.str_], Rows] | None:
    """Return the rows that rows of a table repeat: their splits and their numbers, each of shape ``(positions,)``.

    Args:
        outcome: Result of an expectation; ``None`` is returned for one that compares no rows.
        positions: Positions in the table of rows that violate it.
        sizes: Number of rows of each raw split, in the order of their numbering.
    """
    column = outcome.arguments.get("column")
    if column not in WITHIN | ACROSS:
        return None
    rows = outcome.table.frame[column].to_numpy()[positions].astype(np.int64)
    if column in WITHIN:
        return np.full(len(rows), outcome.table.split), rows
    stops = np.cumsum(list(sizes.values()))
    split = np.searchsorted(stops, rows, side="right")
    return np.array(list(sizes))[split], rows - np.append(0, stops)[split]


def excerpt(text: str | None) -> str:
    """Return the start of a text, printable."""
    if text is None:
        return "(missing)"
    cut = text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…"
    return printable(cut)


def printable(text: str) -> str:
    """Return a text on one line, with invisible characters and changes of writing direction escaped."""
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def worst_violations(outcome: Outcome, excerpts: Excerpts) -> Iterator[Violation]:
    """Yield the rows that violate an expectation most, at most ``MAX_ROWS``."""
    frame = outcome.table.frame
    excess = excess_of_rows(frame, outcome.arguments)
    positions = np.flatnonzero(excess > 0)
    for position in positions[np.argsort(-excess[positions], kind="stable")][:MAX_ROWS]:
        row = int(frame["row"].iloc[position])
        values = {name: _json_value(frame[name].iloc[position]) for name in _shown_columns(outcome)}
        like = excerpts.repeated_row(outcome, position)
        yield Violation(number=row, values=values, texts=excerpts.texts(outcome.table, row), like=like)


def excess_of_rows(frame: pd.DataFrame, arguments: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return by how much each row violates an expectation, of shape ``(rows,)``; 0 for rows that meet it or are not checked.

    For a ratio of two columns it is what the row adds to the numerator.
    """
    if "column_A" in arguments:
        differs: NDArray[np.float64] = (frame[arguments["column_A"]] != frame[arguments["column_B"]]).to_numpy(np.float64)
        return differs
    values = frame[arguments["column"]].to_numpy()
    if "total" in arguments:
        numerator: NDArray[np.float64] = values.astype(np.float64)
        return numerator
    if "value_set" in arguments:
        weight = frame["similarity"].to_numpy() if arguments["column"] == "near_duplicate_of" else 1.0
        outside: NDArray[np.float64] = weight * (~np.isin(values, arguments["value_set"]) & ~pd.isna(values))
        return outside
    low, high = arguments.get("min_value"), arguments.get("max_value")
    excess = np.zeros(len(values))
    if low is not None:
        excess = np.maximum(excess, low - values)
    if high is not None:
        excess = np.maximum(excess, values - high)
    return excess


def checked_columns(outcome: Outcome) -> list[str]:
    """Return the columns that show why a row violates an expectation."""
    if outcome.arguments.get("column") in BY_CLASS:
        return ["class"]
    return [outcome.arguments[key] for key in ("column", "column_A", "column_B", "total") if key in outcome.arguments]


def _shown_columns(outcome: Outcome) -> list[str]:
    names = checked_columns(outcome)
    return [*names, "similarity"] if "near_duplicate_of" in names else [name for name in names if not name.endswith("_of")]


def _json_value(value: Any) -> Any:
    """Return a value that strict JSON can hold: Python numbers, NaN and infinity as strings, and texts without HTML escapes."""
    if isinstance(value, str):
        return printable(html.unescape(value))
    plain = value.item() if isinstance(value, np.generic) else value
    return str(plain) if isinstance(plain, float) and not np.isfinite(plain) else plain
