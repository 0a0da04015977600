"""Prediction of a stream of rows, with one window of rows in memory at a time."""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import typer

from tuneline.cli.predict import BadRows
from tuneline.cli.predict.formats import OutputColumns, Writer
from tuneline.cli.predict.model import DeployedModel
from tuneline.cli.predict.writing import Output, open_writer
from tuneline.errors import DataError
from tuneline.inputs import BadRow, Input, InputColumns, InputRows, Row, open_rows
from tuneline.terminal import say, visible

WINDOW_CHARACTERS = 1 << 22
"""Characters from which a window has no more rows, however few it has: a tokenizer takes about 60 bytes of memory for each."""
REPORTED = 20
"""Skipped rows that are reported one by one; the others are only counted."""


@dataclass(frozen=True)
class StreamOptions:
    """How rows are processed.

    Attributes:
        batch_size: Rows per forward pass.
        window: Rows in memory, at most.
        bad_rows: ``stop`` at the first, or ``skip`` them.
    """

    batch_size: int
    window: int
    bad_rows: BadRows


@dataclass
class RowCounts:
    """Numbers of rows processed so far."""

    predicted: int = 0
    skipped: int = 0


def predict_file(model: DeployedModel, source: Input, columns: InputColumns, output: Output, options: StreamOptions) -> None:
    """Predict every row of an input, and print the number of rows and the time to standard error.

    Raises:
        DataError: The input cannot be read, or the output cannot be written.
    """
    started = time.perf_counter()
    try:
        with open_rows(source, columns) as rows, open_writer(output, OutputColumns(model.labels, columns.kept)) as writer:
            counts = predict_rows(model, rows, writer, options)
    except BrokenPipeError:  # the reader of standard output stopped, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    seconds = time.perf_counter() - started
    skipped = f", {counts.skipped:,} skipped" if counts.skipped else ""
    say(f"{counts.predicted:,} rows{skipped} in {seconds:.1f} s, {counts.predicted / seconds:,.0f} rows/s", error=True)


def predict_rows(model: DeployedModel, source: InputRows, writer: Writer, options: StreamOptions) -> RowCounts:
    """Predict every row, in order.

    Rows of a window are sorted by length, so that batches carry little padding, and put back in order. The first windows are
    small, so that the first predictions appear at once.

    Args:
        model: The model.
        source: The rows.
        writer: Writer of the output.
        options: How rows are processed.

    Raises:
        DataError: There is a bad row, and the options say to stop at it.
    """
    counts = RowCounts()
    with _ProgressBar(source) as progress:
        for rows in windows(good_rows(source, options.bad_rows, counts, progress), options.batch_size, options.window):
            outputs = model.predict([row.texts for row in rows], options.batch_size)
            writer.put(rows, outputs)
            counts.predicted += len(rows)
            progress.advance(rows[-1].number)
    return counts


def windows(rows: Iterator[Row], first: int, most: int) -> Iterator[list[Row]]:
    """Yield windows of rows: ``first`` rows, then each window twice as large as the one before, up to ``most``; fewer long rows."""
    size, waiting, characters = min(first, most), [], 0
    for row in rows:
        waiting.append(row)
        characters += row.characters
        if len(waiting) == size or characters >= WINDOW_CHARACTERS:
            yield waiting
            size, waiting, characters = min(2 * size, most), [], 0
    if waiting:
        yield waiting


def good_rows(source: InputRows, bad_rows: BadRows, counts: RowCounts, progress: "_ProgressBar") -> Iterator[Row]:
    """Yield the good rows; stop at a bad row, or report and count it.

    Raises:
        DataError: There is a bad row, and ``bad_rows`` is ``stop``.
    """
    for row in source.rows:
        if isinstance(row, Row):
            yield row
            continue
        message = f"{place(row, source)}: {row.problem.message}"
        if bad_rows == "stop":
            raise DataError(f"{message}.", f"{row.problem.hint} To leave out such rows: --bad-rows skip.")
        counts.skipped += 1
        if counts.skipped <= REPORTED:
            progress.write(f"skipped {message}")
        if counts.skipped == REPORTED:
            progress.write("(further bad rows are counted, but not reported)")


def place(row: BadRow, source: InputRows) -> str:
    """Return where a bad row is, for a message."""
    return f"row {row.number}" if source.unit == "row" else f"row {row.number} (line {row.problem.line})"


class _ProgressBar:
    """A progress bar on standard error, if that is a terminal."""

    def __init__(self, source: InputRows) -> None:
        from tqdm import tqdm

        self._position = source.position
        bytes_ = {"unit": "B", "unit_scale": True, "unit_divisor": 1024}
        self._bar = tqdm(total=source.total, disable=None, **(bytes_ if self._position else {"unit": " rows"}))

    def __enter__(self) -> "_ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def advance(self, row: int) -> None:
        """Show that all rows up to this number are predicted."""
        self._bar.set_postfix_str(f"{row:,} rows", refresh=False)
        self._bar.update((self._position() if self._position else row) - self._bar.n)

    def write(self, message: str) -> None:
        """Write a line above the bar."""
        self._bar.write(visible(message), file=sys.stderr)
