"""Words of texts as numbers, the way the data checks count them for ``reports/checks/profile.json``.

Said again here because flows do not import stages; tests/flows/scoring/test_words.py holds both to the same numbers.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

BOUNDARY = "\x1e"
"""Stands before, between and after the texts of a row."""


def word_counts(columns: Sequence[pa.StringArray]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Hashes of the words of some rows, and how often each occurs.

    Args:
        columns: The texts of the rows, one array for each text column.
    """
    from pandas.util import hash_array  # most of a second, and only drift needs it

    found = pc.value_counts(_words(columns).flatten())
    keep = pc.not_equal(found.field("values"), BOUNDARY)
    words = np.asarray(found.field("values").filter(keep).to_pylist(), dtype=object)
    counts: NDArray[np.int64] = found.field("counts").filter(keep).to_numpy()
    return hash_array(words, categorize=False).astype(np.uint64, copy=False), counts


def _words(columns: Sequence[pa.StringArray]) -> pa.ListArray:
    parts = [pa.scalar(BOUNDARY)]
    for texts in columns:
        lowered = pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC"))
        folded = pc.utf8_trim_whitespace(pc.replace_substring_regex(lowered, r"\s+", " "))
        spaced = pc.utf8_trim_whitespace(pc.replace_substring_regex(folded, r"[^\p{L}\p{N}]+", " "))
        parts += [pc.if_else(pc.equal(spaced, ""), pc.replace_substring(folded, " ", "_"), spaced), pa.scalar(BOUNDARY)]
    return pc.split_pattern(pc.binary_join_element_wise(*parts, " "), " ")
