"""Texts as numbers, computed with Arrow kernels: hashes of normalized texts, their words, and how often each word occurs."""

from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Keys = NDArray[np.uint64]

CONTROL_CHARACTERS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
"""C0 and C1 control characters except tab and line breaks."""
WORD_SEPARATORS = r" ?[^\p{L}\p{N} ][^\p{L}\p{N}]*"
"""Characters between words, except a single space. Not matching single spaces makes the replacement several times faster."""
BOUNDARY = "\x1e"
"""Pseudo-word before, between and after the texts of a row."""
MAX_WORDS = 1 << 21
"""Different words that are counted; beyond this the rarest are dropped."""


def normalized(texts: pa.StringArray) -> pa.StringArray:
    """Return texts in Unicode form NFKC, in lower case, trimmed, with each run of white space as one space."""
    lowered = pc.utf8_trim_whitespace(pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC")))
    # Matching is ten times faster than replacing, and most texts have nothing to replace.
    has_loose_space = pc.match_substring_regex(lowered, r"\s\s|[^\S ]")
    if not pc.any(has_loose_space).as_py():
        return lowered
    return pc.replace_with_mask(lowered, has_loose_space, pc.replace_substring_regex(lowered.filter(has_loose_space), r"\s+", " "))


def text_keys(texts: pa.StringArray) -> Keys:
    """Return a 64-bit hash of each text, the same in every run. Two of a million texts collide once in 40 million data sets."""
    from pandas.util import hash_array  # takes most of a second to import

    values = np.asarray(texts.to_pylist(), dtype=object)
    return hash_array(values, categorize=False).astype(np.uint64, copy=False)


def row_keys(columns: list[Keys]) -> Keys:
    """Combine the keys of a row's texts, in their order."""
    combined = columns[0]
    for keys in columns[1:]:
        combined = mixed(combined, keys)
    return combined


def unordered_row_keys(columns: list[Keys]) -> Keys:
    """Combine the keys of a row's texts so that their order does not matter."""
    return row_keys(list(np.sort(np.stack(columns), axis=0)))


def mixed(left: Keys, right: Keys) -> Keys:
    """Hash two hashes in this order: the finalizer of splitmix64 over a linear combination of both."""
    value = left * np.uint64(0x9E3779B97F4A7C15) + right
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def words(columns: list[pa.StringArray]) -> pa.ListArray:
    """Split the normalized texts of each row into words of letters and digits, with ``BOUNDARY`` before, between and after texts.

    A text without a letter or digit counts as one word, so that ``!!!`` and ``???`` stay different.
    """
    cleaned = []
    for texts in columns:
        spaced = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, WORD_SEPARATORS, " "))
        cleaned.append(pc.if_else(pc.equal(spaced, ""), pc.replace_substring(texts, " ", "_"), spaced))
    boundary = pa.scalar(BOUNDARY)
    parts = [boundary]
    for texts in cleaned:
        parts += [texts, boundary]
    return pc.split_pattern(pc.binary_join_element_wise(*parts, " "), " ")


class VocabularyCounts:
    """How often each word occurs.

    Attributes:
        hashes: Hashes of the words, ascending, of shape ``(words,)``.
        counts: Occurrences of each word, int64 of shape ``(words,)``.
        words: The words, of shape ``(words,)``.
    """

    def __init__(self, hashes: Keys, counts: NDArray[np.int64], words: pa.StringArray) -> None:
        self.hashes = hashes
        self.counts = counts
        self.words = words

    @classmethod
    def empty(cls) -> Self:
        """Return counts of no words."""
        return cls(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64), pa.array([], pa.string()))

    @classmethod
    def of(cls, rows: pa.ListArray) -> Self:
        """Count the words of rows as ``words`` returns them."""
        counted = pc.value_counts(rows.flatten())
        is_word = pc.not_equal(counted.field("values"), BOUNDARY)
        found = counted.field("values").filter(is_word)
        return cls._summed(text_keys(found), counted.field("counts").filter(is_word).to_numpy(), found)

    def plus(self, other: "VocabularyCounts") -> "VocabularyCounts":
        """Return the sum of both counts."""
        summed = self._summed(
            np.concatenate([self.hashes, other.hashes]),
            np.concatenate([self.counts, other.counts]),
            pa.concat_arrays([self.words, other.words]),
        )
        if len(summed.hashes) <= MAX_WORDS:
            return summed
        kept = np.sort(np.argsort(-summed.counts, kind="stable")[: MAX_WORDS // 2])
        return VocabularyCounts(summed.hashes[kept], summed.counts[kept], summed.words.take(pa.array(kept)))

    @classmethod
    def _summed(cls, hashes: Keys, counts: NDArray[np.int64], words: pa.StringArray) -> Self:
        unique, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
        sums = np.bincount(inverse, weights=counts, minlength=len(unique)).astype(np.int64)
        return cls(unique, sums, words.take(pa.array(first)))

    def most_common(self, number: int) -> Keys:
        """Return the hashes of the most frequent words, ascending."""
        return np.sort(self.hashes[np.argsort(-self.counts, kind="stable")[:number]])

    def counts_by_word(self, number: int) -> dict[str, int]:
        """Return the occurrences of the most frequent words, the most frequent first."""
        order = np.argsort(-self.counts, kind="stable")[:number]
        return dict(zip(self.words.take(pa.array(order)).to_pylist(), self.counts[order].tolist(), strict=True))

    @property
    def total(self) -> int:
        """Number of occurrences of all words."""
        return int(self.counts.sum())

    def occurrences(self, known: Keys) -> int:
        """Return the number of occurrences whose word is in ``known``."""
        return int(self.counts[np.isin(self.hashes, known)].sum())

    def coverage(self, known: Keys) -> float:
        """Return the fraction of all occurrences whose word is in ``known``; 1 when there are no words."""
        return self.occurrences(known) / self.total if self.total else 1.0
