"""The output of predictions: a writer of its format, on its target."""

import csv
import gzip
import io
import json
import os
import re
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, TextIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.core.tables import ROW_GROUP
from tuneline.predict import Kind
from tuneline.predict.columns import OutputColumns, cell_text, json_prediction, prediction_rows, why_text
from tuneline.readers.files import DataFile, RemoteFile
from tuneline.readers.inputs import Row
from tuneline.runtime.atomic_files import replace_file, temporary_directory
from tuneline.runtime.errors import StageError
from tuneline.runtime.terminal import CONTROL_CHARACTERS
from tuneline.words.spreadsheet import harmless

LINKS = 40
"""Links to links that are followed, as by Linux."""


def descriptor(path: Path) -> int | None:
    """Return the descriptor that a path such as ``/dev/stdout`` or ``/dev/fd/3`` names, else ``None``.

    Such a path seems to be a link to a file, which may have been opened to append to it.
    """
    open_files = os.path.realpath("/dev/fd")
    for _ in range(LINKS):
        if path.name.isdecimal() and os.path.realpath(path.parent) == open_files:
            return int(path.name)
        if not path.is_symlink():
            break
        path = path.parent / path.readlink()
    return None


@contextmanager
def open_target(path: DataFile) -> Iterator[BinaryIO]:
    """Open the target of an output.

    A link is kept: the file is replaced to which it leads. What goes to a storage is sent when complete.

    Raises:
        DiskError: The disk is full, or the folder cannot be created or written.
        UnreadableError: The storage cannot be reached or written.
        OSError: A pipe or device cannot be opened.
    """
    if isinstance(path, RemoteFile):
        with temporary_directory() as folder:
            with (folder / "result").open("wb") as file:
                yield file
            path.replace(folder / "result")
    elif (number := descriptor(path)) is not None:
        with os.fdopen(os.dup(number), "wb") as opened:
            yield opened
    elif path.is_fifo() or path.is_char_device():
        with path.open("wb") as stream:
            yield stream
    else:
        target = Path(os.path.realpath(path))
        with replace_file(target) as partial:
            if target.exists():
                shutil.copymode(target, partial)
            with partial.open("wb") as file:
                yield file


DIGITS = 6
"""Digits after the decimal point of a probability or number."""
SEPARATORS = re.compile(r"[\t\r\n]")
"""Characters that no cell of a TSV file can have."""
_to_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


def json_line(values: dict[str, Any]) -> str:
    """Return an object as JSON in which each control character is an escape, so that it is read back.

    JSON itself escapes the control characters of ASCII only, and standard output may be a terminal, which
    obeys more of them.
    """
    escaped = CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", _to_json(values))
    return f"{escaped}\n"


class Writer(ABC):
    """Writer of predictions, window by window.

    Attributes:
        abstained: Number of rows that got no answer.
    """

    def __init__(self, columns: OutputColumns) -> None:
        self.columns = columns
        self.abstained = 0

    @abstractmethod
    def write(
        self,
        rows: Sequence[Row],
        outputs: NDArray[np.float64],
        words: Sequence[Any] | None = None,
    ) -> None:
        """Write rows with their predictions.

        Args:
            rows: The rows, with the values of the kept columns.
            outputs: Probabilities of the classes, or the predicted number; shape ``(rows, outputs)``.
            words: Value of ``WHY_COLUMN`` of each row; ``None`` if there is no such column.
        """

    def predicted(self, outputs: NDArray[np.float64], words: Sequence[Any] | None) -> Iterator[list[Any]]:
        """Yield the values of ``columns.predicted`` and ``columns.added`` for each row."""
        task = self.columns.task
        rule = self.columns.rule
        answers = rule.answers(task, outputs)
        reasons = rule.reasons(answers)
        for number, values in enumerate(prediction_rows(task, outputs, answers, DIGITS)):
            further: list[Any] = []
            reason = reasons[number]
            if reason is not None:
                values[0] = None  # so that no program takes it for an answer
                self.abstained += 1
            if rule.abstains:
                further += [reason is not None, reason]
            if words is not None:
                further.append(words[number])
            yield [*values, *further]


class TextWriter(Writer):
    """JSON Lines, with probabilities by class name; or CSV or TSV, after a header."""

    def __init__(self, columns: OutputColumns, text: TextIO, output: "PredictionOutput") -> None:
        super().__init__(columns)
        self._text = text
        self._line = {"jsonl": self._json_line, "csv": self._csv_line, "tsv": self._tsv_line}[output.kind]
        # ``writerow`` of this writer returns the record, because it returns what ``write`` returns.
        self._csv = csv.writer(cast("Any", SimpleNamespace(write=str)))
        self._excel_safe = output.excel_safe
        if output.kind != "jsonl":
            text.write(self._line("header", columns.names))

    def write(
        self,
        rows: Sequence[Row],
        outputs: NDArray[np.float64],
        words: Sequence[Any] | None = None,
    ) -> None:
        """Write one line or record per row."""
        for row, predicted in zip(rows, self.predicted(outputs, words), strict=True):
            line = self._line(f"row {row.number}", [row.number, *row.kept.values(), *predicted])
            self._text.write(line)
        self._text.flush()

    def _json_line(self, _: str, values: Sequence[Any]) -> str:
        copied = self.columns.copied
        added = self.columns.added
        end = len(values) - len(added)
        cells = dict(zip(copied, values[: len(copied)], strict=True))
        prediction = json_prediction(self.columns.task, values[len(copied) : end])
        return json_line(cells | prediction | dict(zip(added, values[end:], strict=True)))

    def _cells(self, values: Sequence[Any]) -> Sequence[Any]:
        copied = len(self.columns.copied)
        end = len(values) - len(self.columns.added)
        predicted = [cell_text(self.columns.task, value) for value in values[copied:end]]
        cells = [*values[:copied], *predicted, *values[end:]]
        if self.columns.why and isinstance(cells[-1], list):  # no header
            cells[-1] = why_text(self.columns.task, cells[-1])
        if not self._excel_safe:
            return cells
        return [harmless(cell) for cell in cells]

    def _csv_line(self, _: str, values: Sequence[Any]) -> str:
        # Up to Python 3.12, the module quotes only those line ends that it writes itself: told to write LF,
        # it leaves a carriage return bare. So it writes CR LF, and the end is replaced here.
        record: str = self._csv.writerow(self._cells(values))
        return record.removesuffix("\r\n") + "\n"

    def _tsv_line(self, where: str, values: Sequence[Any]) -> str:
        """Return a line in which quotes are characters like any other, as where TSV is read.

        Raises:
            StageError: A cell has a tab or a line end.
        """
        cells = ["" if value is None else str(value) for value in self._cells(values)]
        for name, cell in zip(self.columns.names, cells, strict=True):
            if SEPARATORS.search(cell):
                hint = "Write CSV, JSON Lines or Parquet, or leave out the column."
                raise StageError(
                    f"{where}, column {name!r}: a tab or a line end, which TSV cannot hold.", hint
                )
        return "\t".join(cells) + "\n"


class ParquetWriter(Writer):
    """Row groups of ``ROW_GROUP`` rows; kept columns are written as text."""

    def __init__(self, columns: OutputColumns, file: BinaryIO) -> None:
        super().__init__(columns)
        fields = dict.fromkeys(columns.copied, pa.string()) | {"row": pa.int64()}
        fields |= columns.predicted | columns.added
        self._schema = pa.schema(list(fields.items()))
        self._file = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._waiting: list[list[Any]] = []

    def write(
        self,
        rows: Sequence[Row],
        outputs: NDArray[np.float64],
        words: Sequence[Any] | None = None,
    ) -> None:
        """Collect rows, and write each full row group."""
        for row, predicted in zip(rows, self.predicted(outputs, words), strict=True):
            kept = [None if value is None else str(value) for value in row.kept.values()]
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
    """The target of the predictions, and its format.

    Attributes:
        path: A file, pipe or device; gzip if its name ends in ``.gz``. ``None`` for standard output.
        excel_safe: Write a space before each cell and column name of CSV and TSV that a spreadsheet would
            execute.
    """

    path: DataFile | None
    kind: Kind
    excel_safe: bool = False


@contextmanager
def open_writer(output: PredictionOutput, columns: OutputColumns) -> Iterator[Writer]:
    """Open an output. A file is discarded if the block ends with an error."""
    if output.path is None:
        if output.kind == "parquet":
            raise StageError("Parquet cannot be written to standard output.", "Name a file with --output.")
        if sys.stdout is None:  # the caller closed it, as with `>&-`
            raise StageError("Standard output is closed.", "Name a file with --output.")
        yield TextWriter(columns, sys.stdout, output)
        return
    with ExitStack() as stack:
        file: Any = stack.enter_context(open_target(output.path))
        if output.kind == "parquet":
            yield stack.enter_context(closing(ParquetWriter(columns, file)))
            return
        if output.path.suffix == ".gz":
            file = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
        text = stack.enter_context(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        yield TextWriter(columns, text, output)
