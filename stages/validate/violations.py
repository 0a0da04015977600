"""The rows that violate a check most, with excerpts of their texts."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from stages.validate.raw import RawSplit
from stages.validate.rows import Rows
from stages.validate.runner import Outcome
from stages.validate.tables import Table
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
        text_columns: Columns with texts.
        raw: Raw splits by name, earlier splits first.
    """

    def __init__(self, text_columns: Sequence[str], raw: Mapping[str, RawSplit]) -> None:
        self._text_columns = text_columns
        self._raw = raw

    def texts(self, table: Table, row: int) -> dict[str, str]:
        """Return excerpts of a row's texts, by column; none if the rows of the table are not rows of the split."""
        return self._read(table.split, row) if table.kind in ("raw", "tokenized") else {}

    def repeated_row(self, outcome: Outcome, rows: pd.DataFrame) -> str | None:
        """Return the location and the texts of the row that the one row of a table repeats; ``None`` for other checks."""
        others = other_rows(outcome, rows, {split: split_data.rows for split, split_data in self._raw.items()})
        if others is None:
            return None
        split, row = str(others[0][0]), int(others[1][0])
        return f"{split}, row {row}: " + " | ".join(self._read(split, row).values())

    def _read(self, split: str, row: int) -> dict[str, str]:
        if split not in self._raw:
            return {}
        rows = self._raw[split].source.take(np.array([row]), self._text_columns).to_pylist()
        return {name: excerpt(text) for name, text in rows[0].items()} if rows else {}


def other_rows(outcome: Outcome, rows: pd.DataFrame, sizes: Mapping[str, int]) -> tuple[NDArray[np.str_], Rows] | None:
    """Return the rows that rows of a table repeat: their splits and their numbers, each of shape ``(rows,)``.

    Args:
        outcome: Result of an expectation; ``None`` is returned for one that compares no rows.
        rows: Columns of rows that violate it.
        sizes: Number of rows of each raw split, in the order of their numbering.
    """
    column = outcome.arguments.get("column")
    if column not in WITHIN | ACROSS:
        return None
    others = rows[column].to_numpy().astype(np.int64)
    if column in WITHIN:
        return np.full(len(others), outcome.table.split), others
    stops = np.cumsum(list(sizes.values()))
    split = np.searchsorted(stops, others, side="right")
    return np.array(list(sizes))[split], others - np.append(0, stops)[split]


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
    parts = [rows.iloc[_largest(excess)].assign(excess=excess[_largest(excess)]) for rows, excess in violations(outcome)]
    worst = pd.concat(parts)
    worst = worst.iloc[_largest(worst["excess"].to_numpy())]
    for place, row in enumerate(worst.index):
        values = {name: _json_value(worst[name].iloc[place]) for name in _shown_columns(outcome)}
        like = excerpts.repeated_row(outcome, worst.iloc[[place]])
        yield Violation(number=int(row), values=values, texts=excerpts.texts(outcome.table, int(row)), like=like)


def violations(outcome: Outcome) -> Iterator[tuple[pd.DataFrame, NDArray[np.float64]]]:
    """Yield the rows that violate an expectation, and by how much, reading a batch of rows at a time; the index numbers the rows."""
    columns = outcome.table.columns
    needed = dict.fromkeys([*outcome.columns, *checked_columns(outcome), *_shown_columns(outcome)])
    for rows in columns.frames([name for name in needed if name in columns.names]):
        excess = excess_of_rows(rows, outcome.arguments)
        yield rows[excess > 0], excess[excess > 0]


def _largest(excess: NDArray[np.float64]) -> Rows:
    """Return the places of the largest values, in their order; of equal ones, the first."""
    return np.argsort(-excess, kind="stable")[:MAX_ROWS]


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
    return outcome.columns


def _shown_columns(outcome: Outcome) -> list[str]:
    names = checked_columns(outcome)
    return [*names, "similarity"] if "near_duplicate_of" in names else [name for name in names if not name.endswith("_of")]


def _json_value(value: Any) -> Any:
    """Return a value that strict JSON can hold: Python numbers, NaN and infinity as strings, and texts without HTML escapes."""
    if isinstance(value, str):
        return printable(html.unescape(value))
    plain = value.item() if isinstance(value, np.generic) else value
    return str(plain) if isinstance(plain, float) and not np.isfinite(plain) else plain
