"""Mojibake: texts that were decoded with another encoding than they were written in, and what they should read."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

LOST = "\ufffd"
"""The replacement character: what was here cannot be restored."""
SAMPLE = 1_000
"""If each of the first suspects is mojibake, all the others are: the whole column was decoded wrongly."""
AROUND = 40
"""Characters of a text that are shown from the word in question on."""


def _sequences(codecs: Sequence[str]) -> str:
    """Return a regular expression of the UTF-8 sequences of two, three and four bytes, as these codecs decode them."""

    def characters(first: int, last: int) -> str:
        decoded = (bytes([byte]).decode(codec, "ignore") for codec in codecs for byte in range(first, last + 1))
        return f"[{''.join(sorted(set(decoded)))}]"

    more = characters(0x80, 0xBF)
    return f"{characters(0xC2, 0xDF)}{more}|{characters(0xE0, 0xEF)}{more}{{2}}|{characters(0xF0, 0xF4)}{more}{{3}}"


SUSPECT = "|".join(
    # cp1252 leaves five bytes undefined, which decoders pass on as Latin-1 does. All sequences of Mac Roman would be too many: a quote
    # before é is one.
    [
        LOST,
        "[\x80-\x9f]",
        r"(?:^|[\sa-z])[ÃÂ] ",
        "[√≈][^ -~]|\u201aÄ",
        *map(_sequences, (("cp1252", "latin-1"), ("cp1250",), ("cp1251",), ("cp437",))),
    ]
)
"""What a wrong encoding leaves: the replacement character, C1 control characters, and UTF-8 sequences. Valid texts have some of it, too,
such as ``„MENÜ“``, so ftfy decides."""
_SUSPECT = re.compile(SUSPECT)
_CERTAIN = re.compile("Â[¡-ª¬-º¼-¿]")
"""A symbol after the first byte of its UTF-8 sequence; not a quote, which can follow a word that ends with Â."""
_LATIN = re.compile("[¡-\u017f\u01a0\u01a1\u01af\u01b0\u0218-\u021b\u1e00-\u1eff\u2010-\u203a\u20ac\u2116\u2122\ufffd]")
_OTHERS = re.compile("[\u0370-\u06ff\u0900-\u1dff\u2190-\ud7ff\U0001f000-\U0001faff]")
"""Letters of other scripts, symbols and emoji."""


def broken_characters(texts: pa.StringArray) -> NDArray[np.int64]:
    """Count the characters of each text that a wrong encoding left.

    Args:
        texts: Texts without nulls.

    Returns:
        int64 of shape ``(texts,)``; 0 for a text that reads as it was written.
    """
    counts = np.zeros(len(texts), np.int64)
    rows = np.flatnonzero(_mask(pc.invert(pc.string_is_ascii(texts))))
    rows = rows[_mask(pc.match_substring_regex(texts.take(pa.array(rows)), SUSPECT))]
    suspects = texts.take(pa.array(rows))
    broken = _mask(pc.match_substring(suspects, LOST))
    undecided = np.flatnonzero(~broken)
    broken[undecided] = _decided(suspects.take(pa.array(undecided)))
    counts[rows[broken]] = pc.count_substring_regex(suspects.filter(pa.array(broken)), SUSPECT).to_numpy(zero_copy_only=False)
    return counts


def _decided(suspects: pa.StringArray) -> NDArray[np.bool_]:
    result = np.ones(len(suspects), bool)
    result[:SAMPLE] = [repaired(text) != text for text in suspects[:SAMPLE].to_pylist()]
    if not result[:SAMPLE].all():
        result[SAMPLE:] = [repaired(text) != text for text in suspects[SAMPLE:].to_pylist()]
    return result


def repaired(text: str) -> str:
    """Return what a text should read if it is mojibake; otherwise the text."""
    if text.isascii() or not _SUSPECT.search(text):
        return text
    from ftfy import fix_encoding
    from ftfy.badness import is_bad

    right = fix_encoding(text) if is_bad(text) else text  # is_bad takes a fifth of the time
    return right if _CERTAIN.search(text) or _is_plausible(Counter(right) - Counter(text)) else text


def _is_plausible(new: Counter[str]) -> bool:
    """Return whether the characters that a repair writes are usual ones. A single Greek letter, say, is an accident: ``ÎŸ`` in capitals."""
    characters = "".join(new)
    return bool(_LATIN.search(characters)) or len(_OTHERS.findall(characters)) > 1 or max(characters, default="") > "\uffff"


def correction(text: str) -> str | None:
    """Say what a text should read, from its first wrong word on; ``None`` if it has no broken characters."""
    right = repaired(text)
    if right == text:
        place = text.find(LOST)
        if place < 0:
            return None
        return f"{_from_word(text, place)!r}: the character at \\ufffd is lost; export the row again"
    place = next(index for index, pair in enumerate(zip_longest(text, right)) if pair[0] != pair[1])
    return f"{_from_word(text, place)!r} should read {_from_word(right, place)!r}"


def _from_word(text: str, place: int) -> str:
    start = max(text.rfind(" ", 0, place) + 1, place - AROUND)
    return text[start : start + AROUND]


def _mask(values: pa.BooleanArray) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = values.to_numpy(zero_copy_only=False).astype(bool)
    return mask
