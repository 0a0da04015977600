"""Texts as numbers, with Arrow kernels: two texts that a reader would call the same get the same key."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
"""C0 and C1 control characters, tab and line breaks left out."""
BROKEN = "\ufffd|[ÃÂ][\x80-\xbf]|â€"
"""The replacement character, and what UTF-8 looks like after it was read as Latin-1 or Windows-1252."""
MARKS = r" ?[^\p{L}\p{N} ][^\p{L}\p{N}]*"
"""What stands between words beside a single space. Leaving single spaces out of it saves most of the work."""
BOUNDARY = "\x1e"
"""Stands before, between and after the texts of a row when they are split into words."""


def folded(texts: pa.StringArray) -> pa.StringArray:
    """Texts in one form of Unicode, lower case, each run of white space one space and none at the ends."""
    lowered = pc.utf8_trim_whitespace(pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC")))
    # Looking for what is to be replaced is ten times faster than replacing, and most texts have nothing of it.
    loose = pc.match_substring_regex(lowered, r"\s\s|[^\S ]")
    if not pc.any(loose).as_py():
        return lowered
    return pc.replace_with_mask(lowered, loose, pc.replace_substring_regex(lowered.filter(loose), r"\s+", " "))


def text_keys(texts: pa.StringArray) -> Keys:
    """A 64-bit hash of each text, the same in every run. Among a million texts two collide once in 40 million data sets."""
    values = np.asarray(texts.to_pylist(), dtype=object)
    return pd.util.hash_array(values, categorize=False).astype(np.uint64, copy=False)


def row_keys(columns: list[Keys]) -> Keys:
    """One key for the texts of a row, in their order."""
    combined = columns[0]
    for keys in columns[1:]:
        combined = mixed(combined, keys)
    return combined


def unordered_row_keys(columns: list[Keys]) -> Keys:
    """One key for the texts of a row, whichever comes first."""
    return row_keys(list(np.sort(np.stack(columns), axis=0)))


def mixed(left: Keys, right: Keys) -> Keys:
    """A hash of two hashes, in this order (the finaliser of splitmix64 over a linear mix of both)."""
    value = left * np.uint64(0x9E3779B97F4A7C15) + right
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def words(columns: list[pa.StringArray]) -> pa.ListArray:
    """The words of each row: of its folded texts, letters and digits only, with a boundary before, between and after texts.

    A text without a letter or digit is one word as it stands, so that ``!!!`` and ``???`` stay different.
    """
    cleaned = []
    for texts in columns:
        spaced = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, MARKS, " "))
        cleaned.append(pc.if_else(pc.equal(spaced, ""), pc.replace_substring(texts, " ", "_"), spaced))
    edge = pa.scalar(BOUNDARY)
    parts = [edge]
    for texts in cleaned:
        parts += [texts, edge]
    return pc.split_pattern(pc.binary_join_element_wise(*parts, " "), " ")
