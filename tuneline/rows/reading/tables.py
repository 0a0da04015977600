"""A file with rows: its format, how it is written, its lines if it is a text, and the open file.

Every file of a user is an ``Input``, which says how it is written: ``data_input`` takes it from
``data.files``, and ``sniff`` detects it. It is read through ``open_table``: the open file gives values of
columns, row by row or in batches, and the problem of each row that cannot be read. ``formats`` lists the
formats.
"""

import codecs
import gzip
import io
import stat
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, TextIO

import pyarrow as pa

from tuneline.core.runtime.errors import DataError, UnreadableError
from tuneline.core.stage.tables import ROW_GROUP
from tuneline.rows.reading.limits import BATCH_CHARACTERS, CHUNK, LONGEST_LINE
from tuneline.rows.reading.rows import BadRows, RowProblem


@dataclass(frozen=True)
class Format:
    """A format of files with rows.

    Attributes:
        name: Its name in options and in records.
        suffixes: Suffixes of its files. A copy of a file gets the first one.
        open: Opens a file, which is closed with the stack; reads its header or footer.
        delimiter, quoting: How a table of this format is usually written.
        unit: What numbers of rows count, in messages and progress.
        is_columnar: A column is read without the others, and a range of rows without those before it.
    """

    name: str
    suffixes: tuple[str, ...]
    open: Callable[["Input", ExitStack], "FileTable"]
    delimiter: str = ","
    quoting: Literal["standard", "literal"] = "standard"
    unit: Literal["line", "row"] = "line"
    is_columnar: bool = False

    def usual(self, path: Path | None) -> "Input":
        """Return a file of this format as it is usually written."""
        return Input(path, self, delimiter=self.delimiter, quoting=self.quoting)


@dataclass(frozen=True)
class Input:
    """A file with rows that is to be read, and how it is written. The names are those of ``data.files``.

    Attributes:
        path: The file; ``None`` is standard input.
        format: Its format, which says which of the others have a meaning.
        encoding: Encoding of a text file. A byte order mark is dropped.
        delimiter: Character between two cells.
        quoting: ``standard``: quotes enclose cells. ``literal``: a quote is a character like any other.
        columns: Names for a file without a header line.
        quote: The quote that encloses cells. It is doubled inside of one.
        escape: Character before a quote inside a cell, as MySQL writes it; ``None``: there is none.
    """

    path: Path | None
    format: Format
    encoding: str = "utf-8"
    delimiter: str = ","
    quoting: Literal["standard", "literal"] = "standard"
    columns: tuple[str, ...] | None = None
    quote: str = '"'
    escape: str | None = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        return file_name(self.path)

    @property
    def unit(self) -> Literal["line", "row"]:
        """What numbers of its rows count."""
        return self.format.unit

    def described(self) -> str:
        """Return the format, and what is unusual."""
        usual = self.format.usual(self.path)
        parts = [self.format.name]
        for name, value in vars(self).items():
            if value != getattr(usual, name):
                parts.append(f"{name} {value!r}")
        return ", ".join(parts)

    def told(self, values: Mapping[str, Any]) -> Self:
        """Return the file as it is written with other values, by name. ``None`` says nothing."""
        changes: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, list):
                changes[name] = tuple(value)
            elif value is not None:
                changes[name] = value
        return replace(self, **changes)


LINE_ENDS = ("\n", "\r")
CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
"""Bytes that text does not have, except for a stray one."""
MOST_CONTROL_BYTES = 0.01
"""Share of the first bytes of a file with a zero byte from which it is binary."""


def not_a_file(path: Path) -> str | None:
    """Return what is wrong with a path that is neither a file nor a link to one, else ``None``.

    The result is the end of a sentence about the path. Nothing is opened, so a pipe is not waited for.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be reached: {error.strerror}"
    if stat.S_ISREG(mode):
        return None
    return "is not a file"


def known_encoding(name: str) -> str:
    """Return the name of an encoding that ``--encoding`` names; refuse one that Python does not have."""
    try:
        # Unlike a look-up, this refuses codecs that are not encodings of text, such as hex.
        "".encode(name)
    except LookupError:
        raise DataError(
            f"--encoding {name!r}: Python has no such encoding.", "Common ones: 'utf-8', 'cp1252', 'latin-1'."
        ) from None
    return name


def is_encoded(text: bytes, encoding: str) -> bool:
    """Return whether bytes are valid in an encoding."""
    try:
        text.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def file_name(path: Path | None) -> str:
    """Return the name of a file in messages; ``None`` is standard input."""
    return "standard input" if path is None else str(path)


@contextmanager
def open_bytes(path: Path | None) -> Iterator[tuple[Any, Any]]:
    """Open a file for reading bytes; yield the unpacked content, and the file as it is on disk.

    What begins like a gzip file is unpacked, whatever it is called.

    Raises:
        DataError: The gzip file is cut off or damaged, here or while reading.
        UnreadableError: The operating system cannot read the file.
    """
    with ExitStack() as stack:
        with read_errors_explained(file_name(path)):
            if path is None:
                raw: Any = sys.stdin.buffer  # which is not closed
            else:
                raw = stack.enter_context(path.open("rb", buffering=CHUNK))
            if not hasattr(raw, "peek"):
                raw = io.BufferedReader(raw)
            is_packed = raw.peek(2).startswith(b"\x1f\x8b")
        content = raw
        if is_packed:
            content = io.BufferedReader(gzip.GzipFile(fileobj=raw), CHUNK)
        yield content, raw


@contextmanager
def read_errors_explained(name: str) -> Iterator[None]:
    """Replace errors of the operating system and of gzip by errors about the file called ``name``."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{name}: the gzip file is cut off or damaged: {error}.", "Fetch it again.") from None
    except OSError as error:
        raise UnreadableError(
            f"{name} cannot be read: {error.strerror or error}.",
            "Check that it exists and that you may read it.",
        ) from None


@dataclass(eq=False)
class TextLines:
    """The lines of a text, with their line ends. Iterate once.

    The text is opened with ``newline=""`` and ``errors="surrogateescape"``.

    Attributes:
        problem: The latest line that is not text; the reader of rows takes it with
            ``take_problem``.
        size: Bytes of the file on disk; ``None`` where unknown.
        position: Returns how many of these bytes were read.
    """

    text: TextIO
    name: str
    encoding: str = "utf-8"
    size: int | None = None
    position: Callable[[], int] | None = None
    number: int = 0
    problem: RowProblem | None = None

    def __iter__(self) -> Iterator[str]:
        """Yield each line."""
        # A local name costs less than an attribute, and files have millions of lines.
        readline = self.text.readline
        try:
            with read_errors_explained(self.name):
                while line := readline(LONGEST_LINE):
                    self.number += 1
                    if not line.isascii() or "\0" in line:
                        self.problem = self._line_problem(line) or self.problem
                    if len(line) == LONGEST_LINE and not line.endswith(LINE_ENDS):
                        problem = (
                            f"{self.name}, line {self.number:,}: longer than {LONGEST_LINE:,} characters."
                        )
                        raise DataError(problem, "Write one row per line.")
                    yield line
        except UnicodeError as error:
            # from encodings such as utf-16, whose decoders cannot skip bad bytes
            problem = f"{self.name}, after line {self.number:,}: not {self.encoding}: {error}."
            raise DataError(problem, ENCODING_HINT) from None

    def starts_with(self, character: str) -> bool:
        """Return True if the text begins with a character, after white space; before anything is read."""
        start: bytes = self.text.buffer.peek(CHUNK)[:CHUNK]  # type: ignore[attr-defined]
        return start.decode(self.encoding, errors="ignore").lstrip("\ufeff \t\r\n").startswith(character)

    def take_problem(self) -> RowProblem | None:
        """Return the problem of the lines since the last call, if any."""
        problem = self.problem
        self.problem = None
        return problem

    def _line_problem(self, line: str) -> RowProblem | None:
        """Return the problem of a line with bytes that are not in this encoding, or with a zero byte."""
        try:
            line.encode()
        except UnicodeEncodeError as error:
            # Such a byte was decoded to a lone surrogate (``errors="surrogateescape"``).
            byte = ord(line[error.start]) - 0xDC00
            return RowProblem(self.number, f"not {self.encoding}: byte 0x{byte:02x}", ENCODING_HINT)
        if "\0" in line:
            hint = "Remove it (`tr -d '\\000'`); many of them are a part in utf-16."
            return RowProblem(self.number, "a zero byte", hint)
        return None


ENCODING_HINT = (
    "Save the file as utf-8, or name its encoding (--encoding NAME, data.files.encoding): Excel writes cp1252"
    " in Western Europe and America, cp1250 in Central Europe, cp1251 for Cyrillic, cp1253 for Greek, cp1254"
    " for Turkish, cp1255 for Hebrew, cp1256 for Arabic and Persian, cp932 in Japan, cp936 in China."
)


@contextmanager
def open_text(source: Input) -> Iterator[TextLines]:
    """Open a text file for reading line by line. A byte order mark is dropped.

    Raises:
        DataError: The file cannot be read, is a damaged gzip file, binary, or UTF-16 and read as another.
    """
    path = source.path
    name = source.name
    codec = source.encoding
    if codecs.lookup(codec).name == "utf-8":
        codec = "utf-8-sig"  # which drops a byte order mark, if there is one
    plain = source.encoding.removesuffix("-sig")
    with open_bytes(path) as (content, raw):
        with read_errors_explained(name):
            start = content.peek(CHUNK)
        refuse_binary(start, name, plain)
        text = io.TextIOWrapper(content, encoding=codec, errors="surrogateescape", newline="")
        try:
            lines = TextLines(text, name, plain)
            if path is not None and path.is_file():  # for the progress; pipes have no size
                lines.size = path.stat().st_size
                lines.position = raw.tell
            yield lines
        finally:
            text.detach()  # otherwise garbage collection would close standard input


def refuse_binary(start: bytes, name: str, encoding: str) -> None:
    """Refuse a file whose first bytes are not text.

    Text may have a stray zero byte. In compressed data, every tenth byte is a control character.
    """
    if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")):
        return
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        problem = f"{name}, line 1: not {encoding}, but utf-16 according to its byte order mark."
        raise DataError(problem, "Set data.files.encoding (--encoding) to utf-16.")
    controls = len(start) - len(start.translate(None, CONTROL_BYTES))
    if b"\0" in start and controls > MOST_CONTROL_BYTES * len(start):
        raise DataError(f"{name} is a binary file: it contains a zero byte.", "Save the table as CSV.")


@dataclass(frozen=True)
class ValueBatch:
    """Values of some columns of some rows.

    Attributes:
        positions: Line or row of each row, from 1.
        columns: Arrow arrays, or lists of any values.
    """

    positions: Sequence[int]
    columns: Mapping[str, pa.Array | list[Any]]

    @classmethod
    def numbered(cls, batches: Iterable[pa.RecordBatch], first: int = 1) -> Iterator[Self]:
        """Yield Arrow batches with the numbers of their rows."""
        for batch in batches:
            columns = {name: batch[name] for name in batch.schema.names}
            yield cls(range(first, first + batch.num_rows), columns)
            first += batch.num_rows

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.positions)


@dataclass
class FileTable(ABC):
    """An open file with rows. Read it once.

    Attributes:
        lines: The lines of a text file.
        hint: What to do about a column that is missing.
        is_whole: Every column is wanted: a value of a column that ``names`` lacks makes a row bad.
    """

    source: Input
    lines: TextLines | None = None
    hint: str | None = None
    is_whole: bool = False

    @property
    def name(self) -> str:
        """Name of the file, for messages."""
        return self.source.name

    @property
    def total(self) -> int | None:
        """Its size where known: bytes of a text file on disk, else rows."""
        return None if self.lines is None else self.lines.size

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the columns."""

    def declared(self, column: str) -> tuple[str, ...] | None:  # noqa: ARG002
        """Return the class names of a column, by their ids, if the file stores them."""
        return None

    def has_lists(self, column: str) -> bool:  # noqa: ARG002
        """Return True if there is a column of this name, and its type is lists."""
        return False

    @abstractmethod
    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, Sequence[Any] | RowProblem]]:
        """Yield the line or row number and the values of each row, or its problem.

        A value that a row lacks is ``None``.
        """

    def batches(self, columns: Sequence[str], bad: BadRows) -> Iterator[ValueBatch]:
        """Yield batches of at most ``ROW_GROUP`` rows. Rows that cannot be read are added to ``bad``."""
        positions: list[int] = []
        records: list[Sequence[Any]] = []
        characters = 0
        for position, row in self.rows(columns):
            if isinstance(row, RowProblem):
                bad.add(row)
                continue
            positions.append(position)
            records.append(row)
            characters += sum(len(value) for value in row if isinstance(value, str))
            # Long texts make a batch smaller, so that it fits in memory.
            if len(records) == ROW_GROUP or characters >= BATCH_CHARACTERS:
                yield self._batch(positions, columns, records)
                positions = []
                records = []
                characters = 0
        if records:
            yield self._batch(positions, columns, records)

    def _batch(
        self, positions: list[int], columns: Sequence[str], records: Sequence[Sequence[Any]]
    ) -> ValueBatch:
        values = map(self.column_of, zip(*records, strict=True))
        return ValueBatch(positions, dict(zip(columns, values, strict=True)))

    def column_of(self, values: Sequence[Any]) -> pa.Array | list[Any]:
        """Return the values of a column of a batch."""
        return list(values)


@contextmanager
def open_table(source: Input) -> Iterator[FileTable]:
    """Open a file with rows; a ``DataError`` if its header or footer cannot be read."""
    with ExitStack() as stack:
        yield source.format.open(source, stack)
