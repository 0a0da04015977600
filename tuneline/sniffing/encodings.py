"""The encoding of a text file, by its bytes."""

import codecs
from dataclasses import dataclass
from typing import IO

from tuneline.readers.files import DataFile
from tuneline.readers.rows import DEFAULT_LIMITS, Limits, OptionNames
from tuneline.readers.text import CHUNK, LOST_BYTES, is_encoded, open_bytes, open_text, read_errors_explained
from tuneline.runtime.errors import DataError

CENTRAL = ("cp1250", "cp1251", "cp1253", "cp1254", "cp1257")
"""Encodings of other European languages, which share most of their bytes with cp1252."""
FOREIGN = {
    "Polish": "cp1250",
    "Czech": "cp1250",
    "Slovak": "cp1250",
    "Hungarian": "cp1250",
    "Romanian": "cp1250",
    "Croatian": "cp1250",
    "Slovene": "cp1250",
    "Russian": "cp1251",
    "Ukrainian": "cp1251",
    "Bulgarian": "cp1251",
    "Serbian": "cp1251",
    "Greek": "cp1253",
    "Turkish": "cp1254",
    "Lithuanian": "cp1257",
}
"""Languages with letters that cp1252 does not have, and their encoding."""
MESSIER = 0.04
"""How much messier a text is in cp1252 than in the best encoding, as charset-normalizer measures it."""


def better_encoding(text: bytes) -> str | None:
    """Return the encoding in which a text reads better than in cp1252, or ``None`` if there is none."""
    from charset_normalizer import from_bytes

    matches = from_bytes(text, cp_isolation=["cp1252", *CENTRAL])
    best = matches.best()
    if best is None:
        return None
    if best.language in FOREIGN:
        return FOREIGN[best.language]

    western = [match for match in matches if "cp1252" in match.could_be_from_charset]
    if western and western[0].chaos - best.chaos <= MESSIER:
        return None
    return best.encoding


WESTERN_ENCODING = "cp1252"
"""The encoding in which Excel saves CSV files in Western Europe and America."""
MOST_ACCENTS = 0.5
"""Largest share of letters beyond ASCII in a Western European text; 5 % are usual."""
ENCODING_SAMPLE = 1 << 16
"""Bytes of lines beyond ASCII from which the language is recognised."""
SHOWN_WORDS = 1_000
"""Words among which the one with the most letters beyond ASCII is shown."""
MOST_ACCIDENTS = 0.05
"""Share of lines of a single-byte encoding that are valid UTF-8 by accident."""


@dataclass
class BrokenLines:
    """Lines with characters beyond ASCII.

    Attributes:
        valid: Number of lines that are UTF-8.
        count: Number of lines that are not UTF-8: broken lines.
        high, letters: Bytes beyond ASCII, and ASCII letters, in broken lines.
        foreign: A broken line is not cp1252 either.
        lost: Number of broken lines with a character that an earlier program lost.
        sample: The first broken lines.
    """

    valid: int = 0
    count: int = 0
    high: int = 0
    letters: int = 0
    foreign: bool = False
    lost: int = 0
    sample: bytes = b""

    def add(self, line: bytes) -> None:
        """Count one line that is not ASCII.

        Characters that an earlier program lost are no evidence for the encoding of the others.
        """
        if is_encoded(line, "utf-8"):
            self.valid += 1
            return
        self.lost += LOST_BYTES in line
        line = line.replace(LOST_BYTES, b"")
        self.count += 1
        if len(self.sample) < ENCODING_SAMPLE:
            self.sample += line
        self.high += sum(byte >= 0x80 for byte in line)
        self.letters += sum(byte < 0x80 and chr(byte).isalpha() for byte in line)
        self.foreign = self.foreign or not is_encoded(line, WESTERN_ENCODING)


def detect_encoding(
    path: DataFile, options: OptionNames, limits: Limits = DEFAULT_LIMITS, *, strict: bool = True
) -> str:
    """Return the encoding of a text file, which is read to its end.

    It is UTF-8 or UTF-16 where the bytes allow it; cp1252 where no line beyond ASCII is UTF-8, but for a few
    by accident, and the letters fit.

    A file that is UTF-8 except for some lines is not guessed: any encoding for all of it would damage one
    part or the other. ``strict`` refuses it; otherwise it is UTF-8, and these lines are problems of their
    rows.

    Raises:
        DataError: The file cannot be read, or the user has to correct lines or name the encoding.
    """
    with read_errors_explained(str(path)), open_bytes(path, options, limits, strict=strict) as (content, _):
        start = content.read(4)
        is_utf8 = is_text_in_utf8(content, start)
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"

    if is_utf8:
        return "utf-8"

    # Latin-1 gives each byte as the character of its number.
    lines = BrokenLines()
    with open_text(path, "latin-1", options, limits, strict=strict) as text:
        for line in text:
            if not line.isascii():
                lines.add(line.encode("latin-1"))

    is_mixed = lines.valid > MOST_ACCIDENTS * lines.count
    is_western = lines.high <= MOST_ACCENTS * (lines.high + lines.letters)
    if not is_mixed and is_western and not lines.foreign:
        _refuse_better_encoding(path, lines.sample, options)
        if strict and lines.lost:
            _refuse_lost_characters(path, lines.lost, options)
        return WESTERN_ENCODING
    if not strict:
        return "utf-8"

    # The message is about the first broken line.
    with open_text(path, "utf-8", options, limits) as text:
        first = next(problem for _ in text if (problem := text.take_problem()))
    hint = first.hint
    if is_mixed:
        hint += (
            f" To read every line in one encoding, which damages the others: {options.encoding}"
            f" {WESTERN_ENCODING}."
        )
    raise DataError(
        f"{path}, line {first.line:,}: {first.message}. Of the lines beyond ASCII, {lines.count:,} are not"
        f" utf-8, and {lines.valid:,} are.",
        hint,
    )


def _refuse_lost_characters(path: DataFile, lines: int, options: OptionNames) -> None:
    """Refuse a file in cp1252 with lost characters in UTF-8: three wrong characters would stand for each."""
    raise DataError(
        f"{path} is in {WESTERN_ENCODING}, and {lines:,} of its lines have characters that an earlier program"
        " lost: \ufffd, which would read \xef\xbf\xbd.",
        f"Export it again in utf-8. To read it as it is: {options.encoding} {WESTERN_ENCODING}.",
    )


def is_text_in_utf8(content: IO[bytes], start: bytes) -> bool:
    """Return True if bytes, after those of ``start``, are UTF-8 to their end."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(start)
        while chunk := content.read(CHUNK):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _refuse_better_encoding(path: DataFile, sample: bytes, options: OptionNames) -> None:
    """Refuse a file that reads better in another encoding than in cp1252: the user has to name it."""
    better = better_encoding(sample)
    if better is None:
        return
    words = [word for word in sample.split() if not word.isascii() and is_encoded(word, better)]
    word = max(words[:SHOWN_WORDS], key=lambda word: sum(byte >= 0x80 for byte in word), default=b"")
    shown = ""
    if word:
        western = word.decode(WESTERN_ENCODING, errors="replace")
        shown = f": {word.decode(better)!r}, in {WESTERN_ENCODING} {western!r}"
    raise DataError(
        f"{path} is not UTF-8, and it reads better in {better} than in {WESTERN_ENCODING}{shown}.",
        f"Name its encoding: {options.encoding} {better}, or {options.encoding} {WESTERN_ENCODING}.",
    )
