"""Lines of text files, plain or gzip, from a path or from standard input."""

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from tuneline.errors import DataError, UnreadableError
from tuneline.readers.rows import PARAMETERS, OptionNames, RowProblem

GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 1 << 16
"""Bytes that are read at a time."""
LINE_ENDS = ("\n", "\r")
LONGEST_LINE = 1 << 24
"""Characters. Without a limit, a file that is one endless line would be read into memory whole."""


class Lines:
    """The lines of a text, with their line ends. Iterate once.

    Attributes:
        name: The file, for messages.
        options: Names of the settings, for hints.
        strict: As in ``open_text``.
        number: How many lines were read so far.
        problem: The latest line that is too long or not text; the reader of rows takes it with ``take_problem``.
        size: Bytes of the file on disk; ``None`` where unknown.
        position: Returns how many of these bytes were read.
    """

    def __init__(
        self,
        text: TextIO,
        name: str,
        *,
        encoding: str = "utf-8",
        options: OptionNames = PARAMETERS,
        strict: bool = True,
        size: int | None = None,
        position: Callable[[], int] | None = None,
    ) -> None:
        """Wrap a text that was opened with ``newline=""`` and ``errors="surrogateescape"``."""
        self.name = name
        self.options = options
        self.strict = strict
        self.number = 0
        self.problem: RowProblem | None = None
        self.size = size
        self.position = position
        self._text = text
        self._encoding = encoding

    def __iter__(self) -> Iterator[str]:
        """Yield each line; of a line that is too long, its start.

        Raises:
            DataError: The file cannot be read any further.
        """
        readline, strict, longest = self._text.readline, self.strict, LONGEST_LINE
        try:
            with explained(self.name):
                while line := readline(longest):
                    self.number += 1
                    if strict and not line.isascii():
                        self.problem = self.decoding_problem(line, self.number) or self.problem
                    if len(line) == longest and not line.endswith(LINE_ENDS):
                        self._skip_rest()
                    yield line
        except UnicodeError as error:  # from encodings such as utf-16, whose decoders cannot skip bad bytes
            problem = f"{self.name}, after line {self.number:,}: not {self._encoding}: {error}."
            raise DataError(problem, self._encoding_hint()) from None

    def take_problem(self) -> RowProblem | None:
        """Return the problem of the lines since the last call, if any."""
        problem, self.problem = self.problem, None
        return problem

    def decoding_problem(self, text: str, line: int) -> RowProblem | None:
        """Return the problem of a text with bytes that are not in this encoding: the decoder passed them on as lone surrogates.

        Args:
            text: A line, or a field of it.
            line: The line number, for the problem.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            byte = ord(text[error.start]) - 0xDC00
            if 0x80 <= byte <= 0xFF:
                return RowProblem(line, f"not {self._encoding}: byte 0x{byte:02x}", self._encoding_hint())
        return None

    def _encoding_hint(self) -> str:
        return f"Save it as utf-8, or set {self.options.encoding} to its encoding (cp1252 and latin-1 are common)."

    def _skip_rest(self) -> None:
        """Read to the end of a line that is too long, in pieces."""
        hint = "Write one row per line; an array of JSON objects is not a JSON Lines file."
        self.problem = RowProblem(self.number, f"longer than {LONGEST_LINE:,} characters", hint)
        while (piece := self._text.readline(LONGEST_LINE)) and not piece.endswith(LINE_ENDS):
            pass


@contextmanager
def open_text(path: Path | None, encoding: str, options: OptionNames = PARAMETERS, *, strict: bool = True) -> Iterator[Lines]:
    """Open a text file for reading line by line. A byte order mark is dropped.

    Args:
        path: The file; ``None`` for standard input.
        encoding: A name that Python knows.
        options: Names of the settings, for hints.
        strict: Refuse what training data must not contain: a gzip file whose name does not end in ``.gz`` or a plain file whose
            name does, a binary file, a row with bytes outside the encoding in any column, a second header line. Otherwise gzip
            is recognised by its content, bytes outside the encoding become lone surrogates (see ``Lines.decoding_problem``),
            and a line like the header is a row.

    Raises:
        DataError: The file cannot be read, is a damaged gzip file, or is in another encoding; with ``strict``, also a binary file.
    """
    name = "standard input" if path is None else str(path)
    codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    plain = encoding.removesuffix("-sig")
    with ExitStack() as stack:
        content, raw = stack.enter_context(open_bytes(path, strict=strict))
        is_file = path is not None and path.is_file()
        with explained(name):
            _refuse_binary(content.peek(CHUNK), name, plain, options, strict)
        text = io.TextIOWrapper(cast("BinaryIO", content), encoding=codec, errors="surrogateescape", newline="")
        stack.callback(text.detach)  # otherwise garbage collection would close standard input
        size = path.stat().st_size if path is not None and is_file else None
        position = raw.tell if is_file else None
        yield Lines(text, name, encoding=plain, options=options, strict=strict, size=size, position=position)


@contextmanager
def open_bytes(path: Path | None, *, strict: bool = True) -> Iterator[tuple[io.BufferedReader | gzip.GzipFile, BinaryIO]]:
    """Open a file, plain or gzip, for reading bytes.

    Args:
        path: The file; ``None`` for standard input. Standard input and pipes have no name that could end in ``.gz``: they are
            unpacked if they start like a gzip file.
        strict: Unpack exactly the files whose names end in ``.gz``; otherwise those that start like a gzip file.

    Yields:
        The unpacked content, and the file as it is on disk.

    Raises:
        DataError: The file cannot be opened, or is a gzip file by its content but not by its name.
    """
    with ExitStack() as stack:
        with explained("standard input" if path is None else str(path)):
            raw = sys.stdin.buffer if path is None else stack.enter_context(path.open("rb", buffering=CHUNK))
            buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", raw))
            named = path if strict and path is not None and path.is_file() else None
            content = _unpacked(buffered, named)
        yield content, raw


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Replace errors of the operating system and of gzip by errors for users.

    Raises:
        UnreadableError: The operating system does not read the file called ``name``.
        DataError: It is a damaged gzip file.
    """
    try:
        yield
    except EOFError:
        raise DataError(f"{name}: the gzip file ends too early.", "It was cut off, as by a broken download: fetch it again.") from None
    except gzip.BadGzipFile as error:
        raise DataError(
            f"{name}: not a gzip file, or a damaged one: {error}.", "Fetch it again; a plain file must not end in .gz."
        ) from None
    except zlib.error as error:
        raise DataError(f"{name}: the gzip file is damaged: {error}.", "Fetch it again.") from None
    except OSError as error:
        raise UnreadableError(
            f"{name} cannot be read: {error.strerror or error}.", "Check that it exists and that you may read it."
        ) from None


def _unpacked(raw: io.BufferedReader, path: Path | None) -> io.BufferedReader | gzip.GzipFile:
    """Unpack by the name of the file, or by its content where there is no name."""
    packed = raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
    if path is not None and packed and not is_gzip(path):
        raise DataError(f"{path} is a gzip file, and its name does not end in .gz.", f"Name it {path.name}.gz.")
    return gzip.GzipFile(fileobj=raw) if packed or (path is not None and is_gzip(path)) else raw


def is_gzip(path: Path) -> bool:
    """Return True if the name of a file ends in ``.gz``."""
    return path.suffix.lower() == ".gz"


def _refuse_binary(start: bytes, name: str, encoding: str, options: OptionNames, strict: bool) -> None:
    wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not wide:
        problem = f"{name}, line 1: not {encoding}, but utf-16 according to its byte order mark."
        raise DataError(problem, f"Set {options.encoding} to utf-16.")
    if strict and b"\0" in start and not wide:
        hint = "CSV, TSV and JSON Lines are text; Parquet files are named .parquet; save a spreadsheet as CSV."
        raise DataError(f"{name} is a binary file: it contains a zero byte.", hint)
