"""Rows in, predictions out, a window of rows in memory at a time."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tuneline.cli.predict.model import ServedModel
from tuneline.cli.predict.opening import Opened
from tuneline.cli.predict.rows import BadRow, Row, Rows
from tuneline.cli.predict.writing import Writer
from tuneline.errors import DataError

BadRows = Literal["stop", "skip"]
NAMED = 20
"""Bad rows that are named one by one; the rest is counted."""


@dataclass(frozen=True)
class Pace:
    """How rows are taken.

    Attributes:
        batch_size: Rows that the model sees at a time.
        window: Rows in memory, at most.
        bad_rows: ``stop`` at the first, or ``skip`` them.
    """

    batch_size: int
    window: int
    bad_rows: BadRows


@dataclass
class Tally:
    """What has happened so far."""

    predicted: int = 0
    skipped: int = 0


def predict_rows(model: ServedModel, opened: Opened, writer: Writer, pace: Pace) -> Tally:
    """Predicts every row, in order.

    Rows of a window are sorted by length, so that batches carry little padding, and put back in order. The first windows are
    small: the first predictions come at once.

    Args:
        model: The model.
        opened: The rows.
        writer: Where predictions go.
        pace: How rows are taken.

    Raises:
        DataError: A bad row, and ``pace`` says to stop at it.
    """
    tally = Tally()
    with _Bar(opened) as bar:
        for rows in windows(good_rows(opened.rows, pace.bad_rows, tally, bar), pace.batch_size, pace.window):
            outputs = model.predict([row.texts for row in rows], pace.batch_size)
            writer.put(rows, outputs)
            tally.predicted += len(rows)
            bar.move(rows[-1].number)
    return tally


def windows(rows: Iterator[Row], first: int, most: int) -> Iterator[list[Row]]:
    """Cuts rows into windows, each twice as large as the one before up to ``most``."""
    size, waiting = min(first, most), []
    for row in rows:
        waiting.append(row)
        if len(waiting) == size:
            yield waiting
            size, waiting = min(2 * size, most), []
    if waiting:
        yield waiting


def good_rows(rows: Rows, bad_rows: BadRows, tally: Tally, bar: "_Bar") -> Iterator[Row]:
    """Lets good rows through, and does with bad ones what is asked.

    Raises:
        DataError: A bad row, with ``stop``.
    """
    for row in rows:
        if isinstance(row, Row):
            yield row
            continue
        if bad_rows == "stop":
            raise DataError(f"{described(row)}.", "Mend it, or go on without such rows: --bad-rows skip.")
        tally.skipped += 1
        if tally.skipped <= NAMED:
            bar.say(f"skipped {described(row)}")
        if tally.skipped == NAMED:
            bar.say("(further bad rows are counted, not named)")


def described(row: BadRow) -> str:
    """A bad row for a message."""
    number = f"row {row.number}"
    return f"{number}: {row.reason}" if row.place == number else f"{number} ({row.place}): {row.reason}"


class _Bar:
    """A progress bar on standard error, where that is a terminal."""

    def __init__(self, opened: Opened) -> None:
        from tqdm import tqdm

        self._tell = opened.position
        bytes_ = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
        self._bar = tqdm(total=opened.total, disable=None, **(bytes_ if self._tell else {"unit": " rows"}))

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def move(self, row: int) -> None:
        """Rows up to this one are done."""
        self._bar.set_postfix_str(f"{row:,} rows", refresh=False)
        self._bar.update((self._tell() if self._tell else row) - self._bar.n)

    def say(self, message: str) -> None:
        """Writes a line above the bar."""
        self._bar.write(message, file=sys.stderr)
