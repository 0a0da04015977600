"""The encoding of a text file, by its bytes."""

import codecs

from tuneline.readers.files import DataFile
from tuneline.readers.text import (
    CHUNK,
    file_name,
    is_encoded,
    open_bytes,
    read_errors_explained,
    refuse_binary,
)
from tuneline.runtime.errors import DataError

WESTERN_ENCODING = "cp1252"
"""The encoding in which Excel saves CSV files in Western Europe and America."""
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
MOST_ACCENTS = 0.5
"""Largest share of letters beyond ASCII in a Western European text; 5 % are usual."""
MOST_ACCIDENTS = 0.05
"""Share of lines of a single-byte encoding that are valid UTF-8 by accident."""
ENCODING_SAMPLE = 1 << 16
"""Bytes of lines beyond ASCII from which the language is recognised."""


def better_encoding(text: bytes) -> str | None:
    """Return the encoding in which a text reads better than in cp1252, or ``None`` if there is none."""
    from charset_normalizer import from_bytes

    matches = from_bytes(text, cp_isolation=[WESTERN_ENCODING, *CENTRAL])
    best = matches.best()
    if best is None:
        return None
    if best.language in FOREIGN:
        return FOREIGN[best.language]

    western = [match for match in matches if WESTERN_ENCODING in match.could_be_from_charset]
    if western and western[0].chaos - best.chaos <= MESSIER:
        return None
    return best.encoding


def detect_encoding(path: DataFile) -> str:
    """Return the encoding of a text file, which is read to its end.

    It is UTF-8 or UTF-16 where the bytes allow it; cp1252 where no line beyond ASCII is UTF-8, but for a few
    by accident, and the letters fit. A file that is UTF-8 except for some lines is UTF-8, and these lines are
    bad rows: any other encoding for all of it would damage the others.

    Raises:
        DataError: The file cannot be read, or the user has to name the encoding.
    """
    valid = 0
    broken = 0
    sample = b""
    is_western = True
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_utf8 = True
    with open_bytes(path) as (content, _), read_errors_explained(file_name(path)):
        if content.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        refuse_binary(content.peek(CHUNK), file_name(path), "utf-8")
        while chunk := content.read(CHUNK):
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                is_utf8 = False
                break
    if is_utf8:
        return "utf-8"

    with open_bytes(path) as (content, _), read_errors_explained(file_name(path)):
        while line := content.readline(CHUNK):
            if line.isascii():
                continue
            if is_encoded(line, "utf-8"):
                valid += 1
                continue
            broken += 1
            is_western = is_western and is_encoded(line, WESTERN_ENCODING)
            if len(sample) < ENCODING_SAMPLE:
                sample += line
    if valid > MOST_ACCIDENTS * broken:
        return "utf-8"

    accents = sum(byte >= 0x80 for byte in sample)
    letters = sum(chr(byte).isalpha() for byte in sample if byte < 0x80)
    better = better_encoding(sample)
    if is_western and accents <= MOST_ACCENTS * (accents + letters) and better is None:
        return WESTERN_ENCODING
    raise DataError(
        f"{path} is not utf-8, and it is not clear in which encoding it is.",
        f"Name it: --encoding {better or 'NAME'}, or --encoding {WESTERN_ENCODING} (data.files.encoding).",
    )
