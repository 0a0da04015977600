"""How a file is written: what is told, else what its name, its bytes and its first rows show.

A doubtful file is an error with the option that decides.
"""

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuneline.readers.delimited import CSV, TSV, numbered_columns
from tuneline.readers.fasttext import FASTTEXT
from tuneline.readers.files import DataFile, not_a_file
from tuneline.readers.formats import format_of
from tuneline.readers.jsonl import JSONL
from tuneline.readers.rows import DEFAULT_LIMITS, MISREAD, Limits, OptionNames, RowProblem
from tuneline.readers.tables import Format, Input, Layout, open_lines, open_table
from tuneline.readers.text import is_encoded, known_encoding
from tuneline.runtime.errors import DataError, UnreadableError
from tuneline.runtime.terminal import say
from tuneline.runtime.wording import listed
from tuneline.sniffing.delimited import SNIFFED_RECORDS, first_records, fitting_layout
from tuneline.sniffing.encodings import detect_encoding
from tuneline.sniffing.header import CERTAIN, header_evidence
from tuneline.sniffing.line_formats import is_fasttext, refuse_line_format
from tuneline.sniffing.no_rows import refuse_no_rows
from tuneline.sniffing.objects import refuse_object

SOURCES = OptionNames("the delimiter", "the quoting", "the first row", "--encoding")
"""What messages name instead of options, where there are none for what is detected."""
SAMPLE = 2**20
"""Characters from which delimiter, quotes and header are detected."""
SHOWN_CELLS = 5
SHOWN_CHARACTERS = 60


class UnclearHeaderError(DataError):
    """The first line of a table can be a header or a row, and nobody told which."""


@dataclass(frozen=True)
class Told:
    """What the user said of a file, by the names of ``Layout``; ``None`` is detected.

    Attributes:
        format: The format, which the suffix tells otherwise.
        header: The first line names the columns, or is a row.
    """

    format: Format | None = None
    delimiter: str | None = None
    quoting: str | None = None
    columns: tuple[str, ...] | None = None
    encoding: str | None = None
    header: bool | None = None

    @property
    def layout(self) -> dict[str, Any]:
        """The values of the layout."""
        return {name: value for name, value in vars(self).items() if name not in {"format", "header"}}


@dataclass(frozen=True)
class Sniffed:
    """What was detected of a file.

    Attributes:
        source: The file, and how it is written; without ``columns``, unless they are told.
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
    path: DataFile,
    told: Told = Told(),
    options: OptionNames = SOURCES,
    limits: Limits = DEFAULT_LIMITS,
    *,
    strict: bool = True,
) -> Sniffed:
    """Detect how a file is written, except for what is told.

    Args:
        path: The file.
        told: What is not detected.
        options: Names of the settings, for messages.
        limits: Largest sizes that are read.
        strict: As in ``open_text``: the file is to be training data.

    Raises:
        DataError: The file is missing, too large, in a format that the pipeline does not read, or doubtful.
    """
    if isinstance(path, Path) and not path.is_fifo() and (problem := not_a_file(path)):
        hint = "Check the path; name a file."
        if path.is_dir():
            hint = "Name the files in it, one per split."
        raise DataError(f"{path} {problem}.", hint)

    if isinstance(path, Path) and not path.is_fifo():
        refuse_no_rows(path)
    usual = usual_layout(path, told)
    sniffer = SNIFFERS.get(usual.format.name)
    if sniffer is None:
        return Sniffed(Input(path, usual, limits, options=options, strict=strict))
    if told.encoding is not None:
        encoding = known_encoding(told.encoding)
    else:
        encoding = detect_encoding(path, options, limits, strict=strict)
    layout = replace(usual, encoding=encoding)
    return sniffer(Input(path, layout, limits, options=options, strict=strict), told)


def usual_layout(path: DataFile, told: Told) -> Layout:
    """Return how a file of this format is usually written."""
    file_format = told.format or format_of(path, "the format")
    return file_format.usual


def _sniff_objects(source: Input, told: Told) -> Sniffed:  # noqa: ARG001
    """Refuse a file of JSON without rows."""
    refuse_object(source)
    return Sniffed(source)


def _sniff_table(source: Input, told: Told) -> Sniffed:
    """Detect delimiter, quotes, titles and header."""
    lines = _sample(source)
    if not "".join(lines).strip():
        return Sniffed(source)  # and its reader says that it is empty
    if told.delimiter is None and is_fasttext(lines):
        return Sniffed(replace(source, layout=replace(source.layout, format=FASTTEXT)))
    if told.delimiter is None:
        refuse_line_format(source.name, lines)

    layout = fitting_layout(lines, source.layout, told.delimiter, told.quoting)
    table_format = CSV
    if layout.delimiter == TSV.usual.delimiter:
        table_format = TSV
    layout = replace(layout, format=table_format, columns=told.columns)
    source = replace(source, layout=layout)
    if told.columns is not None:
        return Sniffed(source)

    records = first_records(lines, layout)
    first = tuple(next(filter(None, records)))
    if told.header is not None:
        return Sniffed(source, first, told.header)
    evidence = header_evidence(records)
    return Sniffed(source, first, evidence > 0, abs(evidence) >= CERTAIN)


SNIFFERS: Mapping[str, Callable[[Input, Told], Sniffed]] = {
    CSV.name: _sniff_table,
    TSV.name: _sniff_table,
    JSONL.name: _sniff_objects,
}
"""What a text file shows beside its encoding, by format. Files of other formats describe themselves."""


def sniffed_input(
    path: DataFile,
    required: Collection[str],
    told: Told = Told(),
    options: OptionNames = SOURCES,
    limits: Limits = DEFAULT_LIMITS,
    *,
    strict: bool = False,
) -> Input:
    """Return a file as it is detected, and print how that is if it is unusual.

    The columns that the caller requires tell a header. The other arguments are those of ``sniff``.
    """
    source = sniff(path, told, options, limits, strict=strict).settled(required)
    usual = usual_layout(path, told).told(told.layout)
    if source.layout != replace(usual, format=source.layout.format):
        say(f"{path}: read as {source.layout.described()}", error=True)
    return source


def fitting_input(source: Input, required: Collection[str]) -> Input:
    """Return a file as it was told; if its first rows do not fit that, as it is detected.

    Args:
        source: The file, as ``data.files`` describes it.
        required: Columns that the file needs.

    Raises:
        DataError: The file cannot be read, or is doubtful.
    """
    if source.path is None or fits(source, required):
        return source
    sniffed = sniff(source.path, options=source.options, limits=source.limits, strict=source.strict)
    return sniffed.settled(required)


def fits(source: Input, required: Collection[str]) -> bool:
    """Return True if a file has the columns, and its first rows and its encoding are as its layout says.

    Raises:
        UnreadableError: The operating system cannot read the file.
    """
    try:
        with open_table(source) as table:
            if table.lines is not None and not _is_encoded_as_told(source):
                return False
            if table.has_schema and not set(required) <= set(table.names()):
                return False
            rows = table.rows(dict.fromkeys(required, ""), everywhere=(), lists=required)
            values = [row for _, row in itertools.islice(rows, SNIFFED_RECORDS)]
    except UnreadableError:
        raise
    except DataError:
        return False
    if values and not isinstance(values[0], RowProblem) and list(values[0]) == list(required):
        return False  # a header line, where the columns are told
    problems = sum(isinstance(row, RowProblem) for row in values)
    return problems <= MISREAD * len(values)


def _is_encoded_as_told(source: Input) -> bool:
    """Return True if the first lines of a text are in its encoding, and not rather in UTF-8."""
    lines = _sample(source)
    text = "".join(lines)
    if not is_valid(text):
        return False
    if source.layout.encoding == "utf-8" or text.isascii():
        return True
    try:
        content = text.encode(source.layout.encoding)
    except UnicodeEncodeError:
        return True
    return not is_encoded(content, "utf-8")


def is_valid(text: str) -> bool:
    """Return True if a text was decoded without replacements of bytes (``surrogateescape``)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
