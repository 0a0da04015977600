"""The output of predictions: a writer of its format, on its target."""

import csv
import json
import math
import os
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.runtime.errors import StageError
from tuneline.core.runtime.files import replace_file
from tuneline.core.runtime.terminal import CONTROL_CHARACTERS
from tuneline.core.stage.tables import ROW_GROUP
from tuneline.judge.decisions.rule import NO_NUMBER
from tuneline.serve import Kind
from tuneline.serve.columns import (
    WHY_COLUMN,
    OutputColumns,
    Row,
    cell_text,
    json_prediction,
    prediction_rows,
    why_text,
)

OUTPUT_KINDS: dict[str, Kind] = {".jsonl": "jsonl", ".csv": "csv", ".parquet": "parquet"}
_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str).encode


def output_kind_of(target: Path | None, is_folder: bool) -> Kind:
    """Return the format of an output by its name."""
    if is_folder:
        return "parquet"
    if target is None:
        return "jsonl"
    kind = OUTPUT_KINDS.get(target.suffix.lower())
    if kind is None:
        raise StageError(
            f"--output: {target} does not end in {', '.join(OUTPUT_KINDS)}.", "Or set --output-format."
        )
    return kind


def json_line(values: dict[str, Any]) -> str:
    """Return an object as JSON in which each control character is an escape, so that it is read back.

    JSON itself escapes the control characters of ASCII only, and standard output may be a terminal, which
    obeys more of them. A number that is NaN or infinite, which JSON does not have, is null.
    """
    try:
        text = _to_json(values)
    except ValueError:
        text = _to_json(_finite(values))
    escaped = CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return f"{escaped}\n"


def _finite(value: Any) -> Any:
    """Return a value with ``None`` for each number that is NaN or infinite."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


class Writer(ABC):
    """Writer of predictions, window by window.

    Attributes:
        unanswered: Number of rows without an answer, by the reason.
    """

    def __init__(self, columns: OutputColumns) -> None:
        self.columns = columns
        self.unanswered: Counter[str] = Counter()

    def write(
        self, rows: Sequence[Row], outputs: NDArray[np.float64], words: Sequence[Any] | None = None
    ) -> None:
        """Write rows with their predictions.

        Args:
            rows: The rows, with the values of the kept columns.
            outputs: Probabilities of the classes, or the predicted number; shape ``(rows, outputs)``.
            words: Value of ``WHY_COLUMN`` of each row; ``None`` if there is no such column.
        """
        for row, predicted in zip(rows, self.predicted(outputs, words), strict=True):
            self.add(row, predicted)

    @abstractmethod
    def add(self, row: Row, predicted: list[Any]) -> None:
        """Write one row."""

    def predicted(self, outputs: NDArray[np.float64], words: Sequence[Any] | None) -> Iterator[list[Any]]:
        """Yield the values of ``columns.predicted`` and ``columns.added`` for each row."""
        task = self.columns.task
        rule = self.columns.rule
        answers = rule.answers(task, outputs)
        reasons = rule.reasons(answers)
        for number, values in enumerate(prediction_rows(task, outputs, answers)):
            further: list[Any] = []
            reason = reasons[number]
            given = values
            if not answers.is_finite[number]:
                given = [None] * len(values)
                self.unanswered[NO_NUMBER] += 1
            elif reason is not None:
                given[0] = None  # so that no program takes it for an answer
                self.unanswered["column abstained"] += 1
            if rule.abstains:
                further += [reason is not None, reason]
            if words is not None:
                further.append(words[number])
            yield [*given, *further]


class TextWriter(Writer):
    """JSON Lines, with probabilities by class name; or CSV, after a header."""

    def __init__(self, columns: OutputColumns, text: TextIO, kind: Kind) -> None:
        super().__init__(columns)
        self._text = text
        # The end of a line is that of the csv module: up to Python 3.12, it quotes only line ends that it
        # writes itself.
        self._csv = None
        if kind == "csv":
            self._csv = csv.writer(text)
            self._csv.writerow(columns.names)

    def write(
        self, rows: Sequence[Row], outputs: NDArray[np.float64], words: Sequence[Any] | None = None
    ) -> None:
        """Write rows at once, also to a pipe."""
        super().write(rows, outputs, words)
        self._text.flush()

    def add(self, row: Row, predicted: list[Any]) -> None:
        """Write one line or record."""
        if self._csv is not None:
            self._csv.writerow(self._cells(row, predicted))
        else:
            self._text.write(json_line(self._object(row, predicted)))

    def _object(self, row: Row, predicted: Sequence[Any]) -> dict[str, Any]:
        added = self.columns.added
        end = len(predicted) - len(added)
        values = dict(zip(self.columns.copied, (row.number, *row.kept), strict=True))
        values |= json_prediction(self.columns.task, predicted[:end])
        return values | dict(zip(added, predicted[end:], strict=True))

    def _cells(self, row: Row, predicted: Sequence[Any]) -> list[Any]:
        cells = [row.number, *row.kept]
        task = self.columns.task
        for name, value in zip(self.columns.names[len(cells) :], predicted, strict=True):
            if name == WHY_COLUMN:
                cells.append(why_text(task, value))
            else:
                cells.append(cell_text(task, value))
        return cells


class ParquetWriter(Writer):
    """Row groups of ``ROW_GROUP`` rows; kept columns are written as text."""

    def __init__(self, columns: OutputColumns, file: BinaryIO) -> None:
        super().__init__(columns)
        fields = dict.fromkeys(columns.copied, pa.string()) | {"row": pa.int64()}
        fields |= columns.predicted | columns.added
        self._schema = pa.schema(list(fields.items()))
        self._file = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._waiting: list[list[Any]] = []

    def add(self, row: Row, predicted: list[Any]) -> None:
        """Collect rows, and write each full row group."""
        kept = [None if value is None else str(value) for value in row.kept]
        self._waiting.append([row.number, *kept, *predicted])
        if len(self._waiting) == ROW_GROUP:
            self._flush()

    def close(self) -> None:
        """Write the last row group and the footer of the file."""
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if not self._waiting:
            return
        arrays = []
        columns = zip(*self._waiting, strict=True)
        for column, field in zip(columns, self._schema, strict=True):
            arrays.append(pa.array(column, field.type))
        self._file.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._waiting.clear()


@dataclass(frozen=True)
class PredictionOutput:
    """The target of the predictions, a file or ``None`` for standard output, and its format."""

    path: Path | None
    kind: Kind


@contextmanager
def open_writer(output: PredictionOutput, columns: OutputColumns) -> Iterator[Writer]:
    """Open an output. A file is discarded if the block ends with an error; a link to it is kept."""
    if output.path is None:
        if output.kind == "parquet":
            raise StageError("Parquet cannot be written to standard output.", "Name a file with --output.")
        yield TextWriter(columns, sys.stdout, output.kind)
        return
    with replace_file(Path(os.path.realpath(output.path))) as partial:
        if output.kind == "parquet":
            with partial.open("wb") as file, closing(ParquetWriter(columns, file)) as writer:
                yield writer
        else:
            with partial.open("w", encoding="utf-8", newline="") as text:
                yield TextWriter(columns, text, output.kind)
