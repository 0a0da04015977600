"""Predictions of a deployed model for a stream of rows, with one window of rows in memory at a time."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tuneline.core.runtime.terminal import progress, say
from tuneline.judge.decisions.rule import AnswerRule
from tuneline.model.tokens.encoding import EncodingError
from tuneline.onnx.exported_model import ExportedModel
from tuneline.rows.reading.rows import (
    BadRowPolicy,
    BadRows,
    RowProblem,
    check_columns,
    row_problem,
    text_problem,
)
from tuneline.rows.reading.tables import FileTable, Input, open_table
from tuneline.serve.columns import InputColumns, OutputColumns, Row, why_values
from tuneline.serve.program_rows import WINDOW, windows
from tuneline.serve.writing import PredictionOutput, Writer, open_writer


@dataclass(frozen=True)
class StreamOptions:
    """How rows are predicted.

    Attributes:
        batch_size: Rows per forward pass.
        bad_rows: What to do about rows that cannot be predicted.
        rule: What decides about answers.
        why: True if the output says without which words the answer changes.
    """

    batch_size: int
    bad_rows: BadRowPolicy
    rule: AnswerRule
    why: bool = False


@dataclass
class PredictedCounts:
    """Counts of rows: predicted, left out, too long for the model, and without an answer, by the reason."""

    rows: int = 0
    skipped: int = 0
    truncated: int = 0
    unanswered: Counter[str] = field(default_factory=Counter)

    def add(self, counts: "PredictedCounts") -> None:
        """Add the counts of other rows."""
        self.rows += counts.rows
        self.skipped += counts.skipped
        self.truncated += counts.truncated
        self.unanswered += counts.unanswered

    def print_summary(self, model: ExportedModel, started: float) -> None:
        """Print the counts and the time since ``started`` (``time.perf_counter``) to standard error."""
        if self.truncated:
            share = self.truncated / self.rows
            say(f"{self.truncated:,} of {self.rows:,} rows ({share:.1%}) are {model.unread}", error=True)
        for reason, rows in self.unanswered.items():
            share = rows / self.rows
            say(f"{rows:,} of {self.rows:,} rows ({share:.1%}) got no answer: {reason}", error=True)
        seconds = time.perf_counter() - started
        skipped = f", {self.skipped:,} skipped" if self.skipped else ""
        speed = f"{self.rows / seconds:,.0f} rows/s"
        say(f"{self.rows:,} rows{skipped} in {seconds:.1f} s, {speed}", error=True)


def predict_input(
    model: ExportedModel,
    source: Input,
    columns: InputColumns,
    output: PredictionOutput,
    options: StreamOptions,
) -> PredictedCounts:
    """Write the predictions of an input. A file is complete or absent.

    Raises:
        DataError: The input cannot be read or has too many bad rows, or the tokenizer cannot encode a row.
    """
    with open_table(source) as table:
        kept = columns.kept
        if kept is None:
            table.is_whole = True
            kept = tuple(table.names())
        check_columns(table.names(), columns.texts + kept, table.name, table.hint)
        output_columns = OutputColumns(model.task, kept, options.rule, options.why)
        with open_writer(output, output_columns) as writer:
            counts = predict_rows(model, table, InputColumns(columns.texts, kept), writer, options)
            counts.unanswered = writer.unanswered
    return counts


def predict_rows(
    model: ExportedModel, table: FileTable, columns: InputColumns, writer: Writer, options: StreamOptions
) -> PredictedCounts:
    """Predict every row of a file, in order, and return the counts.

    Rows of a window are sorted by length, so that batches carry little padding, and put back in order. The
    first windows are small, so that the first predictions appear at once.

    Raises:
        DataError: There are too many bad rows, or the tokenizer cannot encode a row. That is not a bad row:
            another tokenizer may encode it.
    """
    counts = PredictedCounts()
    name = table.name
    bad = BadRows(name, table.source.unit, options.bad_rows, printed=True)
    position = None  # bytes of a text file that were read
    if table.lines is not None:
        position = table.lines.position
    groups = windows(good_rows(table, columns, bad), options.batch_size, WINDOW, lambda row: row.characters)
    with progress(f"predict: {name}", table.total, unit="" if position else "rows") as step:
        for rows in groups:
            try:
                encoded = model.encode([row.texts for row in rows])
                outputs = model.outputs(encoded, options.batch_size)
                words = None
                if options.why:
                    words = why_values(
                        model,
                        rows,
                        outputs,
                        options.rule,
                        text_columns=columns.texts,
                        batch_size=options.batch_size,
                    )
            except EncodingError as error:
                raise error.at(f"{name}, row {rows[error.row].number}") from None
            writer.write(rows, outputs, words)
            counts.rows += len(rows)
            counts.truncated += encoded.truncated
            step.done = position() if position else rows[-1].number
            step.detail = f"{counts.rows:,} rows" if position else ""
    bad.check(counts.rows)
    counts.skipped = bad.count
    return counts


def good_rows(table: FileTable, columns: InputColumns, bad: BadRows) -> Iterator[Row]:
    """Yield the rows that can be predicted; others are bad rows."""
    texts = columns.texts
    kept = columns.kept or ()
    for number, (line, values) in enumerate(table.rows(texts + kept), start=1):
        if isinstance(values, RowProblem):
            bad.add(values)
            continue
        row = Row(number, tuple(values[: len(texts)]), tuple(values[len(texts) :]))
        problem = row_problem(dict(zip(texts, row.texts, strict=True)))
        for name, value in zip(kept, row.kept, strict=True):
            if problem is None and isinstance(value, str):
                problem = text_problem(value, name)
        if problem is None:
            yield row
        else:
            bad.add(RowProblem(line, problem, "Every row needs text; --text names another column."))
