"""The output of predictions: a writer of its format, on its target."""

import gzip
import io
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from tuneline.cli.predict.formats import CsvWriter, JsonlWriter, OutputColumns, ParquetWriter, TsvWriter, Writer
from tuneline.cli.predict.targets import explained, open_target
from tuneline.errors import StageError
from tuneline.readers.rows import Kind
from tuneline.readers.urls import DataFile


@dataclass(frozen=True)
class Output:
    """The target of the predictions.

    Attributes:
        path: A file, pipe or device; gzip if its name ends in ``.gz``. ``None`` for standard output.
        kind: Its format.
        header: Write the header line of CSV and TSV.
    """

    path: DataFile | None
    kind: Kind
    header: bool = True


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
        yield _text_writer(output, columns, sys.stdout)
        return
    with ExitStack() as target, ExitStack() as stack:
        with explained():
            file = target.enter_context(open_target(path))
            writer = _file_writer(output, columns, file, path.suffix == ".gz", stack)
        yield writer
        with explained():
            stack.close()


def _file_writer(output: Output, columns: OutputColumns, raw: Any, packed: bool, stack: ExitStack) -> Writer:
    if output.kind == "parquet":
        return stack.enter_context(closing(ParquetWriter(columns, raw)))
    if packed:
        raw = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0))
    return _text_writer(output, columns, stack.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline="")))


def _text_writer(output: Output, columns: OutputColumns, text: TextIO) -> Writer:
    if output.kind == "jsonl":
        return JsonlWriter(columns, text)
    return (CsvWriter if output.kind == "csv" else TsvWriter)(columns, text, output.header)
