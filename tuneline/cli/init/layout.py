"""How a file of rows is written: by its name, its first bytes and its first records."""

import codecs
import csv
import gzip
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, cast

from tuneline.errors import DataError

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
INSTEAD = {
    ".json": "Write one object a line: jq -c '.[]' FILE.json > FILE.jsonl",
    ".xlsx": "Save the sheet as CSV (UTF-8).",
    ".xls": "Save the sheet as CSV (UTF-8).",
    ".zip": "Unpack it first.",
}
DELIMITERS = (",", "\t", ";", "|")
SAMPLE = 2**20
"""Characters of a file that are looked at to see how it is written."""
LONGEST_FIELD = 2**31 - 1
"""A field may be as long as a document: the csv module's own limit is 128 KiB."""


@dataclass(frozen=True)
class Layout:
    """How a file is written.

    Attributes:
        kind: The family of formats.
        compressed: Whether it is gzip.
        encoding: Of the text; ``utf-8-sig`` when a byte order mark stands first.
        delimiter: One character (delimited files).
        quoting: As in ``data.files.quoting`` (delimited files).
        header: Whether the first record names the columns (delimited files).
    """

    kind: Kind
    compressed: bool
    encoding: str = "utf-8"
    delimiter: str = ","
    quoting: Quoting = "standard"
    header: bool = True

    @property
    def suffix(self) -> str:
        """The suffix under which ``data.source: files`` reads it."""
        plain = {"jsonl": ".jsonl", "parquet": ".parquet"}.get(self.kind) or (".tsv" if self.delimiter == "\t" else ".csv")
        return plain + (".gz" if self.compressed else "")

    def reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Splits lines into records of cells, as ``data.source: files`` does."""
        csv.field_size_limit(LONGEST_FIELD)
        if self.quoting == "literal":
            return csv.reader(lines, delimiter=self.delimiter, quoting=csv.QUOTE_NONE)
        return csv.reader(lines, delimiter=self.delimiter)


def open_text(path: Path, layout: Layout) -> IO[str]:
    """Opens a text file for reading, line ends kept as they are."""
    if layout.compressed:
        return cast("IO[str]", gzip.open(path, "rt", encoding=layout.encoding, newline=""))
    return path.open(encoding=layout.encoding, newline="")


def recognise(path: Path) -> Layout:
    """Finds out how a file is written.

    Raises:
        DataError: It is not there, empty, or of a format that the line does not read.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder.", "Name the files in it, one per split.")
    compressed = path.suffix.lower() == ".gz"
    suffix = (path.with_suffix("") if compressed else path).suffix.lower()
    if suffix not in KINDS:
        known = ", ".join(KINDS)
        raise DataError(f"{path}: files ending in {suffix or 'nothing'!r} are not read.", INSTEAD.get(suffix, f"Known: {known}; also .gz."))
    if not path.is_file():
        raise DataError(f"{path} is not there.", "Give the path of a file.")
    layout = Layout(KINDS[suffix], compressed)
    if layout.kind == "parquet":
        return layout
    layout = replace(layout, encoding=encoding_of(path, compressed))
    return layout if layout.kind == "jsonl" else sniff(path, layout, suffix)


def encoding_of(path: Path, compressed: bool) -> str:
    """UTF-8 or UTF-16 where the bytes say so, else the code page of Western Windows, in which Excel saves."""
    try:
        with gzip.open(path) if compressed else path.open("rb") as file:
            first = file.read(4)
            if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16"
            decoder = codecs.getincrementaldecoder("utf-8")()
            decoder.decode(first)
            while block := file.read(SAMPLE):
                decoder.decode(block)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252"
    except (EOFError, OSError) as error:
        raise DataError(f"{path} cannot be read: {error}.", "Copy it again.") from None
    return "utf-8-sig" if first.startswith(codecs.BOM_UTF8) else "utf-8"


def sniff(path: Path, layout: Layout, suffix: str) -> Layout:
    """Delimiter, quoting and header of a delimited file: what cuts its first records into equally many cells."""
    with open_text(path, layout) as file:
        lines = file.read(SAMPLE).splitlines(keepends=True)
    if len(lines) > 1 and sum(map(len, lines)) >= SAMPLE:
        lines.pop()  # cut through
    if not any(line.strip() for line in lines):
        raise DataError(f"{path} is empty.", "Give it a header and rows.")
    usual: str = "\t" if suffix in {".tsv", ".tab"} else ","
    orders: dict[bool, tuple[Quoting, Quoting]] = {True: ("literal", "standard"), False: ("standard", "literal")}
    candidates = [
        replace(layout, delimiter=delimiter, quoting=quoting)
        for delimiter in sorted(DELIMITERS, key=lambda one: one != usual)
        for quoting in orders[delimiter == "\t"]
    ]
    best = max(candidates, key=lambda one: fit(lines, one))  # the first of equals: the usual one
    return replace(best, header=has_header(list(itertools.islice(best.reader(iter(lines)), 1000))))


def fit(lines: Sequence[str], layout: Layout) -> tuple[float, float]:
    """How well a layout explains some lines: the share of records with equally many cells (more than one), and of tidy quotes.

    A file whose quotes are characters like any other falls apart when they are taken for quoting: cells run over line ends, or
    text follows a closing quote, which the csv module's strict mode refuses.
    """
    counts = Counter(len(cells) for cells in layout.reader(iter(lines)) if cells)
    width, agreeing = counts.most_common(1)[0]
    return (agreeing / counts.total() if width > 1 else 0.0), tidiness(lines, layout)


def tidiness(lines: Sequence[str], layout: Layout) -> float:
    """Share of the lines that quoting leaves in order: 1 where no quote stands in them."""
    quoted = [line for line in lines if '"' in line]
    if not quoted:
        return 1.0
    if layout.quoting == "literal":  # cells wholly inside quotes were meant to be quoted
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
    """Whether the first record names the columns: short names, none of them a number, none met again in its column."""
    first, *rest = [record for record in records if record]
    if len(set(first)) < len(first) or not all(_is_name(cell) for cell in first):
        return False
    return not any(row[place] == cell for row in rest for place, cell in enumerate(first) if place < len(row))


def _is_name(cell: str) -> bool:
    text = cell.strip()
    if not text or len(text) > 60 or len(text.split()) > 4:
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False
