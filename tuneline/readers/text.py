"""Lines of text files, plain or gzip, from a path or from standard input."""

import codecs
import io
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

from tuneline.errors import DataError
from tuneline.readers.encodings import probable_encoding
from tuneline.readers.limits import DEFAULT_LIMITS, Limits
from tuneline.readers.packed import CHUNK, explained, open_bytes
from tuneline.readers.rows import PARAMETERS, OptionNames, RowProblem
from tuneline.readers.urls import DataFile, file_size

LINE_ENDS = ("\n", "\r")
SHOWN = 20
"""Characters before and after a bad byte that a hint shows."""
UTF_16 = "A part in utf-16 was probably appended here: convert it (`iconv -f utf-16 -t utf-8 FILE`) before you join the files."
LONGEST_LINE = 1 << 24
"""Characters. Without a limit, a file that is one endless line would be read into memory whole. Longer cells allow longer lines."""

CONTENT = 1_000
"""Characters of a row that are kept for the report about it."""
EMPTY_LINES = 1_000_000
"""Empty lines in a row that are skipped. A small gzip file can have billions of them, which would take hours."""


class Lines:
    """The lines of a text, with their line ends. Iterate once.

    Attributes:
        name: The file, for messages.
        options: Names of the settings, for hints.
        limits: Largest sizes that are read.
        strict: As in ``open_text``.
        number: How many lines were read so far.
        problem: The latest line that is too long or not text; the reader of rows takes it with ``take_problem``.
        content: Start of the lines that were read since the reader of rows last emptied it: the row that it is reading.
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
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = True,
        size: int | None = None,
        position: Callable[[], int] | None = None,
    ) -> None:
        """Wrap a text that was opened with ``newline=""`` and ``errors="surrogateescape"``."""
        self.name = name
        self.options = options
        self.limits = limits
        self.strict = strict
        self.number = 0
        self.problem: RowProblem | None = None
        self.content = ""
        self.size = size
        self.position = position
        self._text = text
        self._has_utf8 = False  # a line read so far has characters beyond ASCII
        self._encoding = encoding
        self._longest = LONGEST_LINE * -(-limits.cell // Limits.cell)

    def __iter__(self) -> Iterator[str]:
        """Yield each line; of a line that is too long, its start.

        Raises:
            DataError: The file cannot be read any further.
        """
        readline, strict, longest = self._text.readline, self.strict, self._longest
        empty = 0
        try:
            with explained(self.name):
                while line := readline(longest):
                    self.number += 1
                    if len(self.content) < CONTENT:
                        self.content += line
                    if not line.isspace():
                        empty = 0
                    elif (empty := empty + 1) > EMPTY_LINES:
                        raise self._only_empty_lines()
                    if strict and (not line.isascii() or "\0" in line):
                        self._check(line)
                    if len(line) == longest and not line.endswith(LINE_ENDS):
                        self._skip_rest()
                    yield line
        except UnicodeError as error:  # from encodings such as utf-16, whose decoders cannot skip bad bytes
            problem = f"{self.name}, after line {self.number:,}: not {self._encoding}: {error}."
            raise DataError(problem, self._encoding_hint()) from None

    def _check(self, line: str) -> None:
        """Note the problem of a line that is not plain ASCII, if it has one."""
        problem = self.decoding_problem(line, self.number)
        if problem is None and "\0" in line:
            problem = RowProblem(self.number, "a zero byte", UTF_16)
        self._has_utf8 = self._has_utf8 or problem is None
        self.problem = problem or self.problem

    def _only_empty_lines(self) -> DataError:
        first = self.number - EMPTY_LINES
        problem = f"{self.name}, line {first:,}: more than {EMPTY_LINES:,} empty lines follow each other."
        return DataError(problem, "Check where the file comes from. If it is as it should be, remove the empty lines.")

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
                hint = self._line_hint(text, error.start) if self._encoding == "utf-8" else self._encoding_hint()
                return RowProblem(line, f"not {self._encoding}: byte 0x{byte:02x}", hint)
        return None

    def _encoding_hint(self) -> str:
        return f"Save it as utf-8, or set {self.options.encoding} to its encoding (cp1252 and latin-1 are common)."

    def _line_hint(self, text: str, start: int) -> str:
        """Return what a line with a byte outside UTF-8 probably reads, and how to convert it or the whole file."""
        line = text.encode(errors="surrogateescape")
        if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return UTF_16
        encoding = probable_encoding(line)
        around = text[max(0, start - SHOWN) : start + SHOWN].encode(errors="surrogateescape").decode(encoding, errors="replace")
        convert = f"`tuneline data recode {shlex.quote(self.name)}` shows such lines and converts only them to utf-8"
        if self._has_utf8:
            return f"In {encoding} it reads {around.strip()!r}, but lines before it are utf-8: {convert}."
        whole = f"If the whole file is in {encoding}, set {self.options.encoding} to it"
        return f"In {encoding} it reads {around.strip()!r}. {whole}; otherwise {convert}."

    def _skip_rest(self) -> None:
        """Read to the end of a line that is too long, in pieces."""
        hint = "Write one row per line; an array of JSON objects is not a JSON Lines file."
        self.problem = RowProblem(self.number, f"longer than {self._longest:,} characters", hint)
        while (piece := self._text.readline(self._longest)) and not piece.endswith(LINE_ENDS):
            pass


@contextmanager
def open_text(
    path: DataFile | None, encoding: str, options: OptionNames = PARAMETERS, limits: Limits = DEFAULT_LIMITS, *, strict: bool = True
) -> Iterator[Lines]:
    """Open a text file for reading line by line. A byte order mark is dropped.

    Args:
        path: The file; ``None`` for standard input.
        encoding: A name that Python knows.
        options: Names of the settings, for hints.
        limits: Largest sizes that are read.
        strict: Refuse what training data must not contain: a gzip file whose name does not end in ``.gz`` or a plain file whose
            name does, a binary file, a row with bytes outside the encoding in any column, a second header line. Otherwise gzip
            is recognised by its content, bytes outside the encoding become lone surrogates (see ``Lines.decoding_problem``),
            and a line like the header is a row.

    Raises:
        DataError: The file cannot be read, is a damaged gzip file, too large, or in another encoding; with ``strict``, also a binary file.
    """
    name = "standard input" if path is None else str(path)
    codec = "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding
    plain = encoding.removesuffix("-sig")
    with ExitStack() as stack:
        content, raw = stack.enter_context(open_bytes(path, options, limits, strict=strict))
        is_file = path is not None and path.is_file()
        with explained(name):
            _refuse_binary(content.peek(CHUNK), name, plain, options, strict)
        text = io.TextIOWrapper(content, encoding=codec, errors="surrogateescape", newline="")
        stack.callback(text.detach)  # otherwise garbage collection would close standard input
        size = file_size(path) if path is not None and is_file else None
        position = raw.tell if is_file else None
        yield Lines(text, name, encoding=plain, options=options, limits=limits, strict=strict, size=size, position=position)


def _refuse_binary(start: bytes, name: str, encoding: str, options: OptionNames, strict: bool) -> None:
    wide = codecs.lookup(encoding).name.startswith(("utf-16", "utf-32"))
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not wide:
        problem = f"{name}, line 1: not {encoding}, but utf-16 according to its byte order mark."
        raise DataError(problem, f"Set {options.encoding} to utf-16.")
    if strict and b"\0" in start and not wide:
        hint = "CSV, TSV and JSON Lines are text; Parquet files are named .parquet; save a spreadsheet as CSV."
        raise DataError(f"{name} is a binary file: it contains a zero byte.", hint)
