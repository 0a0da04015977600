"""Words and pairs of neighbouring words of rows, as flat arrays of ids, for checks that count them by label."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.text import BOUNDARY, normalized
from tuneline.tfidf import UNSPACED

Ids = NDArray[np.int64]

SEPARATE = rf"([{UNSPACED}]|[^\p{{L}}\p{{N}}\s{UNSPACED}]+)"
"""Punctuation and symbols are words, and so is each character of a script without spaces: a template may consist of them."""
DIGITS = r"\p{Nd}+"
"""A word with digits also counts as the word with ``0`` for each number: ``INC48213`` and ``INC48214`` have ``inc0`` in common."""

MAX_NAME = 60
"""Characters of a word that is shown."""


@dataclass(frozen=True)
class WordFeatures:
    """Which row has which word or word pair, in at least two rows.

    Attributes:
        rows: Row of each entry, ascending, of shape ``(entries,)``. A row has a feature at most once.
        ids: Feature of each entry, of shape ``(entries,)``.
        repeated: True if more than one text of the row has the feature, of shape ``(entries,)``.
        words: The different words.
        pairs: Positions in ``words`` of the first and the second word of each feature, shape ``(features, 2)``; -1 for no second word.
    """

    rows: Ids
    ids: Ids
    repeated: NDArray[np.bool_]
    words: pa.StringArray
    pairs: Ids

    def __len__(self) -> int:
        """Return the number of features."""
        return len(self.pairs)

    def name(self, feature: int) -> str:
        """Return the feature as a person reads it, for example ``“order 0” at the start``."""
        pair = [self.words[int(position)].as_py() for position in self.pairs[feature] if position >= 0]
        place = " at the start" if pair[0] == BOUNDARY else " at the end" if pair[-1] == BOUNDARY else ""
        text = " ".join(word for word in pair if word != BOUNDARY)
        return f"“{text if len(text) <= MAX_NAME else text[:MAX_NAME] + '…'}”{place}"


def word_features(columns: Sequence[pa.Array], limit: int) -> WordFeatures:
    """Find the features of rows.

    Args:
        columns: Texts, one array for each column.
        limit: Most features, the most frequent ones.
    """
    total, lists = len(columns[0]), [_tokens(column) for column in columns]
    words, dictionary = _encode(pa.concat_arrays([tokens.flatten() for tokens in lists]))
    shapes, dictionary = _encode(pa.concat_arrays([dictionary, pc.replace_substring_regex(dictionary, DIGITS, "0")]))
    shapes = shapes[len(shapes) // 2 :][words]
    text = np.repeat(np.arange(total * len(lists)), np.concatenate([np.diff(tokens.offsets.to_numpy()) for tokens in lists]))
    is_word = np.asarray(pc.not_equal(dictionary, BOUNDARY))[words]
    # A feature is its first word and its second, or 0 for none; two boundaries, of an empty text, are no feature.
    within, has_shape, base = (text[1:] == text[:-1]) & (is_word[1:] | is_word[:-1]), shapes != words, len(dictionary) + 1
    features = np.concatenate([words[is_word] * base, shapes[has_shape] * base, (words[:-1] * base + words[1:] + 1)[within]])
    texts = np.concatenate([text[is_word], text[has_shape], text[1:][within]])
    ids, values = pd.factorize(features)
    # Each feature once per text, then once per row. np.unique without counts uses hashes, which are slower than sorting.
    of_texts, _ = np.unique(texts * len(values) + ids, return_counts=True)
    entries, counts = np.unique(of_texts % max(total * len(values), 1), return_counts=True)
    rows, ids = np.divmod(entries, max(len(values), 1))
    frequency = np.bincount(ids, minlength=len(values))
    kept = np.argsort(-frequency, kind="stable")[:limit]
    kept = kept[frequency[kept] > 1]
    number = np.full(len(values), -1)
    number[kept] = np.arange(len(kept))
    inside = number[ids] >= 0
    pairs = np.stack([values[kept] // base, values[kept] % base - 1], axis=1)
    return WordFeatures(rows[inside], number[ids[inside]], counts[inside] > 1, dictionary, pairs)


def _encode(words: pa.StringArray) -> tuple[Ids, pa.StringArray]:
    encoded = words.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary


def _tokens(texts: pa.StringArray) -> pa.ListArray:
    """Split texts into words, with ``BOUNDARY`` before and after each text."""
    spaced = pc.utf8_trim_whitespace(pc.replace_substring_regex(normalized(texts), SEPARATE, r" \1 "))
    boundary = pa.scalar(BOUNDARY)
    return pc.split_pattern_regex(pc.binary_join_element_wise(boundary, spaced, boundary, " "), r"\s+")
