"""The deployed model, with its tokenizer, and its predictions for a stream of rows, with one window of rows in memory at a time."""

import functools
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from tuneline.cli.predict.writing import OutputColumns, PredictionOutput, Writer, open_writer
from tuneline.core.terminal import progress, say
from tuneline.model.encoding import EncodingError
from tuneline.onnx.records import exported_file
from tuneline.onnx.text_classifier import TextClassifier
from tuneline.readers.inputs import Input, InputColumns, InputRows, Row, open_rows
from tuneline.readers.rows import BadRowPolicy, BadRows

SATURATION_WARNING = (
    "warning: this model has 8-bit weights, and this processor clips their products (it has no VNNI"
    " instructions). They are multiplied in a slower way that does not clip; other programs need"
    " session.x64quantprecision=1 for that. export.int8.reduce_range: true makes a model for every processor."
)


@dataclass(frozen=True)
class ModelChoice:
    """The model of a prediction.

    Attributes:
        path: A folder that the stage ``compare`` published, or one ONNX file in it.
        precision: Precision of the model in a folder; ``None`` for fp32.
        threads: Threads per operator; ``None`` for all cores that the process may use.
    """

    path: Path
    precision: str | None = None
    threads: int | None = None

    @functools.lru_cache(maxsize=1)  # noqa: B019 - a worker loads the model once for all its tasks
    def load(self) -> TextClassifier:
        """Load the model, once in a process."""
        return TextClassifier.load(self.path, self.precision, self.threads)

    def load_and_warn(self) -> TextClassifier:
        """Load the model as ``load`` does, and warn if its products are slow on this processor."""
        model = self.load()
        if model.classifier.exact_products:
            say(SATURATION_WARNING, error=True)
        return model

    def file(self) -> Path:
        """Return the ONNX file; a ``StageError`` if it or another file of the model is missing or damaged."""
        return exported_file(self.path, self.precision)


WINDOW_CHARACTERS = 1 << 22
"""Characters from which a window has no more rows, however few it has: a tokenizer takes about 60 bytes of memory for each."""
REPORTED = 20
"""Skipped rows that are reported one by one; the others are only counted."""


@dataclass(frozen=True)
class StreamOptions:
    """Rows per forward pass, rows in memory at most, and what to do about rows that cannot be predicted."""

    batch_size: int
    window: int
    bad_rows: BadRowPolicy


@dataclass(frozen=True)
class TaskResult:
    """What was done for a file, or a part of one, with places and reasons of the first skipped rows.

    Attributes:
        truncated: Predicted rows that were too long for the model.
    """

    rows: int
    skipped: int = 0
    first: tuple[str, ...] = ()
    truncated: int = 0


def predict_file(
    model: TextClassifier,
    source: Input,
    columns: InputColumns,
    output: PredictionOutput,
    options: StreamOptions,
    *,
    report: bool = True,
) -> TaskResult:
    """Write the predictions of an input; a file is complete or absent.

    The first bad rows are printed if ``report``.
    """
    with (
        open_rows(source, columns) as rows,
        open_writer(output, OutputColumns(model.task, rows.columns.kept)) as writer,
    ):
        bad = BadRows(
            "standard input" if source.path is None else str(source.path), rows.unit, options.bad_rows
        )
        predicted = predict_rows(model, rows, writer, options, bad, report=report)
    return TaskResult(predicted.rows, bad.count, tuple(bad.first), predicted.truncated)


def predict_and_say(
    model: TextClassifier,
    source: Input,
    columns: InputColumns,
    output: PredictionOutput,
    options: StreamOptions,
) -> None:
    """Predict an input as ``predict_file`` does, and print the number of rows and the time to standard error."""
    started = time.perf_counter()
    with ended_by_reader():
        result = predict_file(model, source, columns, output, options)
    say_truncated(result.truncated, result.rows, model.max_length)
    say_summary(result.rows, result.skipped, started)


def say_truncated(truncated: int, rows: int, max_length: int) -> None:
    """Print to standard error how many rows were too long for the model, if there are any."""
    if truncated:
        share = truncated / rows
        say(
            f"{truncated:,} of {rows:,} rows ({share:.1%}) are longer than {max_length} tokens: the model did"
            " not read the rest",
            error=True,
        )


@contextmanager
def ended_by_reader() -> Iterator[None]:
    """End the command without a traceback if the reader of standard output stops, as ``head`` does."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None


def say_summary(rows: int, skipped: int, started: float, kept: int = 0) -> None:
    """Print the number of rows and the time to standard error; some predictions may have been kept."""
    seconds = time.perf_counter() - started
    more = (f", {skipped:,} skipped" if skipped else "") + (f", {kept:,} of them kept" if kept else "")
    say(f"{rows:,} rows{more} in {seconds:.1f} s, {(rows - kept) / seconds:,.0f} rows/s", error=True)


def predict_rows(
    model: TextClassifier,
    source: InputRows,
    writer: Writer,
    options: StreamOptions,
    bad: BadRows,
    *,
    report: bool = True,
) -> TaskResult:
    """Predict every row, in order, and return their numbers; ``bad`` counts those that are left out, and refuses too many.

    A row that the tokenizer cannot encode is no bad row but an error, a ``DataError``: another tokenizer may
    encode it.

    Rows of a window are sorted by length, so that batches carry little padding, and put back in order. The
    first windows are small, so that the first predictions appear at once.
    """
    predicted = truncated = 0
    position = source.position
    with progress(f"predict: {bad.name}", source.total, unit="" if position else "rows") as step:
        for rows in windows(good_rows(source, bad, report=report), options.batch_size, options.window):
            try:
                encoded = model.encode([row.texts for row in rows])
            except EncodingError as error:
                raise error.at(f"{bad.name}, row {rows[error.row].number}") from None
            writer.write(rows, model.outputs(encoded, options.batch_size))
            predicted += len(rows)
            truncated += encoded.truncated
            step.done = position() if position else rows[-1].number
            step.detail = f"{predicted:,} rows" if position else ""
    bad.check(predicted)
    return TaskResult(predicted, truncated=truncated)


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
    """Yield the good rows; stop at a bad row, or report and count it."""
    printed = RowReport()
    for row in source.rows:
        if isinstance(row, Row):
            yield row
            continue
        place = f"row {row.number}" if source.unit == "row" else f"row {row.number} (line {row.problem.line})"
        bad.add(row.problem, place)
        if report:
            printed.add(f"skipped {place}: {row.problem.message}")


class RowReport:
    """Prints the first ``REPORTED`` skipped rows one by one."""

    def __init__(self) -> None:
        self._lines = 0

    def add(self, line: str) -> None:
        """Print a line, if it is one of the first."""
        self._lines += 1
        if self._lines <= REPORTED:
            say(line, error=True)
        if self._lines == REPORTED:
            say("(further bad rows are counted, but not reported)", error=True)
