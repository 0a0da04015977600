"""The formats of predictions: JSON Lines, CSV, TSV and Parquet, each as the readers of inputs read it."""

import csv
import json
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tuneline.cli.predict.targets import explained
from tuneline.errors import StageError
from tuneline.files.schemas import ROW_GROUP
from tuneline.inputs import Row

DIGITS = 6
SEPARATORS = re.compile(r"[\t\r\n]")
"""What no cell of a TSV file can have."""
_to_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


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
        names = []
        for kept in self.kept:
            name = kept
            while name in taken:
                name = f"input_{name}"
            taken.add(name)
            names.append(name)
        return tuple(names)

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
            DataError: The output cannot be written.
        """
        with explained():
            self.write(rows, outputs)

    @abstractmethod
    def append(self, part: Path) -> None:
        """Write the rows of a file that another writer of this kind has written without a header."""

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


class TextWriter(Writer):
    """A writer of text."""

    def __init__(self, columns: OutputColumns, text: TextIO) -> None:
        super().__init__(columns)
        self._text = text

    def append(self, part: Path) -> None:
        """Copy the text."""
        with explained(), part.open(encoding="utf-8", newline="") as text:
            shutil.copyfileobj(text, self._text)
            self._text.flush()


class JsonlWriter(TextWriter):
    """One JSON object per row; probabilities by class name."""

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


class CsvWriter(TextWriter):
    """A header, then one record per row."""

    def __init__(self, columns: OutputColumns, text: TextIO, header: bool = True) -> None:
        super().__init__(columns, text)
        self._csv = csv.writer(_Records(text))
        if header:
            self._csv.writerow(columns.names)

    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Write one record per row."""
        self._csv.writerows([row.number, *row.kept.values(), *values] for row, values in zip(rows, self.predicted(outputs), strict=True))
        self._text.flush()


class _Records:
    """Writes each record of ``csv.writer`` with LF at its end.

    Up to Python 3.12, the module quotes only those line ends that it writes itself: told to write LF, it leaves a carriage return bare.
    """

    def __init__(self, text: TextIO) -> None:
        self._text = text

    def write(self, record: str) -> None:
        self._text.write(record.removesuffix("\r\n") + "\n")


class TsvWriter(TextWriter):
    """A header, then one line per row. Quotes are characters like any other, as where TSV is read."""

    def __init__(self, columns: OutputColumns, text: TextIO, header: bool = True) -> None:
        super().__init__(columns, text)
        if header:
            self._text.write(self._line("header", columns.names))

    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Write one line per row.

        Raises:
            StageError: A cell has a tab or a line end.
        """
        for row, values in zip(rows, self.predicted(outputs), strict=True):
            self._text.write(self._line(f"row {row.number}", [row.number, *row.kept.values(), *values]))
        self._text.flush()

    def _line(self, where: str, values: Sequence[Any]) -> str:
        cells = ["" if value is None else str(value) for value in values]
        for name, cell in zip(self.columns.names, cells, strict=True):
            if SEPARATORS.search(cell):
                hint = "Write CSV, JSON Lines or Parquet, or leave out the column."
                raise StageError(f"{where}, column {name!r}: a tab or a line end, which TSV cannot hold.", hint)
        return "\t".join(cells) + "\n"


class ParquetWriter(Writer):
    """Row groups of ``ROW_GROUP`` rows; kept columns are written as text."""

    def __init__(self, columns: OutputColumns, file: BinaryIO) -> None:
        super().__init__(columns)
        fields = [pa.field("row", pa.int64()), *(pa.field(name, pa.string()) for name in columns.renamed)]
        fields += [pa.field(name, pa.string() if name == "label" else pa.float32()) for name in columns.predicted]
        self._schema = pa.schema(fields)
        self._file = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._waiting: list[list[Any]] = []

    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Collect rows, and write each full row group."""
        for row, values in zip(rows, self.predicted(outputs), strict=True):
            kept = [None if value is None else str(value) for value in row.kept.values()]
            self._waiting.append([row.number, *kept, *values])
            if len(self._waiting) == ROW_GROUP:
                self._flush()

    def append(self, part: Path) -> None:
        """Copy the row groups."""
        if self._waiting:
            self._flush()
        with explained(), pq.ParquetFile(part) as file:
            for batch in file.iter_batches(ROW_GROUP):
                self._file.write_batch(batch)

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
