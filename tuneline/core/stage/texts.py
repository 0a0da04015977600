"""Texts of rows: as numbers, a sample of them within limits, and characters that a wrong encoding left.

As numbers, they are hashes of normalized texts, their words, and how often each word occurs, computed with
Arrow kernels.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.stage.tables import LABELS, SplitReader

Keys = NDArray[np.uint64]

CONTROL_CLASS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
"""C0 and C1 control characters except tab and line breaks."""
WORD_SEPARATORS = r" ?[^\p{L}\p{N} ][^\p{L}\p{N}]*"
"""Characters between words, except a single space.

Not matching single spaces makes the replacement several times faster.
"""
BOUNDARY = "\x1e"
"""Pseudo-word before, between and after the texts of a row."""


def normalized(texts: pa.StringArray) -> pa.StringArray:
    """Return texts in form NFKC, in lower case, trimmed, with each run of white space as one space."""
    lowered = pc.utf8_trim_whitespace(pc.utf8_lower(pc.utf8_normalize(texts, form="NFKC")))
    # Matching is ten times faster than replacing, and most texts have nothing to replace.
    has_loose_space = pc.match_substring_regex(lowered, r"\s\s|[^\S ]")
    if not pc.any(has_loose_space).as_py():
        return lowered
    single_spaced = pc.replace_substring_regex(lowered.filter(has_loose_space), r"\s+", " ")
    return pc.replace_with_mask(lowered, has_loose_space, single_spaced)


def text_keys(texts: pa.StringArray) -> Keys:
    """Return a 64-bit hash of each text, the same in every run.

    Two of a million texts collide once in 40 million data sets.
    """
    from pandas.util import hash_array  # takes most of a second to import

    values = np.asarray(texts.to_pylist(), dtype=object)
    return hash_array(values, categorize=False).astype(np.uint64, copy=False)


def combined_keys(columns: list[Keys]) -> Keys:
    """Combine the keys of a row's texts, in their order."""
    combined = columns[0]
    for keys in columns[1:]:
        combined = mixed(combined, keys)
    return combined


def unordered_row_keys(columns: list[Keys]) -> Keys:
    """Combine the keys of a row's texts so that their order does not matter."""
    return combined_keys(list(np.sort(np.stack(columns), axis=0)))


def renumbered(values: NDArray[Any]) -> NDArray[np.int32]:
    """Number equal values, which can be names of people, from 0, in the order of their first rows."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[inverse]


def same_text_keys(columns: Iterable[pa.Array]) -> Keys:
    """Return a hash of each row's texts, shape ``(rows,)``.

    Case, white space and the order of a pair make no difference; null is empty.
    """
    return unordered_row_keys([text_keys(normalized(pc.fill_null(column, ""))) for column in columns])


def mixed(left: Keys, right: Keys) -> Keys:
    """Hash two hashes in this order: the finalizer of splitmix64 over a linear combination of both."""
    value = left * np.uint64(0x9E3779B97F4A7C15) + right
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def words(columns: list[pa.StringArray]) -> pa.ListArray:
    """Split the normalized texts of each row into words of letters and digits.

    ``BOUNDARY`` is before, between and after the texts. A text without a letter or digit counts as one
    word, so that ``!!!`` and ``???`` stay different.
    """
    boundary = pa.scalar(BOUNDARY)
    parts = [boundary]
    for texts in columns:
        spaced = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, WORD_SEPARATORS, " "))
        one_word = pc.replace_substring(texts, " ", "_")
        parts.append(pc.if_else(pc.equal(spaced, ""), one_word, spaced))
        parts.append(boundary)
    return pc.split_pattern(pc.binary_join_element_wise(*parts, " "), " ")


@dataclass(frozen=True)
class EncodedWords:
    """The words of rows as numbers.

    Attributes:
        keys: Hash of each different word.
        indices: Position in ``keys`` of each word, row after row.
        lengths: Number of words of each row, int64 of shape ``(rows,)``.
    """

    keys: Keys
    indices: NDArray[np.int32]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.ListArray) -> Self:
        """Encode rows as ``words`` returns them, without ``BOUNDARY``."""
        encoded = rows.flatten().dictionary_encode()
        is_word = pc.not_equal(encoded.dictionary, BOUNDARY).to_numpy(zero_copy_only=False)
        indices = encoded.indices.to_numpy()
        kept = is_word[indices]

        # Without the boundary, the words after it in the dictionary move up, and rows are shorter.
        positions = (np.cumsum(is_word) - 1).astype(np.int32)
        before = np.r_[0, np.cumsum(kept)]
        lengths = np.diff(before[rows.offsets.to_numpy()])
        different = encoded.dictionary.filter(pa.array(is_word))
        return cls(text_keys(different), positions[indices[kept]], lengths)


class VocabularyCounts:
    """How often each word occurs: ascending hashes of words, and int64 counts, both of shape ``(words,)``."""

    def __init__(self, hashes: Keys, counts: NDArray[np.int64]) -> None:
        self.hashes = hashes
        self.counts = counts

    @classmethod
    def of(cls, batches: Iterable[EncodedWords]) -> Self:
        """Count the words of batches of rows."""
        keys = [np.empty(0, np.uint64)]
        counts = [np.empty(0, np.int64)]
        for batch in batches:
            keys.append(batch.keys)
            counts.append(np.bincount(batch.indices, minlength=len(batch.keys)))
        hashes, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        sums = np.bincount(inverse, weights=np.concatenate(counts), minlength=len(hashes))
        return cls(hashes, sums.astype(np.int64))

    def most_common(self, number: int) -> Keys:
        """Return the hashes of the most frequent words, ascending."""
        return np.sort(self.hashes[np.argsort(-self.counts, kind="stable")[:number]])

    @property
    def total(self) -> int:
        """Number of occurrences of all words."""
        return int(self.counts.sum())

    def occurrences(self, known: Keys) -> int:
        """Return the number of occurrences whose word is in ``known``."""
        return int(self.counts[np.isin(self.hashes, known)].sum())

    def coverage(self, known: Keys) -> float:
        """Return the fraction of all occurrences whose word is in ``known``; 1 when there are no words."""
        if not self.total:
            return 1.0
        return self.occurrences(known) / self.total


MAX_ROWS = 50_000
"""Rows of the train split, drawn with the seed."""
MAX_SCORES = 10_000_000
"""Rows times classes: fewer rows are used if there are many classes."""
MAX_CHARACTERS = 10_000_000
"""Characters of these rows together: fewer rows are used if they are long."""
MAX_TEXT = 2_000
"""Characters read of each text; the model reads no more than ``tokenize.max_length`` tokens either."""
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Characters of scripts without spaces between words: each counts as a word.

The scripts are Thai, Lao, Burmese, Khmer, Japanese and Chinese.
"""


def read_sample(
    split: SplitReader, text_columns: Sequence[str], outputs: int, seed: int, *, max_rows: int | None = None
) -> pa.Table:
    """Read rows of a raw split, drawn with the seed, within the limits above.

    The split is read in batches, so that a large one needs no more memory.

    Returns:
        The text columns, cut off after ``MAX_TEXT`` characters, and the labels, in the order of the split. A
        missing text is empty.
    """
    # rows, without their texts
    total = split.rows
    generator = np.random.default_rng(seed)
    limit = min(total, max_rows or MAX_ROWS, MAX_SCORES // outputs)
    drawn = np.sort(generator.choice(total, limit, replace=False))

    # the start of their texts
    columns = [*text_columns, LABELS]
    parts = []
    start = 0
    for batch in split.batches(columns):
        first, stop = np.searchsorted(drawn, [start, start + len(batch)])
        taken = batch.take(pa.array(drawn[first:stop] - start))
        arrays = []
        for name in text_columns:
            arrays.append(pc.utf8_slice_codeunits(pc.fill_null(taken[name], ""), 0, MAX_TEXT))
        arrays.append(taken[LABELS])
        parts.append(pa.record_batch(arrays, columns))
        start += len(batch)
    rows = pa.Table.from_batches(parts)

    # fewer of them if they are long
    lengths = sum(pc.utf8_length(rows[name]).to_numpy() for name in text_columns)
    order = generator.permutation(len(rows))
    kept = order[np.cumsum(lengths[order]) <= MAX_CHARACTERS]
    return rows.take(np.sort(kept))


LOST = "\ufffd"
"""The replacement character: what was here cannot be restored."""
SUSPECT = "[^\x00-\x7f][^\x00-\x7f]|[\x80-\x9f\ufffd]"
"""A wrong encoding leaves some of these: neighbours out of ASCII, control characters, lost ones."""


def broken_characters(texts: pa.StringArray) -> NDArray[np.int64]:
    """Count the characters of each text that a wrong encoding left; 0 for an intact text.

    No text is null.
    """
    counts = np.zeros(len(texts), np.int64)
    is_suspect = pc.match_substring_regex(texts, SUSPECT).to_numpy(zero_copy_only=False).astype(bool)
    for row in np.flatnonzero(is_suspect).tolist():
        text = texts[row].as_py()
        wrong = Counter(text) - Counter(repaired(text))
        counts[row] = text.count(LOST) + wrong.total()
    return counts


def repaired(text: str) -> str:
    """Return what a text should read if it is mojibake; otherwise the text."""
    if text.isascii():
        return text
    from ftfy import fix_encoding
    from ftfy.badness import is_bad

    if not is_bad(text):  # which takes a fifth of the time of a repair
        return text
    return fix_encoding(text)
