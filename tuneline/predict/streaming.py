"""Predictions of a deployed model for a stream of rows, with one window of rows in memory at a time."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from tuneline.decisions.answer_rule import PLAIN, AnswerRule
from tuneline.model.encoding import EncodingError
from tuneline.onnx.exported_model import ExportedModel
from tuneline.predict.skipped_rows import RowReport
from tuneline.predict.why_column import why_values
from tuneline.predict.writing import OutputColumns, PredictionOutput, Writer, open_writer
from tuneline.program.row_windows import windows
from tuneline.readers.inputs import InputColumns, InputRows, Row, open_rows
from tuneline.readers.rows import BadRowPolicy, BadRows
from tuneline.readers.tables import Input
from tuneline.runtime.terminal import progress, say


@dataclass(frozen=True)
class StreamOptions:
    """Rows per forward pass, rows in memory at most, and what to do about rows that cannot be predicted.

    With ``deciding_window``, the output says which window of a document decided, and with ``why``, without
    which words the answer changes. ``rule`` decides about answers.
    """

    batch_size: int
    window: int
    bad_rows: BadRowPolicy
    deciding_window: bool = False
    rule: AnswerRule = PLAIN
    why: bool = False


@dataclass(frozen=True)
class TaskResult:
    """Counts of a file, or of a part of one, and its first skipped rows.

    Attributes:
        rows: Predicted rows.
        skipped: Bad rows that were left out.
        first: Places and reasons of the first skipped rows.
        truncated: Predicted rows that were too long for the model.
        abstained: Predicted rows that got no answer.
    """

    rows: int
    skipped: int = 0
    first: tuple[str, ...] = ()
    truncated: int = 0
    abstained: int = 0


def predict_file(
    model: ExportedModel,
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
    name = source.name
    with ExitStack() as stack:
        rows = stack.enter_context(open_rows(source, columns))
        output_columns = OutputColumns(
            model.task, rows.columns.kept, options.rule, options.deciding_window, options.why
        )
        writer = stack.enter_context(open_writer(output, output_columns))
        bad = BadRows(name, rows.unit, options.bad_rows)
        predicted = predict_rows(model, rows, writer, options, bad, report=report)
    return TaskResult(
        predicted.rows, bad.count, tuple(bad.first), predicted.truncated, abstained=writer.abstained
    )


def predict_and_say(
    model: ExportedModel,
    source: Input,
    columns: InputColumns,
    output: PredictionOutput,
    options: StreamOptions,
) -> None:
    """Predict an input as ``predict_file`` does, and print the number of rows and the time.

    They go to standard error.
    """
    started = time.perf_counter()
    result = predict_file(model, source, columns, output, options)
    say_truncated(result.truncated, result.rows, model)
    say_abstained(result.abstained, result.rows)
    say_summary(result.rows, result.skipped, started)


def say_abstained(abstained: int, rows: int) -> None:
    """Print to standard error how many rows got no answer, if there are any."""
    if abstained:
        say(
            f"{abstained:,} of {rows:,} rows ({abstained / rows:.1%}) got no answer: column abstained",
            error=True,
        )


def say_truncated(truncated: int, rows: int, model: ExportedModel) -> None:
    """Print to standard error how many rows were too long for the model, if there are any."""
    if truncated:
        share = truncated / rows
        say(f"{truncated:,} of {rows:,} rows ({share:.1%}) are {model.unread}", error=True)


def say_summary(rows: int, skipped: int, started: float, kept: int = 0) -> None:
    """Print the number of rows and the time to standard error; some predictions may have been kept."""
    seconds = time.perf_counter() - started
    counts = f"{rows:,} rows"
    if skipped:
        counts += f", {skipped:,} skipped"
    if kept:
        counts += f", {kept:,} of them kept"
    say(f"{counts} in {seconds:.1f} s, {(rows - kept) / seconds:,.0f} rows/s", error=True)


def predict_rows(
    model: ExportedModel,
    source: InputRows,
    writer: Writer,
    options: StreamOptions,
    bad: BadRows,
    *,
    report: bool = True,
) -> TaskResult:
    """Predict every row, in order, and return the counts.

    Rows of a window are sorted by length, so that batches carry little padding, and put back in order. The
    first windows are small, so that the first predictions appear at once.

    Args:
        model: The model.
        source: The rows.
        writer: Gets the predictions, window by window.
        options: Rows of a batch and of a window.
        bad: Counts the bad rows, which are left out, and refuses too many.
        report: Print the first bad rows.

    Raises:
        DataError: There are too many bad rows, or the tokenizer cannot encode a row. That is no bad row:
            another tokenizer may encode it.
    """
    predicted = truncated = 0
    position = source.position  # bytes of a text file that were read; None where rows are counted
    readable = good_rows(source, bad, report=report)
    groups = windows(readable, options.batch_size, options.window, lambda row: row.characters)
    with progress(f"predict: {bad.name}", source.total, unit="" if position else "rows") as step:
        for rows in groups:
            texts = [row.texts for row in rows]
            added: list[list[Any]] = [[] for _ in rows]
            try:
                encoded = model.encode(texts)
                if options.deciding_window:
                    outputs, deciding = model.outputs_with_windows(texts, encoded, options.batch_size)
                    for values, window in zip(added, deciding, strict=True):
                        values += [window.number, window.text]
                else:
                    outputs = model.outputs(encoded, options.batch_size)
                if options.why:
                    words = why_values(
                        model,
                        rows,
                        outputs,
                        options.rule,
                        text_columns=source.columns.texts,
                        batch_size=options.batch_size,
                    )
                    for number, value in enumerate(words):
                        added[number].append(value)
                        step.detail = f"{predicted + number + 1:,} rows"
            except EncodingError as error:
                raise error.at(f"{bad.name}, row {rows[error.row].number}") from None
            writer.write(rows, outputs, added)
            predicted += len(rows)
            truncated += encoded.truncated
            if position:
                step.done = position()
                step.detail = f"{predicted:,} rows"
            else:
                step.done = rows[-1].number
                step.detail = ""
    bad.check(predicted)
    return TaskResult(predicted, truncated=truncated)


def good_rows(source: InputRows, bad: BadRows, *, report: bool = True) -> Iterator[Row]:
    """Yield the good rows; stop at a bad row, or report and count it."""
    printed = RowReport()
    for row in source.rows:
        if isinstance(row, Row):
            yield row
            continue
        place = f"row {row.number}"
        if source.unit != "row":
            place += f" (line {row.problem.line})"
        bad.add(row.problem, place)
        if report:
            printed.add(f"skipped {place}: {row.problem.message}")
