"""Predictions of a deployed model for a stream of rows, with one window of rows in memory at a time."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuneline.decisions.rule import PLAIN, AnswerRule
from tuneline.model.encoding import EncodingError
from tuneline.onnx.exported_model import ExportedModel
from tuneline.predict.columns import OutputColumns, why_values
from tuneline.predict.writing import PredictionOutput, Writer, open_writer
from tuneline.program.program_rows import windows
from tuneline.readers.inputs import InputColumns, InputRows, Row, open_rows
from tuneline.readers.rows import BadRowPolicy, BadRows
from tuneline.readers.tables import Input
from tuneline.runtime.terminal import progress, say

REPORTED = 20
"""Skipped rows that are reported one by one; rows after them are only counted."""


@dataclass(frozen=True)
class StreamOptions:
    """How rows are predicted.

    Attributes:
        batch_size: Rows per forward pass.
        window: Rows in memory at most.
        bad_rows: What to do about rows that cannot be predicted.
        rule: What decides about answers.
        why: True if the output says without which words the answer changes.
    """

    batch_size: int
    window: int
    bad_rows: BadRowPolicy
    rule: AnswerRule = PLAIN
    why: bool = False


@dataclass
class PredictedCounts:
    """PredictedCounts of rows: predicted, left out, too long for the model, and without an answer."""

    rows: int = 0
    skipped: int = 0
    truncated: int = 0
    abstained: int = 0

    def add(self, counts: "PredictedCounts") -> None:
        """Add the counts of other rows."""
        self.rows += counts.rows
        self.skipped += counts.skipped
        self.truncated += counts.truncated
        self.abstained += counts.abstained

    def print_summary(self, model: ExportedModel, started: float) -> None:
        """Print the counts and the time since ``started`` (``time.perf_counter``) to standard error."""
        if self.truncated:
            share = self.truncated / self.rows
            say(f"{self.truncated:,} of {self.rows:,} rows ({share:.1%}) are {model.unread}", error=True)
        if self.abstained:
            share = self.abstained / self.rows
            of_rows = f"{self.abstained:,} of {self.rows:,} rows ({share:.1%})"
            say(f"{of_rows} got no answer: column abstained", error=True)
        seconds = time.perf_counter() - started
        skipped = f", {self.skipped:,} skipped" if self.skipped else ""
        speed = f"{self.rows / seconds:,.0f} rows/s"
        say(f"{self.rows:,} rows{skipped} in {seconds:.1f} s, {speed}", error=True)


class RowReport:
    """Prints the first ``REPORTED`` skipped rows one by one."""

    def __init__(self) -> None:
        self._lines = 0

    def add(self, line: str) -> None:
        """Print a line, if it is one of the first ``REPORTED``."""
        self._lines += 1
        if self._lines <= REPORTED:
            say(line, error=True)
        if self._lines == REPORTED:
            say("(further bad rows are counted, but not reported)", error=True)


def predict_inputs(
    model: ExportedModel,
    sources: Sequence[Input],
    columns: InputColumns,
    output: PredictionOutput,
    options: StreamOptions,
) -> PredictedCounts:
    """Write the predictions of inputs, one after the other; a file is complete or absent.

    Raises:
        DataError: An input cannot be read or has too many bad rows, or the tokenizer cannot encode a row.
    """
    counts = PredictedCounts()
    with open_rows(sources[0], columns) as first:
        output_columns = OutputColumns(model.task, first.columns.kept, options.rule, options.why)
        with open_writer(output, output_columns) as writer:
            counts.add(predict_rows(model, first, writer, options, sources[0].name))
            for source in sources[1:]:
                with open_rows(source, first.columns) as rows:
                    counts.add(predict_rows(model, rows, writer, options, source.name))
        counts.abstained = writer.abstained
    return counts


def predict_rows(
    model: ExportedModel, source: InputRows, writer: Writer, options: StreamOptions, name: str
) -> PredictedCounts:
    """Predict every row of an input, in order, and return the counts.

    Rows of a window are sorted by length, so that batches carry little padding, and put back in order. The
    first windows are small, so that the first predictions appear at once.

    Raises:
        DataError: There are too many bad rows, or the tokenizer cannot encode a row. That is not a bad row:
            another tokenizer may encode it.
    """
    counts = PredictedCounts()
    bad = BadRows(name, source.unit, options.bad_rows)
    position = source.position  # bytes of a text file that were read; None where rows are counted
    groups = windows(good_rows(source, bad), options.batch_size, options.window, lambda row: row.characters)
    with progress(f"predict: {name}", source.total, unit="" if position else "rows") as step:
        for rows in groups:
            try:
                encoded = model.encode([row.texts for row in rows])
                outputs = model.outputs(encoded, options.batch_size)
                words = None
                if options.why:
                    words = []
                    for value in why_values(
                        model,
                        rows,
                        outputs,
                        options.rule,
                        text_columns=source.columns.texts,
                        batch_size=options.batch_size,
                    ):
                        words.append(value)
                        step.detail = f"{counts.rows + len(words):,} rows"
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


def good_rows(source: InputRows, bad: BadRows) -> Iterator[Row]:
    """Yield the good rows; stop at a bad row, or report and count it."""
    report = RowReport()
    for row in source.rows:
        if isinstance(row, Row):
            yield row
            continue
        place = f"row {row.number}"
        if source.unit != "row":
            place += f" (line {row.problem.line})"
        bad.add(row.problem, place)
        report.add(f"skipped {place}: {row.problem.message}")
