"""Short excerpts of the rows that a report names."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from stages.validate.picking import take_rows
from stages.validate.raw import RawSplit
from stages.validate.running import Outcome
from stages.validate.suites.table import Table
from tuneline.paths import split_file

LONGEST = 120
UNPRINTABLE = re.compile(r"[^\x20-\x7e\xa0-\uffff\U00010000-\U0010ffff]|[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def shortened(text: str | None) -> str:
    """The beginning of a text on one line. What cannot be seen, or would turn the text around, is written as its number."""
    if text is None:
        return "(missing)"
    cut = text if len(text) <= LONGEST else text[:LONGEST] + "…"
    return UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", cut)


class Excerpts:
    """Reads the texts of single rows of the raw splits.

    Args:
        folder: Of the raw files.
        text_columns: The columns that hold texts.
        raw: What is known of each split, in the order of the line.
    """

    def __init__(self, folder: Path, text_columns: Sequence[str], raw: Mapping[str, RawSplit]) -> None:
        self._folder = folder
        self._text_columns = text_columns
        self._rows = {split: len(known.frame) for split, known in raw.items()}

    def texts(self, table: Table, row: int) -> dict[str, str]:
        """The texts of a row that a table is about."""
        return self._read(table.split, row) if table.kind in ("raw", "tokenized") else {}

    def like(self, outcome: Outcome, place: int) -> str | None:
        """Where the row that another one repeats stands, and what it says; ``None`` when the check is not about that."""
        column = outcome.arguments.get("column")
        if column not in ("duplicate_of", "conflict_with", "leak_of", "near_duplicate_of"):
            return None
        split, row = outcome.table.split, int(outcome.table.frame[column].iloc[place])
        if column in ("leak_of", "near_duplicate_of"):
            split, row = self._place(row)
        return f"{split}, row {row}: " + " | ".join(self._read(split, row).values())

    def _place(self, row: int) -> tuple[str, int]:
        """The split and row of a row counted through all splits."""
        for split, rows in self._rows.items():
            if row < rows:
                return split, row
            row -= rows
        raise IndexError(f"there is no row {row} past the last split")

    def _read(self, split: str, row: int) -> dict[str, str]:
        if split not in self._rows:
            return {}
        found = take_rows(split_file(self._folder, split), np.array([row]), self._text_columns).to_pylist()
        return {name: shortened(text) for name, text in found[0].items()} if found else {}
