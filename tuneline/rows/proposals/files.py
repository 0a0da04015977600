"""How a file is written: what is told, else what its name, its bytes and its first rows show.

A doubtful file is an error with the option that decides.
"""

import codecs
import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tuneline.core.runtime.errors import DataError, UnreadableError
from tuneline.core.runtime.terminal import listed, say
from tuneline.rows.proposals.tables import (
    CERTAIN,
    SNIFFED_RECORDS,
    first_records,
    fitting_layout,
    header_evidence,
    is_title,
)
from tuneline.rows.reading.delimited import CSV, TSV, numbered_columns
from tuneline.rows.reading.formats import format_of
from tuneline.rows.reading.rows import MISREAD, RowProblem
from tuneline.rows.reading.tables import Format, Input, open_lines, open_table
from tuneline.rows.reading.text import (
    CHUNK,
    ENCODING_HINT,
    file_name,
    is_encoded,
    known_encoding,
    not_a_file,
    open_bytes,
    read_errors_explained,
    refuse_binary,
)

SAMPLE = 2**20
"""Characters from which delimiter, quotes and header are detected."""
MOST_ACCIDENTS = 0.05
"""Share of lines of a single-byte encoding that are valid UTF-8 by accident."""
SHOWN_CELLS = 5
SHOWN_CHARACTERS = 60
HEAD = 512
"""Bytes by which a file without rows is recognised."""
TOKENS = "token classification, which Tuneline does not do"
NO_ROWS: Sequence[tuple[bytes, str]] = (
    (
        b"version https://git-lfs.github.com/spec/",
        "a pointer of Git LFS, not the file itself: `git lfs pull` fetches it",
    ),
    (b"<!doctype html", "a web page, not the data"),
    (b"<html", "a web page, not the data"),
    (b"<?xml", "an XML file"),
    (b"%pdf", "a PDF file"),
    (b"\xd0\xcf\x11\xe0", "a spreadsheet of Excel 97"),
    (b"pk\x03\x04", "a ZIP archive or a spreadsheet (.xlsx)"),
    (b"\x80\x04", "a pickle of Python"),
    (b"sqlite format 3", "a database of SQLite"),
    (b"#format=webanno", f"a file of WebAnno, for {TOKENS}"),
    (b"-docstart-", f"a file of CoNLL, for {TOKENS}"),
)
"""First bytes of files that hold no rows, whatever their names say, in lower case."""


class UnclearHeaderError(DataError):
    """The first line of a table can be a header or a row, and nobody told which."""


@dataclass(frozen=True)
class Sniffed:
    """What was detected of a file.

    Attributes:
        source: The file, and how it is written; without ``columns``.
        first: The first record of a table that can have a header line or none; else empty.
        header: True if it is rather a header.
        is_clear: False if it can as well be the other.
    """

    source: Input
    first: tuple[str, ...] = ()
    header: bool = True
    is_clear: bool = True

    def with_header(self, header: bool) -> "Sniffed":
        """Return it with the decision whether the first record names the columns."""
        return replace(self, header=header, is_clear=True)

    def settled(self, required: Collection[str] = ()) -> Input:
        """Return the file, with the numbered columns of one without a header.

        A first record with all columns that the caller requires is a header. If it is doubtful otherwise, and
        the caller requires numbered columns, it is none.

        Raises:
            UnclearHeaderError: It is doubtful, and the required columns do not tell.
        """
        numbered = numbered_columns(len(self.first))
        has_required = bool(required) and set(required) <= {*self.first, *numbered}
        if has_required and not set(required).isdisjoint(self.first):
            return self.source

        header = self.header
        if not self.is_clear:
            if not has_required:
                hint = "name the texts by them (--text COLUMN)"
                raise self.unclear_header(hint, hint)
            header = False
        if header:
            return self.source
        return replace(self.source, layout=replace(self.source.layout, columns=numbered))

    def unclear_header(self, if_header: str, if_row: str) -> UnclearHeaderError:
        """Return the error about a first line that can be read in two ways, with what decides for each."""
        first = listed([cell[:SHOWN_CHARACTERS] for cell in self.first], SHOWN_CELLS)
        numbered = listed(numbered_columns(len(self.first)), SHOWN_CELLS)
        problem = (
            f"{self.source.name}: the first line of the table, {first}, can name the columns or be a row like"
            " the others."
        )
        hint = (
            f"If it names the columns, {if_header}. If it is a row, {if_row}: the columns are {numbered}"
            " then."
        )
        return UnclearHeaderError(problem, hint)


def sniff(
    path: Path,
    *,
    file_format: Format | None = None,
    encoding: str | None = None,
    header: bool | None = None,
) -> Sniffed:
    """Detect how a file is written, except for what is told.

    Args:
        path: The file.
        file_format: The format, which the suffix tells otherwise.
        encoding: The encoding of a text.
        header: True if the first line of a table names the columns, False if it is a row.

    Raises:
        DataError: The file is missing, in a format that the pipeline does not read, or doubtful.
    """
    if not path.is_fifo():
        problem = not_a_file(path)
        if problem is not None:
            hint = "Check the path; name a file, or of a folder the files in it."
            raise DataError(f"{path} {problem}.", hint)
        _refuse_no_rows(path)
    layout = (file_format or format_of(path, "the format")).usual
    if layout.format.is_columnar:
        return Sniffed(Input(path, layout))
    encoding = known_encoding(encoding) if encoding else detect_encoding(path)
    source = Input(path, replace(layout, encoding=encoding))
    if layout.format not in {CSV, TSV}:
        return Sniffed(source)

    # a table: delimiter, quotes, titles and header
    lines = _sample(source)
    if not "".join(lines).strip():
        return Sniffed(source)  # and its reader says that it is empty
    layout = fitting_layout(lines, source.layout)
    table_format = TSV if layout.delimiter == TSV.delimiter else CSV
    layout = replace(layout, format=table_format)
    source = replace(source, layout=layout)
    records = first_records(lines, layout)
    records = list(filter(None, records))
    if is_title(records):
        title = listed(filter(None, records[0]))
        raise DataError(
            f"{path}: the first line, {title}, is a title above the table.", "Remove what is above the table."
        )
    first = tuple(records[0])
    if header is not None:
        return Sniffed(source, first, header)
    evidence = header_evidence(records)
    return Sniffed(source, first, evidence > 0, abs(evidence) >= CERTAIN)


def detect_encoding(path: Path) -> str:
    """Return the encoding of a text file, which is read to its end: UTF-8 or UTF-16.

    A file that is UTF-8 except for some lines is UTF-8, and these lines are bad rows: any other encoding for
    all of it would damage the others.

    Raises:
        DataError: The file cannot be read, or the user has to name the encoding.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_bytes(path) as (content, _), read_errors_explained(file_name(path)):
        if content.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        refuse_binary(content.peek(CHUNK), file_name(path), "utf-8")
        try:
            while chunk := content.read(CHUNK):
                decoder.decode(chunk)
            return "utf-8"
        except UnicodeDecodeError:
            pass

    valid = 0
    broken = 0
    with open_bytes(path) as (content, _), read_errors_explained(file_name(path)):
        while line := content.readline(CHUNK):
            if line.isascii():
                continue
            if is_encoded(line, "utf-8"):
                valid += 1
            else:
                broken += 1
    if valid > MOST_ACCIDENTS * broken:
        return "utf-8"
    raise DataError(f"{path} is not utf-8, and its bytes do not tell its encoding.", ENCODING_HINT)


def _refuse_no_rows(path: Path) -> None:
    """Refuse a file that holds no rows."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return  # whoever reads it says why
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for first_bytes, name in NO_ROWS:
        if start.startswith(first_bytes.lower()):
            raise DataError(f"{path} is {name}.", "Save its table as CSV (UTF-8), JSON Lines or Parquet.")


def sniffed_input(
    path: Path, required: Collection[str], *, file_format: Format | None = None, encoding: str | None = None
) -> Input:
    """Return a file as it is detected, and print how that is if it is unusual.

    The columns that the caller requires tell a header. The other arguments are those of ``sniff``.
    """
    source = sniff(path, file_format=file_format, encoding=encoding).settled(required)
    usual = source.layout.format.usual
    if source.layout != replace(usual, encoding=encoding or usual.encoding):
        say(f"{path}: read as {source.layout.described()}", error=True)
    return source


def fitting_input(source: Input, required: Sequence[str]) -> Input:
    """Return a file as it was told; if its first rows do not fit that, as it is detected.

    Args:
        source: The file, as ``data.files`` describes it.
        required: Columns that the file needs.

    Raises:
        DataError: The file cannot be read, or is doubtful.
    """
    if source.path is None or fits(source, required):
        return source
    return sniff(source.path).settled(required)


def fits(source: Input, required: Sequence[str]) -> bool:
    """Return True if a file has the columns, and its first rows and its encoding are as its layout says.

    Raises:
        UnreadableError: The operating system cannot read the file.
    """
    try:
        with open_table(source) as table:
            if table.lines is not None and source.layout.encoding != "utf-8" and _is_utf8(source):
                return False
            if not set(required) <= set(table.names()):
                return False
            values = [row for _, row in itertools.islice(table.rows(required), SNIFFED_RECORDS)]
    except UnreadableError:
        raise
    except DataError:
        return False
    if values and not isinstance(values[0], RowProblem) and list(values[0]) == list(required):
        return False  # a header line, where the columns are told
    problems = sum(isinstance(row, RowProblem) for row in values)
    return problems <= MISREAD * len(values)


def _is_utf8(source: Input) -> bool:
    """Return True if the first lines of a text in another encoding are UTF-8, and not only ASCII."""
    text = "".join(_sample(source))
    return not text.isascii() and is_encoded(text.encode(source.layout.encoding, "surrogateescape"), "utf-8")


def _sample(source: Input) -> list[str]:
    """Return the first lines of a text."""
    sample: list[str] = []
    size = 0
    with open_lines(source) as lines:
        for line in lines:
            sample.append(line)
            size += len(line)
            if size >= SAMPLE:
                break
    return sample
