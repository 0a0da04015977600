"""A file as rows of text, and as pieces: whatever its format, records are given back as they were written."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, Protocol, cast

from tuneline.cli.init.layout import Layout, open_text
from tuneline.errors import DataError

Row = tuple[str | None, ...]
"""Cells in the order of the columns; ``None`` where there is none."""
NESTED = "\x00nested"
"""Stands for a list or an object, which is neither text nor label."""


class RowFile(Protocol):
    """A file of rows."""

    path: Path
    layout: Layout

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        ...

    def rows(self) -> Iterator[Row]:
        """Reads the file from its first row to its last."""
        ...

    def divide(self, parts: Iterable[str | None], targets: Mapping[str, Path]) -> None:
        """Writes each row to one of several files of the same layout, or to none."""
        ...


def open_rows(path: Path, layout: Layout) -> RowFile:
    """The file, read as its layout says."""
    if layout.kind == "delimited":
        return Delimited(path, layout)
    if layout.kind == "jsonl":
        return JsonLines(path, layout)
    from tuneline.cli.init.parquet import ParquetRows

    return ParquetRows(path, layout)


class _TextFile:
    def __init__(self, path: Path, layout: Layout) -> None:
        self.path = path
        self.layout = layout

    def _divide(self, raw: Iterable[str], header: str, parts: Iterable[str | None], targets: Mapping[str, Path]) -> None:
        with ExitStack() as open_files:
            files = {part: open_files.enter_context(_create(path, self.layout)) for part, path in targets.items()}
            for file in files.values():
                file.write(header)
            for record, part in zip(raw, parts, strict=True):
                if part is not None:
                    files[part].write(record if record.endswith(("\n", "\r")) else record + "\n")


def _create(path: Path, layout: Layout) -> IO[str]:
    encoding = "utf-8" if layout.encoding == "utf-8-sig" else layout.encoding
    if not layout.compressed:
        return path.open("w", encoding=encoding, newline="")
    # No clock and no name in the archive: the same rows give the same bytes.
    return TextIOWrapper(cast("IO[bytes]", _Gzip(path)), encoding=encoding, newline="")


class _Gzip(gzip.GzipFile):
    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        super().__init__(filename="", mode="wb", fileobj=self._file, mtime=0)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._file.close()


class Delimited(_TextFile):
    """A file of cells between delimiters."""

    def records(self) -> Iterator[tuple[str, list[str], int]]:
        """Every record as it was written, its cells, and its line."""
        with open_text(self.path, self.layout) as file:
            taken: list[str] = []

            def lines() -> Iterator[str]:
                for line in file:
                    taken.append(line)
                    yield line

            line = 1
            for cells in self.layout.reader(lines()):
                raw, start = "".join(taken), line
                line += len(taken)
                taken.clear()
                if cells:
                    yield raw, cells, start

    @property
    def columns(self) -> list[str]:
        """Names in the first record, or ``column_1`` and so on."""
        _, cells, _ = next(self.records())
        return cells if self.layout.header else [f"column_{position}" for position in range(1, len(cells) + 1)]

    def _data(self) -> Iterator[tuple[str, list[str], int]]:
        records = self.records()
        if self.layout.header:
            next(records)
        return records

    def rows(self) -> Iterator[Row]:
        """Reads the cells.

        Raises:
            DataError: A record has more or fewer cells than there are columns.
        """
        width = len(self.columns)
        for _, cells, line in self._data():
            if len(cells) != width:
                raise DataError(f"{self.path}, line {line:,}: {len(cells)} cells, but {width} columns.", "Mend the line, or leave it out.")
            yield tuple(cells)

    def divide(self, parts: Iterable[str | None], targets: Mapping[str, Path]) -> None:
        """Writes records as they stand, each file with the header."""
        header = next(self.records())[0] if self.layout.header else ""
        self._divide((raw for raw, _, _ in self._data()), header, parts, targets)


class JsonLines(_TextFile):
    """A file with one JSON object a line."""

    def records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every line as it was written, and its object.

        Raises:
            DataError: A line is no JSON object.
        """
        with open_text(self.path, self.layout) as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    value = json.loads(line)
                except ValueError as error:
                    raise DataError(f"{self.path}, line {number:,}: no JSON: {error}.", "One object a line is wanted.") from None
                if not isinstance(value, dict):
                    raise DataError(f"{self.path}, line {number:,}: no object.", 'Lines like {"text": "...", "label": "..."} are wanted.')
                yield line, value

    @property
    def columns(self) -> list[str]:
        """Every key of any object, in the order in which they are met."""
        return list(dict.fromkeys(key for _, value in self.records() for key in value))

    def rows(self) -> Iterator[Row]:
        """Reads the objects; what a key misses is ``None``."""
        columns = self.columns
        for _, value in self.records():
            yield tuple(as_text(value.get(name)) for name in columns)

    def divide(self, parts: Iterable[str | None], targets: Mapping[str, Path]) -> None:
        """Writes lines as they stand."""
        self._divide((line for line, _ in self.records()), "", parts, targets)


def as_text(value: Any) -> str | None:
    """A JSON or Arrow value as the text of a cell."""
    if value is None or isinstance(value, str):
        return value
    return NESTED if isinstance(value, (list, dict, tuple)) else str(value)
