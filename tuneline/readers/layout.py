"""How a file is written: its format, encoding, delimiter, quotes and header.

They are detected from its name, its bytes and its first records.
"""

import codecs
import csv
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tuneline.core.errors import DataError
from tuneline.readers.delimited import Dialect
from tuneline.readers.files import DataFile, not_a_file
from tuneline.readers.header import CERTAIN, header_evidence
from tuneline.readers.rows import DEFAULT_LIMITS, PARAMETERS, Kind, Limits, OptionNames, listed
from tuneline.readers.text import (
    better_encoding,
    is_encoded,
    known_encoding,
    open_bytes,
    open_text,
    read_errors_explained,
)

Family = Literal["delimited", "jsonl", "parquet"]
Quoting = Literal["standard", "literal"]

FAMILY_OF_SUFFIX: dict[str, Family] = {
    ".csv": "delimited",
    ".tsv": "delimited",
    ".tab": "delimited",
    ".txt": "delimited",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
}
HINTS = {
    ".xlsx": "Save the sheet as CSV (UTF-8).",
    ".xls": "Save the sheet as CSV (UTF-8).",
    ".zip": "Unpack it first.",
}
SOURCES = OptionNames("the delimiter", "the quoting", "the first row", "--encoding")
"""What messages name instead of options: ``tuneline init`` detects them."""
DELIMITERS = (",", "\t", ";", "|")
APOSTROPHE, BACKSLASH = "'", "\\"
SEPARATOR_LINE = re.compile(r'\ufeff?"?sep=(.)"?\s*')
"""First line by which Excel is told the delimiter."""
SAMPLE = 2**20
"""Characters from which the layout is detected."""
RECORDS = 1000
"""Records from which the header is detected."""
LONGEST_RECORD = 100
"""Lines of a record that the end of the sample may cut."""
MOST_TITLES = 20
"""Records above a table that can be titles."""
LEAST_EVEN = 0.9
"""Share of records with the usual number of cells, from which what follows a title is a table."""
LONGEST_FIELD = 2**31 - 1
"""Characters. With the wrong dialect, a field of the sample may run to its end."""
COMMAS = Dialect(",", literal=False)
LARGEST_OBJECT = 2**26
"""Characters of a JSON object that is read to tell what it is."""


@dataclass(frozen=True)
class Layout:
    """How a file is written.

    Attributes:
        encoding: Encoding of a text file; ``utf-8-sig`` if it begins with a byte order mark.
        dialect: Of delimited files, without names of columns.
        header: The first record names the columns (delimited files).
        is_clear: The first record is clearly a header, or clearly none.
    """

    kind: Family
    compressed: bool
    encoding: str = "utf-8"
    dialect: Dialect = COMMAS
    header: bool = True
    is_clear: bool = True

    @property
    def delimiter(self) -> str:
        """The delimiter, as in ``data.files``."""
        return self.dialect.delimiter

    @property
    def quoting(self) -> Quoting:
        """The quoting, as in ``data.files``."""
        return "literal" if self.dialect.literal else "standard"

    @property
    def suffix(self) -> str:
        """The suffix by which ``data.source: files`` knows this layout."""
        if self.kind == "parquet":
            return ".parquet"
        plain = ".csv"
        if self.kind == "jsonl":
            plain = ".jsonl"
        elif self.delimiter == "\t":
            plain = ".tsv"
        if self.compressed:
            return f"{plain}.gz"
        return plain

    def reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Split lines into records of cells.

        Unlike the core's reader, this one accepts records of any form.
        """
        csv.field_size_limit(LONGEST_FIELD)
        return self.dialect.records(lines)

    def described(self) -> str:
        """Return a description in words."""
        if self.kind == "parquet":
            return "Parquet"
        if self.kind == "jsonl":
            return f"JSON, {self.encoding}"
        header = "first line names the columns" if self.header else "no header line"
        return f"{self.dialect.described()}, {header}, {self.encoding}"


def detect_layout(path: Path, encoding: str | None = None, limits: Limits = DEFAULT_LIMITS) -> Layout:
    """Detect how a file is written; ``encoding`` is the encoding that the user named.

    Raises:
        DataError: The file is missing, empty, too large, or in a format that the pipeline does not read.
    """
    problem = not_a_file(path)
    if problem is not None:
        hint = "Check the path; name a file."
        if path.is_dir():
            hint = "Name the files in it, one per split."
        raise DataError(f"{path} {problem}.", hint)

    # format
    compressed = path.suffix.lower() == ".gz"
    unpacked = path.with_suffix("") if compressed else path
    suffix = unpacked.suffix.lower()
    if suffix not in FAMILY_OF_SUFFIX:
        raise DataError(
            f"{path}: unknown suffix {suffix!r}.",
            HINTS.get(suffix, f"Known: {', '.join(FAMILY_OF_SUFFIX)}; also .gz."),
        )
    layout = Layout(FAMILY_OF_SUFFIX[suffix], compressed)
    if layout.kind == "parquet":
        return layout

    # encoding
    if encoding is None:
        encoding = detect_encoding(path, limits)
    else:
        encoding = known_encoding(encoding)
    layout = replace(layout, encoding=encoding)

    if layout.kind == "jsonl":
        refuse_object(path, layout.encoding, limits)
        return layout
    return detect_dialect(path, layout, suffix, limits)


def detect_dialect(path: Path, layout: Layout, suffix: str, limits: Limits = DEFAULT_LIMITS) -> Layout:
    """Return the layout with the delimiter, quotes, titles and header that split the records most evenly."""
    lines = _sample(path, layout.encoding, limits, SOURCES)
    if not "".join(lines).strip():
        raise DataError(f"{path} is empty.", "It needs a header line and rows.")
    layout = replace(layout, dialect=_fitting(lines, suffix))
    records = itertools.islice(layout.reader(iter(lines)), RECORDS)
    return with_header(layout, list(records))


def _fitting(lines: Sequence[str], suffix: str) -> Dialect:
    """Return the dialect that fits the first lines of a file with this suffix best."""
    skipped = 0
    delimiter = None
    separator = SEPARATOR_LINE.fullmatch(lines[0])
    if separator is not None:
        skipped = 1
        delimiter = separator[1]
    table = lines[skipped:]

    # ``max`` returns the first of equals: the usual dialect.
    candidates = dialects(suffix, delimiter, table)
    best = max(candidates, key=lambda dialect: dialect_fit(table, dialect))
    return replace(best, skip_lines=skipped + count_titles(table, best))


def detected_dialect(
    source: DataFile,
    kind: Kind,
    options: OptionNames,
    encoding: str = "utf-8",
    limits: Limits = DEFAULT_LIMITS,
) -> Dialect:
    """Return the dialect of a file to predict, whose format is known.

    It is the dialect that ``detect_layout`` finds; of a file without lines, the usual one.
    """
    usual = Dialect.default(kind == "tsv")
    if kind not in {"csv", "tsv"}:
        return usual
    lines = _sample(source, encoding, limits, options, strict=False)
    if not "".join(lines).strip():
        return usual
    return _fitting(lines, f".{kind}")


def dialects(suffix: str, delimiter: str | None, lines: Sequence[str]) -> list[Dialect]:
    """Return the dialects that a file may have, the usual ones first.

    Other quotes and escapes than the usual ones come into question only where the lines have them.

    Args:
        suffix: Suffix of the file, which tells the usual delimiter.
        delimiter: The delimiter, if the file names it.
        lines: The first lines.
    """
    # delimiters, the usual one first
    usual = "\t" if suffix in {".tsv", ".tab"} else ","
    delimiters = sorted(DELIMITERS, key=lambda character: character != usual)
    if delimiter is not None:
        delimiters = [delimiter]

    # the usual quotes: in TSV, they are literal
    candidates = []
    for character in delimiters:
        standard = Dialect(character, literal=False)
        literal = Dialect(character, literal=True)
        candidates += [literal, standard] if character == "\t" else [standard, literal]

    # other quotes and escapes
    text = "".join(lines)
    escapes: list[str | None] = [None]
    if f'{BACKSLASH}"' in text or f"{BACKSLASH}'" in text:
        escapes.append(BACKSLASH)
    for character in delimiters:
        edge = re.escape(character)
        quotes = ['"']
        if re.search(rf"(^|{edge})'[^'\n]*'({edge}|$)", text, re.MULTILINE):
            quotes.append(APOSTROPHE)
        for quote in quotes:
            for escape in escapes:
                candidates.append(Dialect(character, literal=False, quote=quote, escape=escape))
    return candidates


def with_header(layout: Layout, records: Sequence[Sequence[str]]) -> Layout:
    """Return the layout with the decision whether the first record names the columns."""
    evidence = header_evidence(records)
    return replace(layout, header=evidence > 0, is_clear=abs(evidence) >= CERTAIN)


def _sample(
    path: DataFile, encoding: str, limits: Limits, options: OptionNames, *, strict: bool = True
) -> list[str]:
    sample: list[str] = []
    size = 0
    with open_text(path, encoding, options, limits, strict=strict) as lines:
        for line in lines:
            sample.append(line)
            size += len(line)
            if size >= SAMPLE:
                break
    return sample


def dialect_fit(lines: Sequence[str], dialect: Dialect) -> tuple[float, float]:
    """Return how well a dialect fits lines: how even its records are, and how regular its quotes.

    Evenness is the fraction of records with the most common number of cells, 0 where that is 1. A file with
    literal quotes becomes irregular when they are read as quoting: cells run over line ends, or text follows
    a closing quote, which the strict mode of the csv module refuses.
    """
    csv.field_size_limit(LONGEST_FIELD)
    counts = Counter(map(len, dialect.records(iter(lines))))
    del counts[0]  # empty lines
    if not counts:
        return 0.0, 0.0
    width, agreeing = counts.most_common(1)[0]
    evenness = 0.0
    if width > 1:
        evenness = agreeing / counts.total()
    return evenness, tidiness(lines, dialect)


def tidiness(lines: Sequence[str], dialect: Dialect) -> float:
    """Return how regular the quotes are under a dialect, from 0 to 1; 1 if there are none."""
    quoted = [line for line in lines if dialect.quote in line]
    if not quoted:
        return 1.0
    if dialect.literal:
        # Cells that are completely quoted are not literal.
        cells = 0
        enclosed = 0
        for line in quoted:
            for cell in map(str.strip, line.split(dialect.delimiter)):
                cells += 1
                enclosed += len(cell) > 1 and cell[0] == cell[-1] == dialect.quote
        return (cells - enclosed) / cells

    reader = dialect.records(iter(lines), strict=True)
    untidy = 0
    while True:
        before = reader.line_num
        try:
            next(reader)
        except StopIteration:
            return max(0.0, 1 - untidy / len(quoted))
        except csv.Error:
            taken = reader.line_num - before
            # A short record at the end of the sample may only be cut.
            if reader.line_num < len(lines) or taken >= LONGEST_RECORD:
                untidy += max(taken, 1)


def count_titles(lines: Sequence[str], dialect: Dialect) -> int:
    """Return the number of lines above a table: almost empty records, such as a title, before even ones.

    A title has text in its first cell, and in less than half of the columns that are used below, or is a
    single cell; a header has a name for each of them, but for a first one.
    """
    reader = dialect.records(iter(lines))
    ends: list[int] = []  # number of the last line of each record
    records: list[list[str]] = []
    for record in itertools.islice(reader, RECORDS):
        records.append(record)
        ends.append(reader.line_num)
    widths = Counter(map(len, records))
    del widths[0]  # empty lines
    if not widths:
        return 0

    # the columns that are used below possible titles
    width = widths.most_common(1)[0][0]
    table = [record for record in records if len(record) == width]
    rows = table[MOST_TITLES:] or table[-1:]
    used = 0
    for column in zip(*rows, strict=True):
        used += any(map(str.strip, column))

    for number, record in enumerate(records[: MOST_TITLES + 1]):
        filled = [bool(cell.strip()) for cell in record]
        if len(record) == width:
            is_title = sum(filled) < used / 2 and (filled[0] or not any(filled))
        else:
            # More filled cells can be a header, of rows whose texts have delimiters.
            is_title = sum(filled) <= 1
        if is_title:
            continue

        # the first record of the table
        if number == 0 or used <= 1:
            return 0
        below = [len(row) for row in records[number:] if row]
        if below.count(width) < LEAST_EVEN * len(below):
            return 0
        return ends[number - 1]
    return 0


def refuse_object(path: Path, encoding: str, limits: Limits) -> None:
    """Refuse a file that is one JSON object instead of rows, and say how to convert it.

    Such an object has a list for each column, or rows under a key.
    """
    with open_text(path, encoding, SOURCES, limits) as lines:
        if not lines.starts_with("{"):
            return
        first = next(iter(lines))
    try:
        value: Any = json.loads(first)
        if not all(isinstance(cell, (list, dict)) for cell in value.values()):
            return  # the first row of JSON Lines
    except ValueError:
        value = _whole_object(path, encoding, limits)

    problem = f"{path} is one JSON object, not rows."
    rows = []
    if isinstance(value, dict):
        for key, cell in value.items():
            if isinstance(cell, list) and cell and isinstance(cell[0], dict):
                rows.append(key)
    if not isinstance(value, dict):
        hint = f"Write one object per line: `jq -c . {path} > {path.stem}.jsonl`"
    elif rows:
        hint = (
            f"Its rows are under {listed(rows, 3)}: `jq -c '.[\"{rows[0]}\"][]' {path} > {path.stem}.jsonl`"
        )
    else:
        convert = (
            f"import pandas; pandas.read_json('{path}').to_json('{path.stem}.jsonl', orient='records',"
            " lines=True)"
        )
        problem = (
            f"{path} is one JSON object with a list or object for each column ({listed(value, 5)}), not rows."
        )
        hint = f'Write one object per row: `python -c "{convert}"`'
    raise DataError(problem, hint)


def _whole_object(path: Path, encoding: str, limits: Limits) -> Any:
    """Return the object that a file consists of, or ``None`` if it is none or a large one."""
    with open_text(path, encoding, SOURCES, limits) as lines:
        text = ""
        while len(text) <= LARGEST_OBJECT and (piece := lines.read_piece()):
            text += piece
    try:
        return json.loads(text)
    except ValueError:
        return None


WESTERN_ENCODING = "cp1252"
"""The encoding in which Excel saves CSV files in Western Europe and America."""
MOST_ACCENTS = 0.5
"""Largest share of letters beyond ASCII in a Western European text; 5 % are usual."""
ENCODING_SAMPLE = 1 << 16
"""Bytes of lines beyond ASCII from which the language is recognised."""
SHOWN_WORDS = 1_000
"""Words among which the one with the most letters beyond ASCII is shown."""
MOST_ACCIDENTS = 0.05
"""Share of lines of a single-byte encoding that are valid UTF-8 by accident."""


@dataclass
class BrokenLines:
    """Lines with characters beyond ASCII.

    Attributes:
        valid: Number of lines that are UTF-8.
        count: Number of lines that are not UTF-8: broken lines.
        high, letters: Bytes beyond ASCII, and ASCII letters, in broken lines.
        foreign: A broken line is not cp1252 either.
        sample: The first broken lines.
    """

    valid: int = 0
    count: int = 0
    high: int = 0
    letters: int = 0
    foreign: bool = False
    sample: bytes = b""

    def add(self, line: bytes) -> None:
        """Count one line that is not ASCII."""
        if is_encoded(line, "utf-8"):
            self.valid += 1
            return
        self.count += 1
        if len(self.sample) < ENCODING_SAMPLE:
            self.sample += line
        self.high += sum(byte >= 0x80 for byte in line)
        self.letters += sum(byte < 0x80 and chr(byte).isalpha() for byte in line)
        self.foreign = self.foreign or not is_encoded(line, WESTERN_ENCODING)


def detect_encoding(path: Path, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return the encoding of a text file.

    It is UTF-8 or UTF-16 where the bytes allow it; cp1252 where no line beyond ASCII is UTF-8, but for a few
    by accident, and the letters fit.

    A file that is UTF-8 except for some lines is not guessed: any encoding for all of it would damage one
    part or the other.

    Raises:
        DataError: The file cannot be read, or the user has to correct lines or name the encoding.
    """
    with read_errors_explained(str(path)), open_bytes(path, PARAMETERS, limits) as (content, _):
        start = content.read(4)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"

    # Latin-1 gives each byte as the character of its number.
    lines = BrokenLines()
    with open_text(path, "latin-1", limits=limits) as text:
        for line in text:
            if not line.isascii():
                lines.add(line.encode("latin-1"))
    if not lines.count:
        return "utf-8-sig" if start.startswith(codecs.BOM_UTF8) else "utf-8"

    is_mixed = lines.valid > MOST_ACCIDENTS * lines.count
    is_western = lines.high <= MOST_ACCENTS * (lines.high + lines.letters)
    if not is_mixed and is_western and not lines.foreign:
        _refuse_better_encoding(path, lines.sample)
        return WESTERN_ENCODING

    # The message is about the first broken line.
    with open_text(path, "utf-8", SOURCES, limits) as text:
        first = next(problem for _ in text if (problem := text.take_problem()))
    hint = first.hint
    if is_mixed:
        hint += (
            f" To read every line in one encoding, which damages the others: --encoding {WESTERN_ENCODING}."
        )
    raise DataError(
        f"{path}, line {first.line:,}: {first.message}. Of the lines beyond ASCII, {lines.count:,} are not"
        f" utf-8, and {lines.valid:,} are.",
        hint,
    )


def _refuse_better_encoding(path: Path, sample: bytes) -> None:
    """Refuse a file that reads better in another encoding than in cp1252: the user has to name it."""
    better = better_encoding(sample)
    if better is None:
        return
    words = [word for word in sample.split() if not word.isascii() and is_encoded(word, better)]
    word = max(words[:SHOWN_WORDS], key=lambda word: sum(byte >= 0x80 for byte in word), default=b"")
    shown = ""
    if word:
        western = word.decode(WESTERN_ENCODING, errors="replace")
        shown = f": {word.decode(better)!r}, in {WESTERN_ENCODING} {western!r}"
    raise DataError(
        f"{path} is not UTF-8, and it reads better in {better} than in {WESTERN_ENCODING}{shown}.",
        f"Name its encoding: --encoding {better}, or --encoding {WESTERN_ENCODING}.",
    )
