"""Lines of text files, plain or gzip, from a path or from standard input."""

import codecs
import gzip
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, TextIO, cast

from tuneline.readers.files import DataFile, RemoteFile, file_size
from tuneline.readers.rows import DEFAULT_LIMITS, MB, PARAMETERS, Limits, OptionNames, RowProblem, too_large
from tuneline.runtime.errors import DataError, UnreadableError

WESTERN = ("cp1252", "mac_roman", "cp850")
"""Encodings of Western Europe and America, the most frequent first."""
OTHERS = ("cp1251", "koi8_r", "cp1253", "shift_jis", "euc_kr", "gb18030")
ANY_LETTERS = re.compile(rb"[\x80-\xff]{4}")
"""Four accented letters in a row are rare in Western languages."""
PUNCTUATION = frozenset(
    "\u00a0\u00a1\u00a3\u00a7\u00ab\u00b0\u00b4\u00bb\u00bf"
    "\u2013\u2014\u2018\u2019\u201c\u201d\u201e\u2026\u20ac"
)
"""Characters beyond ASCII of common texts that are not letters."""


LOST_BYTES = "\ufffd".encode()
"""What a program writes for a character that it could not read, in UTF-8."""


def probable_encoding(text: bytes) -> str:
    """Return the encoding in which bytes beyond ASCII read most like a text.

    A text has letters there, and none in upper case after one in lower case. Characters that an earlier
    program lost say nothing.
    """
    text = text.replace(LOST_BYTES, b"")
    # ``min`` returns the first of equals, so the more probable encodings come first.
    encodings = WESTERN + OTHERS
    if ANY_LETTERS.search(text):
        encodings = OTHERS + WESTERN
    return min(encodings, key=lambda encoding: _odd_characters(text, encoding))


def is_cut(line: bytes) -> bool:
    """Return True if all that is not UTF-8 in a line is a cut character: a program cut the text by bytes.

    A single byte can also be an accented letter of a single-byte encoding. Those that begin a character of
    two bytes are upper case letters there, so after a lower case letter they are a start.
    """
    position = 0
    has_start = False
    while True:
        try:
            line[position:].decode()
        except UnicodeDecodeError as error:
            start = position + error.start
            end = position + error.end
            is_after_lower = start > 0 and chr(line[start - 1]).islower()
            is_single = end - start < 2
            if is_single and not (0xC2 <= line[start] <= 0xDE and is_after_lower):
                return False
            position = end
            has_start = True
        else:
            return has_start


def known_encoding(name: str) -> str:
    """Return the name of an encoding that ``--encoding`` names; refuse one that Python does not have."""
    try:
        # Unlike a look-up, this refuses codecs that are no encodings of text, such as hex.
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


def _odd_characters(text: bytes, encoding: str) -> int:
    """Return how many characters beyond ASCII a text has in an encoding that are unusual there."""
    if not is_encoded(text, encoding):
        return len(text)
    odd = 0
    for before, character in pairwise(" " + text.decode(encoding)):
        if character > "\x7f" and not _is_usual(before, character):
            odd += 1
    return odd


def _is_usual(before: str, character: str) -> bool:
    if character in PUNCTUATION:
        return True
    is_capital_inside = character.isupper() and before.islower()
    return character.isalpha() and not is_capital_inside


GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 1 << 16
"""Bytes that are read at a time."""


@contextmanager
def open_bytes(
    path: DataFile | None,
    options: OptionNames = PARAMETERS,
    limits: Limits = DEFAULT_LIMITS,
    *,
    strict: bool = True,
) -> "Iterator[tuple[io.BufferedReader[Any], BinaryIO]]":
    """Open a file for reading bytes; yield the unpacked content, and the file as it is on disk.

    Args:
        path: The file; ``None`` is standard input, which is not closed.
        options: Names of the settings, for hints.
        limits: The largest size of the unpacked content.
        strict: Unpack exactly the files whose names end in ``.gz``. Otherwise, and of standard input and
            pipes, which have no such name, what starts like a gzip file is unpacked.

    Raises:
        DataError: The file cannot be opened, or is a gzip file by its content but not by its name. While
            reading: it unpacks to more than the limit.
    """
    name = "standard input" if path is None else str(path)
    with ExitStack() as stack:
        with read_errors_explained(name):
            raw: Any
            if path is None:
                raw = sys.stdin.buffer
            elif isinstance(path, RemoteFile):
                raw = stack.enter_context(path.open_bytes())
            else:
                raw = stack.enter_context(path.open("rb", buffering=CHUNK))
            buffered = raw
            if not isinstance(raw, io.BufferedReader):
                buffered = io.BufferedReader(cast("io.RawIOBase", raw))

            named = None
            if strict and path is not None and path.is_file():
                named = path
            packed = _is_packed(buffered, named)

        content = buffered
        if packed:
            content = io.BufferedReader(Unpacked(buffered, name, options, limits), CHUNK)
        yield content, raw


class Unpacked(io.RawIOBase):
    """The content of a gzip file, which is counted while it is read."""

    def __init__(self, packed: io.BufferedReader, name: str, options: OptionNames, limits: Limits) -> None:
        super().__init__()
        self._content = gzip.GzipFile(fileobj=cast("BinaryIO", _Arriving(packed)), mode="rb")
        self._name = name
        self._option = options.unpacked
        self._limit = limits.unpacked
        self._size = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read what is there, at most as much as the buffer holds, up to the limit."""
        content = self._content.read1(len(buffer))
        self._size += len(content)
        if self._size > self._limit:
            raise too_large(self._name, "it unpacks to more", f"{self._limit / MB:,.0f} MB", self._option)
        buffer[: len(content)] = content
        return len(content)


class _Arriving:
    """A file for ``GzipFile`` whose ``read`` returns what has arrived.

    The ``read`` of a ``BufferedReader`` would wait until a pipe has sent all that it asks for.
    """

    def __init__(self, file: io.BufferedReader) -> None:
        self.read = file.read1


@contextmanager
def read_errors_explained(name: str) -> Iterator[None]:
    """Replace errors of the operating system and of gzip by errors about the file called ``name``.

    Raises:
        DataError: The gzip file is cut off or damaged.
        UnreadableError: The operating system cannot read the file.
    """
    try:
        yield
    except EOFError:
        raise DataError(
            f"{name}: the gzip file ends too early.",
            "It was cut off, as by a broken download: fetch it again.",
        ) from None
    except gzip.BadGzipFile as error:
        raise DataError(
            f"{name}: not a gzip file, or a damaged one: {error}.",
            "Fetch it again; a plain file must not end in .gz.",
        ) from None
    except zlib.error as error:
        raise DataError(f"{name}: the gzip file is damaged: {error}.", "Fetch it again.") from None
    except OSError as error:
        raise UnreadableError(
            f"{name} cannot be read: {error.strerror or error}.",
            "Check that it exists and that you may read it.",
        ) from None


def _is_packed(raw: io.BufferedReader, path: DataFile | None) -> bool:
    """Tell by the name of the file, or by its content where there is no name."""
    packed = raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
    if path is not None and packed and not is_gzip(path):
        raise DataError(
            f"{path} is a gzip file, and its name does not end in .gz.", f"Name it {path.name}.gz."
        )
    return packed or (path is not None and is_gzip(path))


def is_gzip(path: DataFile) -> bool:
    """Return True if the name of a file ends in ``.gz``."""
    return path.suffix.lower() == ".gz"


LINE_ENDS = ("\n", "\r")
SHOWN = 20
"""Characters before and after a bad byte that a hint shows."""
CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
"""Bytes that text does not have, except for a stray one."""
MOST_CONTROL_BYTES = 0.01
"""Share of the first bytes of a file with a zero byte from which it is binary."""
UTF_16 = (
    "A part in utf-16 was probably appended here: convert it (`iconv -f utf-16 -t utf-8 FILE`) before you"
    " join the files."
)
STRAY_ZERO = "Remove it, for example by `tr -d '\\000' < FILE > NEW_FILE`."
LONGEST_LINE = 1 << 24
"""Characters.

Without a limit, a file that is one endless line would be read into memory whole. Longer cells allow longer
lines.
"""

CONTENT = 1_000
"""Characters of a row that are kept for the report about it."""
EMPTY_LINES = 1_000_000
"""Empty lines in a row that are skipped.

A small gzip file can have billions of them, which would take hours.
"""


@dataclass(eq=False)
class TextLines:
    """The lines of a text, with their line ends. Iterate once.

    The text is opened with ``newline=""`` and ``errors="surrogateescape"``.

    Attributes:
        strict: As in ``open_text``.
        problem: The latest line that is too long or not text; the reader of rows takes it with
            ``take_problem``.
        content: Start of the lines that were read since the reader of rows last emptied it: the row that it
            is reading.
        size: Bytes of the file on disk; ``None`` where unknown.
        position: Returns how many of these bytes were read.
    """

    text: TextIO
    name: str
    encoding: str = "utf-8"
    options: OptionNames = PARAMETERS
    limits: Limits = DEFAULT_LIMITS
    strict: bool = True
    size: int | None = None
    position: Callable[[], int] | None = None
    number: int = 0
    problem: RowProblem | None = None
    content: str = ""
    _has_utf8: bool = False  # a line read so far has characters beyond ASCII

    def __post_init__(self) -> None:
        """Set the length from which a line is too long."""
        self._longest = LONGEST_LINE * -(-self.limits.cell // Limits.cell)

    def __iter__(self) -> Iterator[str]:
        """Yield each line; of a line that is too long, its start."""
        # A local name costs less than an attribute, and files have millions of lines.
        readline = self.text.readline
        strict = self.strict
        longest = self._longest
        empty = 0
        try:
            with read_errors_explained(self.name):
                while line := readline(longest):
                    self.number += 1
                    if len(self.content) < CONTENT:
                        self.content += line
                    if line.isspace():
                        empty += 1
                        if empty > EMPTY_LINES:
                            raise self._only_empty_lines()
                    else:
                        empty = 0
                    if strict and (not line.isascii() or "\0" in line):
                        self._check(line)
                    if len(line) == longest and not line.endswith(LINE_ENDS):
                        self._skip_rest()
                    yield line
        except UnicodeError as error:
            # from encodings such as utf-16, whose decoders cannot skip bad bytes
            problem = f"{self.name}, after line {self.number:,}: not {self.encoding}: {error}."
            raise DataError(problem, self._encoding_hint()) from None

    def starts_with(self, character: str) -> bool:
        """Return True if the text begins with a character, after white space; before anything is read."""
        start: bytes = self.text.buffer.peek(CHUNK)[:CHUNK]  # type: ignore[attr-defined]
        return start.decode(self.encoding, errors="ignore").lstrip("\ufeff \t\r\n").startswith(character)

    def read_piece(self) -> str:
        """Return the next characters; an empty text at the end. A caller reads pieces or lines, not both."""
        with read_errors_explained(self.name):
            return self.text.read(CHUNK)

    def _check(self, line: str) -> None:
        """Note the problem of a line that is not plain ASCII, if it has one."""
        problem = self.decoding_problem(line, self.number)
        if problem is None and "\0" in line:
            problem = RowProblem(self.number, "a zero byte", zero_byte_hint(line.count("\0"), len(line)))
        self._has_utf8 = self._has_utf8 or problem is None
        self.problem = problem or self.problem

    def _only_empty_lines(self) -> DataError:
        first = self.number - EMPTY_LINES
        problem = f"{self.name}, line {first:,}: more than {EMPTY_LINES:,} empty lines follow each other."
        return DataError(
            problem, "Check where the file comes from. If it is as it should be, remove the empty lines."
        )

    def take_problem(self) -> RowProblem | None:
        """Return the problem of the lines since the last call, if any."""
        problem = self.problem
        self.problem = None
        return problem

    def decoding_problem(self, text: str, line: int) -> RowProblem | None:
        """Return the problem of a line, or a field of it, with bytes that are not in this encoding."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            # Such a byte was decoded to a lone surrogate (``errors="surrogateescape"``).
            byte = ord(text[error.start]) - 0xDC00
            if 0x80 <= byte <= 0xFF:
                hint = self._encoding_hint()
                if self.encoding == "utf-8":
                    hint = self._line_hint(text, error.start)
                return RowProblem(line, f"not {self.encoding}: byte 0x{byte:02x}", hint)
        return None

    def _encoding_hint(self) -> str:
        return (
            f"Save it as utf-8, or set {self.options.encoding} to its encoding (cp1252 and latin-1 are"
            " common)."
        )

    def _line_hint(self, text: str, start: int) -> str:
        """Return what a line with a byte outside UTF-8 probably reads, and how to convert it or the file."""
        line = text.encode(errors="surrogateescape")
        if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return UTF_16
        if is_cut(line):
            return (
                "A character is cut here, as by a program that shortens texts by bytes: leave the row out,"
                " or write the text again."
            )

        encoding = probable_encoding(line)
        around = text[max(0, start - SHOWN) : start + SHOWN].encode(errors="surrogateescape")
        shown = around.decode(encoding, errors="replace").strip()
        convert = "export the file again in utf-8"
        if self._has_utf8:
            return f"In {encoding} it reads {shown!r}, but lines before it are utf-8: {convert}."
        whole = f"If the whole file is in {encoding}, set {self.options.encoding} to it"
        return f"In {encoding} it reads {shown!r}. {whole}; otherwise {convert}."

    def _skip_rest(self) -> None:
        """Read to the end of a line that is too long, in pieces."""
        hint = "Write one row per line; an array of JSON objects is not a JSON Lines file."
        self.problem = RowProblem(self.number, f"longer than {self._longest:,} characters", hint)
        piece = self.text.readline(self._longest)
        while piece and not piece.endswith(LINE_ENDS):
            piece = self.text.readline(self._longest)


@contextmanager
def open_text(
    path: DataFile | None,
    encoding: str,
    options: OptionNames = PARAMETERS,
    limits: Limits = DEFAULT_LIMITS,
    *,
    strict: bool = True,
) -> Iterator[TextLines]:
    """Open a text file for reading line by line. A byte order mark is dropped.

    Args:
        path: The file; ``None`` is standard input.
        encoding: Name of the encoding.
        options: Names of the settings, for hints.
        limits: Largest sizes that are read.
        strict: Refuse what training data must not contain: a gzip file whose name does not end in ``.gz`` or
            a plain file whose name does, a binary file, a row with bytes outside the encoding in any column,
            a second header line. Otherwise gzip is recognised by its content, bytes outside the encoding
            become lone surrogates (see ``TextLines.decoding_problem``), and a line like the header is a row.

    Raises:
        DataError: The file cannot be read, is a damaged gzip file, too large, or in another encoding; with
            ``strict``, also a binary file.
    """
    name = "standard input" if path is None else str(path)
    codec = encoding
    if codecs.lookup(encoding).name == "utf-8":
        codec = "utf-8-sig"  # which drops a byte order mark, if there is one
    plain = encoding.removesuffix("-sig")
    with ExitStack() as stack:
        content, raw = stack.enter_context(open_bytes(path, options, limits, strict=strict))
        with read_errors_explained(name):
            _refuse_binary(content.peek(CHUNK), name, plain, options, strict)
        text = io.TextIOWrapper(content, encoding=codec, errors="surrogateescape", newline="")
        stack.callback(text.detach)  # otherwise garbage collection would close standard input

        # for the progress; pipes have neither
        size = None
        position = None
        if path is not None and path.is_file():
            size = file_size(path)
            position = raw.tell
        yield TextLines(
            text,
            name,
            encoding=plain,
            options=options,
            limits=limits,
            strict=strict,
            size=size,
            position=position,
        )


def _refuse_binary(start: bytes, name: str, encoding: str, options: OptionNames, strict: bool) -> None:
    """Refuse a file whose first bytes are UTF-16 where it is not expected, or, if ``strict``, not text."""
    wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not wide:
        problem = f"{name}, line 1: not {encoding}, but utf-16 according to its byte order mark."
        raise DataError(problem, f"Set {options.encoding} to utf-16.")
    if strict and not wide and _is_binary(start):
        hint = (
            "CSV, TSV and JSON Lines are text; Parquet files are named .parquet; save a spreadsheet as CSV."
        )
        raise DataError(f"{name} is a binary file: it contains a zero byte.", hint)


def _is_binary(start: bytes) -> bool:
    """Return True for the first bytes of a file that is no text.

    Text may have a stray zero byte. In compressed data, every tenth byte is a control character; in UTF-16,
    every second one.
    """
    if b"\0" not in start:
        return False
    controls = len(start) - len(start.translate(None, CONTROL_BYTES))
    return controls > MOST_CONTROL_BYTES * len(start)


def zero_byte_hint(zeros: int, length: int) -> str:
    """Return what to do about the zero bytes of a line of this length."""
    if zeros * 4 > length:  # UTF-16 of Latin letters: every second byte
        return UTF_16
    return STRAY_ZERO
