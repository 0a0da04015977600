"""How a file is written: what is told, else what its name, its bytes and its first rows show.

A doubtful file is an error with the option that decides.
"""

import codecs
import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from tuneline.core.runtime.errors import DataError, UnreadableError
from tuneline.core.runtime.terminal import listed, say
from tuneline.rows.proposals.tables import (
    first_records,
    fitting_layout,
    has_header,
    is_title,
)
from tuneline.rows.reading.formats import CSV, TSV, format_of, numbered_columns
from tuneline.rows.reading.limits import (
    CHUNK,
    HEAD,
    SNIFFED_CHARACTERS,
    SNIFFED_RECORDS,
)
from tuneline.rows.reading.rows import MISREAD, RowProblem
from tuneline.rows.reading.tables import (
    ENCODING_HINT,
    Format,
    Input,
    file_name,
    is_encoded,
    known_encoding,
    not_a_file,
    open_bytes,
    open_table,
    open_text,
    read_errors_explained,
    refuse_binary,
)

MOST_ACCIDENTS = 0.05
"""Share of lines of a single-byte encoding that are valid UTF-8 by accident."""
SHOWN_CELLS = 5
SHOWN_CHARACTERS = 60
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


def sniff(
    path: Path,
    *,
    file_format: Format | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    required: Collection[str] = (),
) -> Input:
    """Return a file as it is detected, except for what is told.

    Args:
        path: The file.
        file_format: The format, which the suffix tells otherwise.
        encoding: The encoding of a text.
        header: True if the first line of a table names the columns, False if it is a row.
        required: Columns that the caller needs, which tell a header, too.

    Raises:
        UnclearHeaderError: The first line can be a header or a row, and nothing tells which.
        DataError: The file is missing, in a format that the pipeline does not read, or doubtful.
    """
    if not path.is_fifo():
        problem = not_a_file(path)
        if problem is not None:
            hint = "Check the path; name a file, or of a folder the files in it."
            raise DataError(f"{path} {problem}.", hint)
        _refuse_no_rows(path)
    source = (file_format or format_of(path, "the format")).usual(path)
    if source.format.is_columnar:
        return source
    encoding = known_encoding(encoding) if encoding else detect_encoding(path)
    source = replace(source, encoding=encoding)
    if source.format not in {CSV, TSV}:
        return source

    # a table: delimiter, quotes, titles and header
    lines = _sample(source)
    if not "".join(lines).strip():
        return source  # and its reader says that it is empty
    source = fitting_layout(lines, source)
    source = replace(source, format=TSV if source.delimiter == TSV.delimiter else CSV)
    records = list(filter(None, first_records(lines, source)))
    if is_title(records):
        title = listed(filter(None, records[0]))
        hint = f"Remove what is above the table: {title}."
        raise DataError(f"{path}: the first line is a title above the table.", hint)
    if header is None:
        header = _has_header(source, records, required)
    if header:
        return source
    return replace(source, columns=numbered_columns(len(records[0])))


def _has_header(source: Input, records: Sequence[Sequence[str]], required: Collection[str]) -> bool:
    """Return True if the first record of a table names the columns.

    One with all columns that the caller requires does. If it is doubtful otherwise, and the caller requires
    numbered columns, it does not.

    Raises:
        UnclearHeaderError: It is doubtful, and the required columns do not tell.
    """
    first = records[0]
    numbered = numbered_columns(len(first))
    has_required = bool(required) and set(required) <= {*first, *numbered}
    if has_required and not set(required).isdisjoint(first):
        return True
    detected = has_header(records)
    if detected is not None:
        return detected
    if has_required:
        return False
    cells = listed([cell[:SHOWN_CHARACTERS] for cell in first], SHOWN_CELLS)
    raise UnclearHeaderError(
        f"{source.name}: the first line of the table can name the columns, or be a row like the others.",
        f"It is {cells}. If it names the columns, add --header. If it is a row, add --no-header: the columns"
        f" are {listed(numbered, SHOWN_CELLS)} then. A command without these options takes the right names of"
        " the texts: --text COLUMN.",
    )


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
    path: Path | None, required: Collection[str], file_format: Format | None, encoding: str | None
) -> Input:
    """Return a file as it is detected, and print how that is if it is unusual.

    The columns that the caller requires tell a header. A stream is not read ahead, so nothing of it is
    detected. The other arguments are those of ``sniff``.
    """
    if path is None or path.is_fifo():
        stream_format = file_format or format_of(path, "the format")
        return stream_format.usual(path).told({"encoding": encoding})
    source = sniff(path, file_format=file_format, encoding=encoding, required=required)
    if source != source.format.usual(path).told({"encoding": encoding}):
        say(f"{path}: read as {source.described()}", error=True)
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
    return sniff(source.path, required=required)


def fits(source: Input, required: Sequence[str]) -> bool:
    """Return True if a file has the columns, and its first rows and its encoding are as it says.

    Raises:
        UnreadableError: The operating system cannot read the file.
    """
    try:
        with open_table(source) as table:
            if table.lines is not None and source.encoding != "utf-8" and _is_utf8(source):
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
    return not text.isascii() and is_encoded(text.encode(source.encoding, "surrogateescape"), "utf-8")


def _sample(source: Input) -> list[str]:
    """Return the first lines of a text."""
    sample: list[str] = []
    size = 0
    with open_text(source) as lines:
        for line in lines:
            sample.append(line)
            size += len(line)
            if size >= SNIFFED_CHARACTERS:
                break
    return sample
