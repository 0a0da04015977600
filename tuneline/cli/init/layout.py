"""Detection of the layout of a source file from its name, its bytes and its first records."""

import csv
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tuneline.cli.init.encodings import detect_encoding, known_encoding
from tuneline.errors import DataError
from tuneline.readers.delimited import Dialect
from tuneline.readers.limits import DEFAULT_LIMITS, Limits
from tuneline.readers.special_files import not_a_file
from tuneline.readers.text import open_text

Kind = Literal["delimited", "jsonl", "parquet"]
Quoting = Literal["standard", "literal"]

KINDS: dict[str, Kind] = {
    ".csv": "delimited",
    ".tsv": "delimited",
    ".tab": "delimited",
    ".txt": "delimited",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
HINTS = {
    ".json": "Write one object per line: jq -c '.[]' FILE.json > FILE.jsonl",
    ".xlsx": "Save the sheet as CSV (UTF-8).",
    ".xls": "Save the sheet as CSV (UTF-8).",
    ".zip": "Unpack it first.",
}
DELIMITERS = (",", "\t", ";", "|")
SAMPLE = 2**20
"""Characters from which the layout is detected."""
LONGEST_FIELD = 2**31 - 1
"""Characters. With the wrong dialect, a field of the sample may run to its end."""


@dataclass(frozen=True)
class Layout:
    """How a file is written.

    Attributes:
        kind: The family of formats.
        compressed: The file is gzip.
        encoding: Encoding of a text file; ``utf-8-sig`` if it begins with a byte order mark.
        delimiter: One character (delimited files).
        quoting: As in ``data.files.quoting`` (delimited files).
        header: The first record names the columns (delimited files).
    """

    kind: Kind
    compressed: bool
    encoding: str = "utf-8"
    delimiter: str = ","
    quoting: Quoting = "standard"
    header: bool = True

    @property
    def suffix(self) -> str:
        """The suffix by which ``data.source: files`` knows this layout."""
        if self.kind == "parquet":
            return ".parquet"
        plain = ".jsonl" if self.kind == "jsonl" else ".tsv" if self.delimiter == "\t" else ".csv"
        return plain + (".gz" if self.compressed else "")

    def dialect(self, columns: Sequence[str] | None) -> Dialect:
        """Return the dialect for the reader of delimited files.

        Args:
            columns: Names for a file without a header.
        """
        return Dialect.default(self.delimiter == "\t", self.delimiter, self.quoting, columns)

    def reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Split lines into records of cells. Unlike the core's reader, this one accepts records of any form."""
        csv.field_size_limit(LONGEST_FIELD)
        return csv.reader(lines, delimiter=self.delimiter, quoting=csv.QUOTE_NONE if self.quoting == "literal" else csv.QUOTE_MINIMAL)


def detect_layout(path: Path, encoding: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Layout:
    """Detect how a file is written.

    Args:
        path: The file.
        encoding: Its encoding, if the user named it.
        limits: Largest sizes that are read.

    Raises:
        DataError: The file is missing, empty, too large, or in a format that the pipeline does not read.
    """
    if problem := not_a_file(path):
        raise DataError(f"{path} {problem}.", "Name the files in it, one per split." if path.is_dir() else "Check the path; name a file.")
    compressed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if compressed else path).suffix.lower()
    if suffix not in KINDS:
        known = ", ".join(KINDS)
        raise DataError(f"{path}: unknown suffix {suffix!r}.", HINTS.get(suffix, f"Known: {known}; also .gz."))
    layout = Layout(KINDS[suffix], compressed)
    if layout.kind == "parquet":
        return layout
    layout = replace(layout, encoding=detect_encoding(path, limits) if encoding is None else known_encoding(encoding))
    return layout if layout.kind == "jsonl" else detect_dialect(path, layout, suffix, limits)


def detect_dialect(path: Path, layout: Layout, suffix: str, limits: Limits = DEFAULT_LIMITS) -> Layout:
    """Return the layout with the delimiter, quoting and header that split the first records most evenly.

    Raises:
        DataError: The file has no rows.
    """
    lines = _sample(path, layout.encoding, limits)
    if not any(line.strip() for line in lines):
        raise DataError(f"{path} is empty.", "It needs a header line and rows.")
    usual = "\t" if suffix in {".tsv", ".tab"} else ","
    orders: dict[bool, tuple[Quoting, Quoting]] = {True: ("literal", "standard"), False: ("standard", "literal")}
    candidates = [
        replace(layout, delimiter=delimiter, quoting=quoting)
        for delimiter in sorted(DELIMITERS, key=lambda one: one != usual)
        for quoting in orders[delimiter == "\t"]
    ]
    best = max(candidates, key=lambda one: fit(lines, one))  # max returns the first of equals: the usual dialect
    return replace(best, header=has_header(list(itertools.islice(best.reader(iter(lines)), 1000))))


def _sample(path: Path, encoding: str, limits: Limits) -> list[str]:
    sample, size = [], 0
    with open_text(path, encoding, limits=limits) as lines:
        for line in lines:
            sample.append(line)
            size += len(line)
            if size >= SAMPLE:
                break
    return sample


def fit(lines: Sequence[str], layout: Layout) -> tuple[float, float]:
    """Return how well a layout fits some lines: the fraction of records with the most common number of cells, and of tidy quotes.

    The first is 0 where records have one cell. A file with literal quotes becomes irregular when they are read as quoting: cells
    run over line ends, or text follows a closing quote, which the strict mode of the csv module refuses.
    """
    counts = Counter(len(cells) for cells in layout.reader(iter(lines)) if cells)
    width, agreeing = counts.most_common(1)[0]
    return (agreeing / counts.total() if width > 1 else 0.0), tidiness(lines, layout)


def tidiness(lines: Sequence[str], layout: Layout) -> float:
    """Return how regular the quotes are under a layout, from 0 to 1; 1 if there are none."""
    quoted = [line for line in lines if '"' in line]
    if not quoted:
        return 1.0
    if layout.quoting == "literal":  # cells that are completely quoted are not literal
        cells = [cell.strip() for line in quoted for cell in line.split(layout.delimiter)]
        return sum(not (len(cell) > 1 and cell[0] == cell[-1] == '"') for cell in cells) / len(cells)
    reader = csv.reader(iter(lines), delimiter=layout.delimiter, strict=True)
    while True:
        before = reader.line_num
        try:
            next(reader)
        except StopIteration:
            return 1.0
        except csv.Error:
            end_of_sample = reader.line_num == len(lines) and reader.line_num - before < 100
            return 1.0 if end_of_sample else 0.0


def has_header(records: Sequence[Sequence[str]]) -> bool:
    """Return True if the first record names the columns.

    Its cells differ, none is a number or occurs in its column again, and they are short, or there is a column of classes (the first
    class of which would occur again). A file that was appended to another has its header again: such records do not count.
    """
    first, *rest = [record for record in records if record]
    if len(set(first)) < len(first) or any(_is_number(cell) for cell in first):
        return False
    columns = list(zip(*(record for record in rest if len(record) == len(first) and not _is_same(record, first)), strict=True))
    if any(cell in column for cell, column in zip(first, columns, strict=False)):
        return False
    if not first[0].strip():  # pandas writes its index without a name
        return len(first) > 1 and bool(columns) and all(map(_is_number, columns[0])) and all(map(_is_name, first[1:]))
    return all(map(_is_name, first)) or (all(map(str.strip, first)) and any(map(_has_classes, columns)))


def _is_same(record: Sequence[str], header: Sequence[str]) -> bool:
    return sorted(cell.strip('\ufeff "').casefold() for cell in record) == sorted(cell.strip('\ufeff "').casefold() for cell in header)


def _is_name(cell: str) -> bool:
    return 0 < len(cell.strip()) <= 60 and len(cell.split()) <= 4


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _has_classes(column: Sequence[str]) -> bool:
    return len(set(column)) <= len(column) // 10
