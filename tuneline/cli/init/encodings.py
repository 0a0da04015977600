"""Detection of the encoding of a text file."""

import codecs
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tuneline.errors import DataError
from tuneline.readers.encodings import is_encoded
from tuneline.readers.limits import DEFAULT_LIMITS, Limits
from tuneline.readers.packed import explained, open_bytes
from tuneline.readers.rows import PARAMETERS, listed
from tuneline.readers.text import open_text

WESTERN = "cp1252"
"""The encoding in which Excel saves CSV files in Western Europe and America."""
BLOCK = 1 << 20
"""Bytes that are decoded at a time."""
MOST_ACCENTS = 0.5
"""Largest share of letters beyond ASCII in a Western European text; 5 % are usual."""
MOST_ACCIDENTS = 0.05
"""Share of lines of a single-byte encoding that are valid UTF-8 by accident."""
UNNAMED = "Save it as UTF-8, or name its encoding, such as --encoding {}."


@dataclass
class Lines:
    """Lines with characters beyond ASCII.

    Attributes:
        valid: Number of those that are UTF-8.
        broken: The others, by line number; at most ``MOST_BROKEN`` are kept.
        broken_count: Number of the others.
        high, letters: Bytes beyond ASCII and ASCII letters in the others.
        foreign: The first of the others that is not cp1252 either, with its number.
    """

    valid: int = 0
    broken: dict[int, bytes] = field(default_factory=dict)
    broken_count: int = 0
    high: int = 0
    letters: int = 0
    foreign: tuple[int, bytes] | None = None

    MOST_BROKEN = 5

    def add(self, number: int, line: bytes) -> None:
        """Count one line that is not ASCII."""
        if is_encoded(line, "utf-8"):
            self.valid += 1
            return
        self.broken_count += 1
        self.high += sum(byte >= 0x80 for byte in line)
        self.letters += sum(byte < 0x80 and chr(byte).isalpha() for byte in line)
        if self.foreign is None and not is_encoded(line, WESTERN):
            self.foreign = number, line
        if len(self.broken) < self.MOST_BROKEN:
            self.broken[number] = line


def detect_encoding(path: Path, limits: Limits = DEFAULT_LIMITS) -> str:
    """Return UTF-8 or UTF-16 where the bytes allow it; cp1252 where no line beyond ASCII is UTF-8 and the letters fit.

    A file that is UTF-8 except for some lines is not guessed: any encoding for all of it would damage one part or the other.

    Raises:
        DataError: The file cannot be read, or the user has to correct lines or name the encoding.
    """
    with explained(str(path)), open_bytes(path, PARAMETERS, limits) as (content, _):
        start = content.read(4)
        if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            decoder.decode(start)
            while block := content.read(BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return _single_byte(path, limits)
    return "utf-8-sig" if start.startswith(codecs.BOM_UTF8) else "utf-8"


def _single_byte(path: Path, limits: Limits) -> str:
    with open_text(path, WESTERN, limits=limits):
        pass  # refuses a binary file
    lines = Lines()
    for number, line in _beyond_ascii(path, limits):
        lines.add(number, line)
    if lines.valid > MOST_ACCIDENTS * lines.broken_count:
        raise DataError(_mixed(path, lines), _mixed_hint(path, lines))
    number, line = lines.foreign or next(iter(lines.broken.items()))
    if lines.foreign or lines.high > MOST_ACCENTS * (lines.high + lines.letters):
        raise DataError(f"{path}, line {number:,}: neither utf-8 nor {WESTERN}: {_shown(line)}.", UNNAMED.format("cp1251 or shift_jis"))
    return WESTERN


def _mixed(path: Path, lines: Lines) -> str:
    number, line = next(iter(lines.broken.items()))
    others = [f"{other:,}" for other in lines.broken][1:]
    more = lines.broken_count - len(lines.broken)
    like = f"; likewise line{'s' * (len(others) > 1)} {', '.join(others)}{f' and {more:,} more' if more else ''}" if others else ""
    return f"{path}, line {number:,}: not utf-8: {_shown(line)}{like}. {lines.valid:,} other lines beyond ASCII are utf-8."


def _mixed_hint(path: Path, lines: Lines) -> str:
    line = next(iter(lines.broken.values()))
    position = _first_bad(line)
    reading = line[max(0, position - 20) : position + 20].decode(WESTERN, errors="replace").strip()
    return (
        f"Convert these lines (in {WESTERN} this reads {reading!r}): `tuneline data recode {shlex.quote(str(path))}`; or read every line "
        f"in one encoding, which damages the others: --encoding {WESTERN}."
    )


def _shown(line: bytes) -> str:
    """Return the bad bytes of a line with their surroundings."""
    position = _first_bad(line)
    bad = [f"0x{byte:02x}" for byte in dict.fromkeys(line[position:]) if byte >= 0x80][:4]
    around = line[max(0, position - 20) : position + 20].strip().decode("ascii", errors="backslashreplace")
    return f"byte{'s' * (len(bad) > 1)} {', '.join(bad)} in {around!r}"


def _first_bad(line: bytes) -> int:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _beyond_ascii(path: Path, limits: Limits) -> Iterator[tuple[int, bytes]]:
    with open_text(path, "latin-1", limits=limits) as lines:  # which gives each byte as the character of its number
        for line in lines:
            if not line.isascii():
                yield lines.number, line.encode("latin-1")


def known_encoding(name: str) -> str:
    """Return the name of an encoding that the user named.

    Raises:
        DataError: Python does not have it.
    """
    try:
        "".encode(name)
    except LookupError:
        raise DataError(
            f"--encoding {name!r}: Python has no such encoding.", f"Common ones: {listed(['utf-8', WESTERN, 'latin-1'])}."
        ) from None
    return name
