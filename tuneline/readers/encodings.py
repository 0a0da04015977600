"""The encoding that lines of a text file probably have, where they are not in that of the file."""

import re
from itertools import pairwise

WESTERN = ("cp1252", "mac_roman", "cp850")
"""Encodings of Western Europe and America, the most frequent first."""
OTHERS = ("cp1251", "koi8_r", "cp1253", "shift_jis", "euc_kr", "gb18030")
ANY_LETTERS = re.compile(rb"[\x80-\xff]{4}")
"""Four accented letters in a row are rare in Western languages."""
PUNCTUATION = frozenset("\u00a0\u00a1\u00a3\u00a7\u00ab\u00b0\u00b4\u00bb\u00bf\u2013\u2014\u2018\u2019\u201c\u201d\u201e\u2026\u20ac")
"""Characters beyond ASCII of common texts that are not letters."""


def probable_encoding(text: bytes) -> str:
    """Return the encoding in which bytes beyond ASCII read most like a text: as letters, without upper case after lower case."""
    encodings = OTHERS + WESTERN if ANY_LETTERS.search(text) else WESTERN + OTHERS
    return min(encodings, key=lambda encoding: _odd_characters(text, encoding))


def is_encoded(text: bytes, encoding: str) -> bool:
    """Return whether bytes are valid in an encoding."""
    try:
        text.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


def _odd_characters(text: bytes, encoding: str) -> int:
    if not is_encoded(text, encoding):
        return len(text)
    return sum(character > "\x7f" and not _is_usual(before, character) for before, character in pairwise(" " + text.decode(encoding)))


def _is_usual(before: str, character: str) -> bool:
    return character in PUNCTUATION or (character.isalpha() and not (character.isupper() and before.islower()))
