"""The lines of a text file that are not UTF-8, converted in a copy of it: what ``data recode`` does."""

import gzip
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tuneline.analysis.text import LOST, correction, repaired
from tuneline.readers.files import not_a_file
from tuneline.readers.text import (
    LOST_BYTES,
    is_cut,
    is_encoded,
    open_bytes,
    probable_encoding,
    read_errors_explained,
    zero_byte_hint,
)
from tuneline.runtime.atomic_files import replace_file
from tuneline.runtime.errors import DataError, StageError
from tuneline.runtime.terminal import progress, say

SHOWN_LINES = 10
SHOWN_CHARACTERS = 20
GUESSED_BYTES = 1 << 20
"""Bytes of lines that are not UTF-8 from which their encoding is guessed."""


def recode_file(path: Path, encoding: str | None, mojibake: bool, output: Path | None) -> None:
    """Show the lines of a text file that are not UTF-8, and write a copy in which they are.

    Args:
        path: CSV, TSV or JSON Lines, plain or gzip.
        encoding: Encoding of these lines; ``None``: the one in which they read most like a text.
        mojibake: Convert also lines that were decoded with a wrong encoding before they were saved.
        output: File to write; ``None``: only show.
    """
    if ".parquet" in path.suffixes:
        raise StageError(
            f"{path}: texts in Parquet files are always UTF-8.",
            "Correct mojibake in the program that writes it.",
        )
    problem = not_a_file(path)
    if problem:  # the file is read twice, so a pipe will not do
        raise StageError(f"{path} {problem}.", "Name a file.")
    if output is not None and output.exists():
        raise StageError(f"{output} exists.", "Name another file in --output; the source is never changed.")

    # Both passes read the file anew: it may be larger than the memory.
    encoding = encoding or _guessed_encoding(path)
    parts = _show_changes(path, encoding, mojibake)
    if parts and output is None:
        say(f"To convert: {parts}. Nothing is written without --output; --encoding names another encoding.")
    elif parts and output is not None:
        _write(output, _converted_lines(path, encoding, mojibake))
        say(f"{output}: converted lines: {parts}. Compare it with {path}, and replace that.")


def _show_changes(path: Path, encoding: str, mojibake: bool) -> str:
    """Show the first lines to convert, and return how many there are; an empty text if there are none."""
    counts: Counter[str] = Counter()
    total = 0
    valid = 0
    for total, line, converted in _converted_lines(path, encoding, mojibake):
        if converted == line:
            if not line.isascii():
                valid += 1
            continue
        counts[_kind(line, encoding)] += 1
        if counts.total() <= SHOWN_LINES:
            say(f"line {total:,}: {_change(line, converted, encoding)}")

    # the rest in one line
    more = counts.total() - SHOWN_LINES
    if more > 0:
        say(f"and {more:,} more lines")
    else:
        say(f"{path}: {total:,} lines; {valid:,} beyond ASCII are right utf-8.")
    return " and ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))


def _kind(line: bytes, encoding: str) -> str:
    """Say what is wrong with a line that is converted."""
    if is_encoded(line, "utf-8"):
        return "of mojibake"
    if is_cut(line):
        return "with a cut character"
    return f"in {encoding}"


def _write(output: Path, lines: Iterator[tuple[int, bytes, bytes]]) -> None:
    with replace_file(output) as partial, partial.open("wb") as file:
        packed: Any = nullcontext(file)
        if output.suffix == ".gz":
            # without name and time, so that the same lines give the same bytes
            packed = gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0)
        with packed as target:
            for _, _, converted in lines:
                target.write(converted)


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with (
        read_errors_explained(str(path)),
        open_bytes(path) as (content, _),
        progress(f"data recode: {path}", unit="lines") as step,
    ):
        for step.done, line in enumerate(content, 1):
            if b"\0" in line:
                hint = zero_byte_hint(line.count(b"\0"), len(line))
                raise DataError(f"{path}, line {step.done:,}: a zero byte.", hint)
            yield step.done, line


def _guessed_encoding(path: Path) -> str:
    """Return the probable encoding of the lines that are not UTF-8, by the first of them."""
    sample = b""
    for _, line in _read_lines(path):
        if not is_encoded(line, "utf-8") and not is_cut(line):
            sample += line
        if len(sample) >= GUESSED_BYTES:
            break
    if not sample:
        return "utf-8"
    return probable_encoding(sample)


def _converted_lines(path: Path, encoding: str, mojibake: bool) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the number of each line, and the line before and after its conversion."""
    for number, line in _read_lines(path):
        if not is_encoded(line, "utf-8"):
            yield number, line, _decoded(path, number, line, encoding).encode()
        elif mojibake:
            yield number, line, repaired(line.decode()).encode()
        else:
            yield number, line, line


def _decoded(path: Path, number: int, line: bytes, encoding: str) -> str:
    if is_cut(line):
        return line.decode(errors="replace")
    try:
        # A line can have characters of both encodings, and some that an earlier program lost.
        parts = [part.decode(encoding) for part in line.split(LOST_BYTES)]
        return repaired(LOST.join(parts))
    except UnicodeDecodeError as error:
        hint = "Name another in --encoding, or correct this line by hand."
        problem = "not utf-8"
        if encoding != "utf-8":
            problem = f"neither utf-8 nor {encoding}"
        place = f"{path}, line {number:,}"
        raise DataError(f"{place}: {problem}: byte 0x{line[error.start]:02x}.", hint) from None


def _change(line: bytes, converted: bytes, encoding: str) -> str:
    """Say what a line reads now and after the conversion."""
    try:
        return str(correction(line.decode().strip()))
    except UnicodeDecodeError as error:
        around = slice(max(0, error.start - SHOWN_CHARACTERS), error.start + SHOWN_CHARACTERS)
        what = f"in {encoding}"
        if is_cut(line):
            what = "of a cut character"
        return f"byte 0x{line[error.start]:02x} {what}: {converted.decode()[around].strip()!r}"
