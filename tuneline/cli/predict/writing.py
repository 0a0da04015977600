"""What comes out: JSON Lines, CSV or Parquet, to a file that appears whole or not at all, or to standard output."""

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
from numpy.typing import NDArray

from tuneline.cli.predict.opening import Kind
from tuneline.cli.predict.rows import Row
from tuneline.errors import DataError
from tuneline.files import replace_file

DIGITS = 6
_to_json = json.JSONEncoder(ensure_ascii=False, default=str).encode


@dataclass(frozen=True)
class Columns:
    """Names of the output's columns.

    Attributes:
        labels: Class names; ``None`` for a regression.
        kept: Columns of the input, by their names there.
    """

    labels: tuple[str, ...] | None
    kept: tuple[str, ...]

    @property
    def predicted(self) -> tuple[str, ...]:
        """The columns that hold predictions, each a number but for ``label``."""
        if self.labels is None:
            return ("prediction",)
        return ("label", "probability", *(f"probability_{name}" for name in self.labels))

    @property
    def renamed(self) -> tuple[str, ...]:
        """The kept columns by their names in the output: ``input_`` before those that it has already."""
        taken = {"row", "probabilities", *self.predicted}
        return tuple(f"input_{name}" if name in taken else name for name in self.kept)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return ("row", *self.renamed, *self.predicted)


class Writer(ABC):
    """Writes windows of rows."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns

    def put(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """``write``, with errors of the system explained.

        Raises:
            DataError: The output cannot be written.
        """
        with explained():
            self.write(rows, outputs)

    @abstractmethod
    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Writes rows with their probabilities, or their numbers, of shape ``[rows, outputs]``."""

    def predicted(self, outputs: NDArray[np.float64]) -> Iterator[list[Any]]:
        """Values of ``columns.predicted`` for each row."""
        rounded = outputs.round(DIGITS).tolist()
        labels = self.columns.labels
        if labels is None:
            yield from rounded
            return
        best = outputs.argmax(axis=1).tolist()
        for place, values in zip(best, rounded, strict=True):
            yield [labels[place], values[place], *values]


class JsonlWriter(Writer):
    """One JSON object per row; probabilities by class name."""

    def __init__(self, columns: Columns, text: TextIO) -> None:
        super().__init__(columns)
        self._text = text

    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Writes one line per row."""
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

    def __init__(self, columns: Columns, text: TextIO, delimiter: str) -> None:
        super().__init__(columns)
        self._text = text
        self._csv = csv.writer(text, delimiter=delimiter, lineterminator="\n")
        self._csv.writerow(columns.names)

    def write(self, rows: Sequence[Row], outputs: NDArray[np.float64]) -> None:
        """Writes one record per row."""
        self._csv.writerows([row.number, *row.kept.values(), *values] for row, values in zip(rows, self.predicted(outputs), strict=True))
        self._text.flush()


@contextmanager
def open_writer(path: Path | None, kind: Kind, columns: Columns) -> Iterator[Writer]:
    """Opens an output.

    Args:
        path: A file, which appears when the block ends well and not before; gzip when its name ends so. ``None`` for
            standard output.
        kind: How it is written.
        columns: Its columns.

    Raises:
        DataError: It cannot be written.
    """
    if path is None:
        if kind == "parquet":
            raise DataError("Parquet is not written to standard output.", "Name a file with --output.")
        yield _text_writer(kind, columns, sys.stdout)
        return
    with explained():
        path.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack, replace_file(path) as partial:
        with explained():
            writer = _file_writer(kind, columns, partial, path.suffix == ".gz", stack)
        yield writer
        with explained():
            stack.close()


@contextmanager
def explained() -> Iterator[None]:
    """Turns an error of the system into one for people.

    Raises:
        DataError: Instead of it.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise DataError(f"The output cannot be written: {error.strerror or error}.", "Is there room, and may you write there?") from None


def _file_writer(kind: Kind, columns: Columns, path: Path, packed: bool, stack: ExitStack) -> Writer:
    if kind == "parquet":
        from tuneline.cli.predict.parquet_writing import ParquetWriter

        return stack.enter_context(closing(ParquetWriter(columns, path)))
    raw: Any = stack.enter_context(path.open("wb"))
    if packed:
        raw = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0))
    return _text_writer(kind, columns, stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline="")))


def _text_writer(kind: Kind, columns: Columns, text: TextIO) -> Writer:
    return JsonlWriter(columns, text) if kind == "jsonl" else CsvWriter(columns, text, "\t" if kind == "tsv" else ",")
