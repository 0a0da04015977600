"""Lines of text files, plain or gzip, from a path or standard input."""

import codecs
import gzip
import io
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from tuneline.core.runtime.errors import DataError, UnreadableError
from tuneline.rows.reading.rows import LONGEST_LINE, RowProblem

CHUNK = 1 << 16
"""Bytes that are read at a time."""
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
def open_text(path: Path | None, encoding: str) -> Iterator[TextLines]:
    """Open a text file for reading line by line. A byte order mark is dropped.

    Raises:
        DataError: The file cannot be read, is a damaged gzip file, binary, or UTF-16 and read as another.
    """
    name = file_name(path)
    codec = encoding
    if codecs.lookup(encoding).name == "utf-8":
        codec = "utf-8-sig"  # which drops a byte order mark, if there is one
    plain = encoding.removesuffix("-sig")
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
