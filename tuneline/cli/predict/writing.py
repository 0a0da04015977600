"""Output of the predictions as JSON Lines, CSV, TSV or Parquet: to a file that appears complete or not at all, or to standard output."""

import csv
import gzip
import io
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.cli.predict import Kind
from tuneline.cli.predict.rows import Row
from tuneline.errors import StageError
from tuneline.files import replace_file
from tuneline.files.disk_errors import full_disk
from tuneline.files.schemas import ROW_GROUP

DIGITS = 6
_to_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


@dataclass(frozen=True)
class Output:
    """The target of the predictions.

    Attributes:
        path: A file, which appears only when it is complete; gzip if its name ends in ``.gz``. ``None`` for standard output.
        kind: Its format.
    """

    path: Path | None
    kind: Kind


@dataclass(frozen=True)
class OutputColumns:
    """Names of the output's columns.

    Attributes:
        labels: Class names; ``None`` for a regression.
        kept: Columns that are copied from the input, by their names there.
    """

    labels: tuple[str, ...] | None
    kept: tuple[str, ...]

    @property
    def predicted(self) -> tuple[str, ...]:
        """The columns of the prediction; all are numbers except ``label``."""
        if self.labels is None:
            return ("prediction",)
        return ("label", "probability", *(f"probability_{name}" for name in self.labels))

    @property
    def renamed(self) -> tuple[str, ...]:
        """Names of the kept columns in the output: with the prefix ``input_`` where the output has a column of the same name."""
        taken = {"row", "probabilities", *self.predicted}
        return tuple(f"input_{name}" if name in taken else name for name in self.kept)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return ("row", *self.renamed, *self.predicted)


class Writer(ABC):
    """Writer of predictions, window by window."""

    def __init__(self, columns: OutputColumns) -> None:
        self.columns = columns

    def put(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Write rows as ``write`` does, with errors of the operating system explained.

        Raises:
            StageError: The output cannot be written.
        """
        with explained():
            self.write(rows, outputs)

    @abstractmethod
    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Write rows with their outputs.

        Args:
            rows: The rows.
            outputs: Probabilities of the classes, or the predicted number; shape ``(rows, outputs)``.
        """

    def predicted(self, outputs: NDArray[np.float64]) -> Iterator[list[Any]]:
        """Yield the values of ``columns.predicted`` for each row."""
        rounded = outputs.round(DIGITS).tolist()
        labels = self.columns.labels
        if labels is None:
            yield from rounded
            return
        best = outputs.argmax(axis=1).tolist()
        for position, values in zip(best, rounded, strict=True):
            yield [labels[position], values[position], *values]


class JsonlWriter(Writer):
    """One JSON object per row; probabilities by class name."""

    def __init__(self, columns: OutputColumns, text: TextIO) -> None:
        super().__init__(columns)
        self._text = text

    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Write one line per row."""
        lines = [_to_json(self._object(row, values)) + "\n" for row, values in zip(rows, self.predicted(outputs), strict=True)]
        self._text.write("".join(lines))
        self._text.flush()

    def _object(self, row: Row, values: list[Any]) -> dict[str, Any]:
        kept = dict(zip(self.columns.renamed, row.kept.values(), strict=True))
        if self.columns.labels is None:
            return {"row": row.number, **kept, "prediction": values[0]}
        by_name = dict(zip(self.columns.labels, values[2:], strict=True))
        return {"row": row.number, **kept, "label": values[0], "probability": values[1], "probabilities": by_name}


class CsvWriter(Writer):
    """A header, then one record per row."""

    def __init__(self, columns: OutputColumns, text: TextIO, delimiter: str) -> None:
        super().__init__(columns)
        self._text = text
        self._csv = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        self._csv.writerow(columns.names)

    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Write one record per row."""
        self._csv.writerows([row.number, *row.kept.values(), *values] for row, values in zip(rows, self.predicted(outputs), strict=True))
        self._text.flush()


class ParquetWriter(Writer):
    """Row groups of ``ROW_GROUP`` rows; kept columns are written as text."""

    def __init__(self, columns: OutputColumns, path: Path) -> None:
        super().__init__(columns)
        fields = [pa.field("row", pa.int64()), *(pa.field(name, pa.string()) for name in columns.renamed)]
        fields += [pa.field(name, pa.string() if name == "label" else pa.float32()) for name in columns.predicted]
        self._schema = pa.schema(fields)
        self._file = pq.ParquetWriter(path, self._schema, compression="zstd")
        self._waiting: list[list[Any]] = []

    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Collect rows, and write each full row group."""
        for row, values in zip(rows, self.predicted(outputs), strict=True):
            kept = [None if value is None else str(value) for value in row.kept.values()]
            self._waiting.append([row.number, *kept, *values])
            if len(self._waiting) == ROW_GROUP:
                self._flush()

    def close(self) -> None:
        """Write the last row group and the footer of the file."""
        if self._waiting:
            self._flush()
        self._file.close()

    def _flush(self) -> None:
        columns = zip(*self._waiting, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._file.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._waiting.clear()


@contextmanager
def open_writer(output: Output, columns: OutputColumns) -> Iterator[Writer]:
    """Open an output. A file is discarded if the block ends with an error.

    Raises:
        StageError: The output cannot be written.
    """
    path, kind = output.path, output.kind
    if path is None:
        if kind == "parquet":
            raise StageError("Parquet cannot be written to standard output.", "Name a file with --output.")
        yield _text_writer(kind, columns, sys.stdout)
        return
    with explained():
        path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as partial, ExitStack() as stack:
        with explained():
            writer = _file_writer(kind, columns, partial, path.suffix == ".gz", stack)
        yield writer
        with explained():
            stack.close()


@contextmanager
def explained() -> Iterator[None]:
    """Replace errors of the operating system by errors for users, but for a full disk, which ``replace_file`` explains.

    Raises:
        StageError: The output cannot be written.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if full_disk(error):
            raise
        raise StageError(f"The output cannot be written: {error.strerror or error}.", "Check your permission to write there.") from None


def _file_writer(kind: Kind, columns: OutputColumns, path: Path, packed: bool, stack: ExitStack) -> Writer:
    if kind == "parquet":
        return stack.enter_context(closing(ParquetWriter(columns, path)))
    raw: Any = stack.enter_context(path.open("wb"))
    if packed:
        raw = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0))
    return _text_writer(kind, columns, stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline="")))


def _text_writer(kind: Kind, columns: OutputColumns, text: TextIO) -> Writer:
    return JsonlWriter(columns, text) if kind == "jsonl" else CsvWriter(columns, text, "\t" if kind == "tsv" else ",")
