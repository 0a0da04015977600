"""Rows that were decoded with another encoding than they were written in: few of them, or too many."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.validate.raw import RawSplit
from stages.validate.rows import take_rows
from tuneline.mojibake import correction
from tuneline.params import ValidateParams

SHOWN_ROWS = 5


def encoding_columns(split: RawSplit, params: ValidateParams) -> dict[str, NDArray[np.int64]]:
    """Return ``mixed_characters``, the broken characters of each row; nothing where so many rows have some that `broken_encoding` fails."""
    broken = split.frame["broken_characters"].to_numpy()
    is_few = np.count_nonzero(broken) <= params.broken_encoding.max * len(broken)
    return {"mixed_characters": broken} if is_few else {}


def encoding_notes(split: RawSplit, path: Path, text_columns: Sequence[str]) -> dict[str, list[str]]:
    """Say which rows have broken characters, and what the first of them should read.

    Args:
        split: The raw split.
        path: Its file.
        text_columns: Columns with texts.
    """
    rows = np.flatnonzero(split.frame["broken_characters"])
    if not len(rows):
        return {}
    others = int(split.frame["beyond_ascii"].sum()) - len(rows)
    if others:
        cause = f"Other rows with correct characters beyond ASCII: {others:,}. So the source has parts in two encodings."
    else:
        cause = "No row has correct characters beyond ASCII, so data.files.encoding may be wrong for the whole source."
    lines = [f"{len(rows):,} row{'s' * (len(rows) > 1)}, the first is row {rows[0]:,}, the last row {rows[-1]:,}. {cause}"]
    for row, texts in zip(rows, take_rows(path, rows[:SHOWN_ROWS], text_columns).to_pylist(), strict=False):
        lines += [f"row {row:,}, {name}: {correct}" for name, text in texts.items() if text and (correct := correction(text))]
    return {"broken_encoding": lines, "mixed_encoding": lines}
