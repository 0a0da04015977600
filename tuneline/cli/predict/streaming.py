"""Prediction of a stream of rows, with one window of rows in memory at a time."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer

from tuneline.cli.predict.formats import OutputColumns, Writer
from tuneline.cli.predict.model import DeployedModel
from tuneline.cli.predict.writing import Output, open_writer
from tuneline.inputs import BadRow, Input, InputColumns, InputRows, Row, open_rows
from tuneline.readers.bad_rows import BadRowPolicy, BadRows
from tuneline.terminal import progress, say

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
        bad_rows: What to do about rows that cannot be predicted.
    """

    batch_size: int
    window: int
    bad_rows: BadRowPolicy


def predict_file(model: DeployedModel, source: Input, columns: InputColumns, output: Output, options: StreamOptions) -> None:
    """Predict every row of an input, and print the number of rows and the time to standard error.

    Raises:
        DataError: The input cannot be read, or the output cannot be written.
    """
    started = time.perf_counter()
    with (
        ended_by_reader(),
        open_rows(source, columns) as rows,
        open_writer(output, OutputColumns(model.labels, columns.kept)) as writer,
    ):
        bad = BadRows("standard input" if source.path is None else str(source.path), rows.unit, options.bad_rows)
        predicted = predict_rows(model, rows, writer, options, bad)
    say_summary(predicted, bad.count, started)


@contextmanager
def ended_by_reader() -> Iterator[None]:
    """End the command without a traceback if the reader of standard output stops, as ``head`` does.

    Raises:
        Exit: It has.
    """
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None


def say_summary(rows: int, skipped: int, started: float, kept: int = 0) -> None:
    """Print the number of rows and the time to standard error.

    Args:
        rows: Number of predictions.
        skipped: Number of bad rows that were left out.
        started: Value of ``time.perf_counter`` at the start.
        kept: Number of the predictions that were there before.
    """
    seconds = time.perf_counter() - started
    more = (f", {skipped:,} skipped" if skipped else "") + (f", {kept:,} of them kept" if kept else "")
    say(f"{rows:,} rows{more} in {seconds:.1f} s, {(rows - kept) / seconds:,.0f} rows/s", error=True)


def predict_rows(
    model: DeployedModel, source: InputRows, writer: Writer, options: StreamOptions, bad: BadRows, *, report: bool = True
) -> int:
    """Predict every row, in order, and return their number.

    Rows of a window are sorted by length, so that batches carry little padding, and put back in order. The first windows are
    small, so that the first predictions appear at once.

    Args:
        model: The model.
        source: The rows.
        writer: Writer of the output.
        options: How rows are processed.
        bad: The rows that are left out.
        report: Print the first of them.

    Raises:
        DataError: There is a bad row, and the options say to stop at it; or there are too many.
    """
    predicted, position = 0, source.position
    with progress(f"predict: {bad.name}", source.total, unit="" if position else "rows") as step:
        for rows in windows(good_rows(source, bad, report=report), options.batch_size, options.window):
            outputs = model.predict([row.texts for row in rows], options.batch_size)
            writer.put(rows, outputs)
            predicted += len(rows)
            step.done = position() if position else rows[-1].number
            step.detail = f"{predicted:,} rows" if position else ""
    bad.check(predicted)
    return predicted


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


def good_rows(source: InputRows, bad: BadRows, *, report: bool = True) -> Iterator[Row]:
    """Yield the good rows; stop at a bad row, or report and count it.

    Raises:
        DataError: There is a bad row, and that is an error; or there are too many.
    """
    reported = 0
    for row in source.rows:
        if isinstance(row, Row):
            yield row
            continue
        bad.add(row.problem, place(row, source))
        if not report:
            continue
        reported += 1
        if reported <= REPORTED:
            say(f"skipped {place(row, source)}: {row.problem.message}", error=True)
        if reported == REPORTED:
            say("(further bad rows are counted, but not reported)", error=True)


def place(row: BadRow, source: InputRows) -> str:
    """Return where a bad row is, for a message."""
    return f"row {row.number}" if source.unit == "row" else f"row {row.number} (line {row.problem.line})"
