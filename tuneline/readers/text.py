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

from tuneline.errors import DataError
from tuneline.readers.rows import PARAMETERS, OptionNames, RowProblem

GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 1 << 16
"""Bytes that are read at a time."""
LONGEST_LINE = 1 << 24
"""Characters. Without a limit, a file that is one endless line would be read into memory whole."""


class Lines:
    """The lines of a text, with their line ends. Iterate once.

    Attributes:
        name: The file, for messages.
        options: Names of the settings, for hints.
        number: How many lines were read so far.
        problem: The latest line that is too long or not text; the reader of rows takes it with ``take_problem``.
        raw: The lines that were read since the last ``clear``, where ``keep_raw`` asks for them.
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
        keep_raw: bool = False,
        size: int | None = None,
        position: Callable[[], int] | None = None,
    ) -> None:
        """Wrap a text that was opened with ``newline=""`` and ``errors="surrogateescape"``."""
        self.name = name
        self.options = options
        self.number = 0
        self.problem: RowProblem | None = None
        self.raw: list[str] | None = [] if keep_raw else None
        self.size = size
        self.position = position
        self._text = text
        self._encoding = encoding

    def __iter__(self) -> Iterator[str]:
        """Yield each line; of a line that is too long, its start.

        Raises:
            DataError: The file cannot be read any further.
        """
        readline, raw, longest = self._text.readline, self.raw, LONGEST_LINE
        try:
            with explained(self.name):
                while line := readline(longest):
                    self.number += 1
                    if raw is not None:
                        raw.append(line)
                    if not line.isascii():
                        self._check_decoded(line)
                    if len(line) == longest:
                        self._skip_rest()
                    yield line
        except UnicodeError as error:  # from encodings such as utf-16, whose decoders cannot skip bad bytes
            problem = f"{self.name}, after line {self.number:,}: not {self._encoding}: {error}."
            raise DataError(problem, self._encoding_hint()) from None

    def take_problem(self) -> RowProblem | None:
        """Return the problem of the lines since the last call, if any."""
        problem, self.problem = self.problem, None
        return problem

    def clear(self) -> None:
        """Forget the raw lines."""
        if self.raw is not None:
            self.raw.clear()

    def take_raw(self) -> str:
        """Return the raw lines since the last call as one string."""
        text = "".join(self.raw or ())
        self.clear()
        return text

    def _check_decoded(self, line: str) -> None:
        """Record bytes that are not text in this encoding: the decoder passed them on as lone surrogates."""
        try:
            line.encode()
        except UnicodeEncodeError as error:
            byte = ord(line[error.start]) - 0xDC00
            self.problem = RowProblem(self.number, f"not {self._encoding}: byte 0x{byte & 0xFF:02x}", self._encoding_hint())

    def _encoding_hint(self) -> str:
        return f"Save it as utf-8, or set {self.options.encoding} to its encoding (cp1252 and latin-1 are common)."

    def _skip_rest(self) -> None:
        """Read to the end of a line that is too long, in pieces."""
        hint = "Write one row per line; an array of JSON objects is not a JSON Lines file."
        self.problem = RowProblem(self.number, f"longer than {LONGEST_LINE:,} characters", hint)
        while (piece := self._text.readline(LONGEST_LINE)) and not piece.endswith("\n"):
            pass


@contextmanager
def open_text(path: Path | None, encoding: str, options: OptionNames = PARAMETERS, keep_raw: bool = False) -> Iterator[Lines]:
    """Open a text file for reading line by line. A byte order mark is dropped.

    Args:
        path: The file, gzip where its name ends in ``.gz``; ``None`` for standard input. Standard input and pipes have no name
            to go by: they are unpacked when they start like a gzip file.
        encoding: A name that Python knows.
        options: Names of the settings, for hints.
        keep_raw: Keep lines for ``take_raw``.

    Raises:
        DataError: The file cannot be read, is a damaged gzip file, is binary, or is in another encoding.
    """
    name = "standard input" if path is None else str(path)
    codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    plain = encoding.removesuffix("-sig")
    with ExitStack() as stack:
        with explained(name):
            raw = sys.stdin.buffer if path is None else stack.enter_context(path.open("rb", buffering=CHUNK))
            is_file = path is not None and path.is_file()
            buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", raw))
            content = _unpacked(buffered, path if is_file else None)
            _refuse_binary(content.peek(CHUNK), name, plain, options)
        text = io.TextIOWrapper(cast("BinaryIO", content), encoding=codec, errors="surrogateescape", newline="")
        stack.callback(text.detach)  # otherwise garbage collection would close standard input
        size = path.stat().st_size if path is not None and is_file else None
        position = raw.tell if is_file else None
        yield Lines(text, name, encoding=plain, options=options, keep_raw=keep_raw, size=size, position=position)


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Replace errors of the operating system and of gzip by errors for users.

    Raises:
        DataError: The file called ``name`` cannot be read.
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
        raise DataError(f"{name} cannot be read: {error.strerror or error}.", "Check that it exists and that you may read it.") from None


def _unpacked(raw: io.BufferedReader, path: Path | None) -> io.BufferedReader | gzip.GzipFile:
    packed = raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
    if path is not None and packed and not is_gzip(path):
        raise DataError(f"{path} is a gzip file, and its name does not end in .gz.", f"Name it {path.name}.gz.")
    return gzip.GzipFile(fileobj=raw) if packed or (path is not None and is_gzip(path)) else raw


def is_gzip(path: Path) -> bool:
    """Return whether the name of a file ends in ``.gz``."""
    return path.suffix.lower() == ".gz"


def _refuse_binary(start: bytes, name: str, encoding: str, options: OptionNames) -> None:
    wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not wide:
        problem = f"{name}, line 1: not {encoding}, but utf-16 according to its byte order mark."
        raise DataError(problem, f"Set {options.encoding} to utf-16.")
    if b"\0" in start and not wide:
        hint = "CSV, TSV and JSON Lines are text; Parquet files are named .parquet; save a spreadsheet as CSV."
        raise DataError(f"{name} is a binary file: it contains a zero byte.", hint)
