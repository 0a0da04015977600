"""Rows that were decoded with another encoding than they were written in: few of them, or too many."""

from collections.abc import Sequence

import numpy as np

from stages.validate.raw import RawSplit
from tuneline.mojibake import correction
from tuneline.params import ValidateParams

SHOWN_ROWS = 5


def is_mixed(split: RawSplit, params: ValidateParams) -> bool:
    """Return False if so many rows have broken characters that ``broken_encoding`` fails: then the whole source has another encoding."""
    broken = np.count_nonzero(split.columns.column("broken_characters"))
    return bool(broken <= params.broken_encoding.max * split.rows)


def encoding_notes(split: RawSplit, text_columns: Sequence[str]) -> dict[str, list[str]]:
    """Say which rows have broken characters, and what the first of them should read.

    Args:
        split: The raw split.
        text_columns: Columns with texts.
    """
    rows = np.flatnonzero(split.columns.column("broken_characters"))
    if not len(rows):
        return {}
    others = np.count_nonzero(split.columns.column("beyond_ascii")) - len(rows)
    if others:
        cause = f"Other rows with correct characters beyond ASCII: {others:,}. So the source has parts in two encodings."
    else:
        cause = "No row has correct characters beyond ASCII, so data.files.encoding may be wrong for the whole source."
    lines = [f"{len(rows):,} row{'s' * (len(rows) > 1)}, the first is row {rows[0]:,}, the last row {rows[-1]:,}. {cause}"]
    for row, texts in zip(rows, split.source.take(rows[:SHOWN_ROWS], text_columns).to_pylist(), strict=False):
        lines += [f"row {row:,}, {name}: {correct}" for name, text in texts.items() if text and (correct := correction(text))]
    return {"broken_encoding": lines, "mixed_encoding": lines}
