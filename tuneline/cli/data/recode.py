"""Lines of a text file that are in another encoding than the rest, converted to UTF-8."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from tuneline.errors import DataError, StageError
from tuneline.files import replace_file
from tuneline.mojibake import correction, repaired
from tuneline.readers.encodings import is_encoded, probable_encoding
from tuneline.readers.packed import explained, open_bytes
from tuneline.readers.special_files import not_a_file
from tuneline.readers.text import UTF_16
from tuneline.terminal import progress, say

SHOWN_LINES = 10
SHOWN_CHARACTERS = 20
GUESSED_BYTES = 1 << 20
"""Bytes of lines that are not UTF-8 from which their encoding is guessed."""


@dataclass
class Lines:
    """Lines that need to be converted.

    Attributes:
        total: Lines of the file.
        valid: Lines beyond ASCII that are right.
        wrong: Number of lines that are not UTF-8.
        mojibake: Number of lines that are mojibake.
        sample: The first lines that are not UTF-8, joined.
        shown: The first lines to convert, by line number.
    """

    total: int = 0
    valid: int = 0
    wrong: int = 0
    mojibake: int = 0
    sample: bytes = b""
    shown: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, mojibake: bool) -> "Lines":
        """Read all lines of a file.

        Raises:
            DataError: The file cannot be read.
        """
        found = cls()
        for number, line in _lines(path):
            found.total = number
            if b"\0" in line:
                raise DataError(f"{path}, line {number:,}: a zero byte.", UTF_16)
            if not line.isascii():
                found._add(line, mojibake)
        return found

    def _add(self, line: bytes, mojibake: bool) -> None:
        if not is_encoded(line, "utf-8"):
            self.wrong += 1
            if len(self.sample) < GUESSED_BYTES:
                self.sample += line
        elif mojibake and repaired(text := line.decode()) != text:
            self.mojibake += 1
        else:
            self.valid += 1
            return
        if len(self.shown) < SHOWN_LINES:
            self.shown[self.total] = line


def recode(path: Path, encoding: str | None, mojibake: bool, output: Path | None) -> None:
    """Show the lines of a text file that are not UTF-8, and write a copy in which they are.

    Args:
        path: CSV, TSV or JSON Lines, plain or gzip.
        encoding: Encoding of these lines; ``None``: the one in which they read most like a text.
        mojibake: Convert also lines that were decoded with a wrong encoding before they were saved.
        output: File to write; ``None``: only show.

    Raises:
        StageError: The output exists, or the file is not text.
        DataError: The file cannot be read, or a line is not in the encoding.
    """
    if ".parquet" in path.suffixes:
        raise StageError(f"{path}: texts in Parquet files are always UTF-8.", "Correct mojibake in the program that writes it.")
    if problem := not_a_file(path):  # it is read twice, so a pipe will not do
        raise StageError(f"{path} {problem}.", "Name a file.")
    if output is not None and output.exists():
        raise StageError(f"{output} exists.", "Name another file in --output; the source is never changed.")
    found = Lines.read(path, mojibake)
    encoding = encoding or (probable_encoding(found.sample) if found.wrong else "utf-8")
    for number, line in found.shown.items():
        say(f"line {number:,}: {_change(path, number, line, encoding)}")
    more = found.wrong + found.mojibake - len(found.shown)
    say(f"and {more:,} more lines" if more else f"{path}: {found.total:,} lines; {found.valid:,} beyond ASCII are right utf-8.")
    if not found.shown:
        return
    parts = [f"{found.wrong:,} in {encoding}"] * bool(found.wrong) + [f"{found.mojibake:,} of mojibake"] * bool(found.mojibake)
    if output is None:
        say(f"To convert: {' and '.join(parts)}. Nothing is written without --output; --encoding names another encoding.")
        return
    with replace_file(output) as partial, _opened(partial, output) as target:
        for number, line in _lines(path):
            target.write(line if line.isascii() else _converted(path, number, line, encoding, mojibake))
    say(f"{output}: converted lines: {' and '.join(parts)}. Compare it with {path}, and replace that.")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with explained(str(path)), open_bytes(path) as (content, _), progress(f"data recode: {path}", unit="lines") as step:
        for step.done, line in enumerate(content, 1):
            yield step.done, line


def _converted(path: Path, number: int, line: bytes, encoding: str, mojibake: bool) -> bytes:
    if not is_encoded(line, "utf-8"):
        return _decoded(path, number, line, encoding).encode()
    return repaired(line.decode()).encode() if mojibake else line


def _decoded(path: Path, number: int, line: bytes, encoding: str) -> str:
    try:
        return repaired(line.decode(encoding))  # a line can have characters of both encodings
    except UnicodeDecodeError as error:
        hint = "Name another in --encoding, or correct this line by hand."
        known = "not utf-8" if encoding == "utf-8" else f"neither utf-8 nor {encoding}"
        raise DataError(f"{path}, line {number:,}: {known}: byte 0x{line[error.start]:02x}.", hint) from None


def _change(path: Path, number: int, line: bytes, encoding: str) -> str:
    """Say what a line reads now and after the conversion."""
    try:
        return str(correction(line.decode().strip()))
    except UnicodeDecodeError as error:
        around = slice(max(0, error.start - SHOWN_CHARACTERS), error.start + SHOWN_CHARACTERS)
        after = _decoded(path, number, line, encoding)[around].strip()
        return f"byte 0x{line[error.start]:02x} in {encoding}: {after!r}"


@contextmanager
def _opened(path: Path, output: Path) -> Iterator[BinaryIO]:
    with path.open("wb") as file:
        if output.suffix == ".gz":
            with gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield file
