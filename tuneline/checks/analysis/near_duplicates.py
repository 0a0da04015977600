"""Rows that repeat or resemble another row, of their split or of an earlier one: copies, near-duplicates.

Copies have the same key. The similarity of other rows is the fraction of their different words that two rows
have in common. It does not depend on the order of words, so swapped clauses and swapped texts make no
difference. Rare words count more: a word weighs the square root of its inverse document frequency. With equal
weights, rows of one template resemble each other, because its words are in all of them; with the whole
inverse document frequency, names and numbers weigh so much that a copy with other names is missed.

Sampled words find candidates. Every word draws an exponential variate with its weight as the rate, and the
first word of a row is its sample. Two rows have the same sample with a probability equal to their similarity
(Moulton and Jiang, "Maximally Consistent Sampling and the Jaccard Index of Probability Distributions", 2018),
as with MinHash for words of equal weight (Broder, "On the resemblance and containment of documents", 1997).
Rows are candidates if they have the same ``WIDTH`` samples of a band. Bands are made and searched one after
the other, by sorting their keys. Everything is in memory.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tuneline.core.stage.arrays import RaggedArray, RowNumbers
from tuneline.core.stage.texts import EncodedWords, Keys, mixed

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


OriginRows = NDArray[np.int32]
"""Row that each row repeats or resembles, shape ``(rows,)``: 40 MB for ten million, at most two billion."""

NO_ROW = -1
"""Marks a row that repeats or resembles no other."""


def first_copies(keys: Keys) -> OriginRows:
    """Return, for each row, the first row with the same key; ``NO_ROW`` for that first row itself."""
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    originals = first[inverse]
    is_original = originals == np.arange(len(keys))
    return np.where(is_original, NO_ROW, originals).astype(np.int32)


Similarities = NDArray[np.float32]
PAIRS_AT_A_TIME = 1 << 14


@dataclass(frozen=True)
class WordSets:
    """The different words of each row.

    Attributes:
        keys: Hash of each word, ascending, shape ``(words,)``.
        weights: Weight of each word, float32 of shape ``(words,)``.
        ids: Words of each row, row after row, ascending: positions in ``keys``, int32.
        starts: Start of each row in ``ids``, and the end of the last one, int64 of shape ``(rows + 1,)``.
        totals: Weight of all words of each row, float32 of shape ``(rows,)``; 0 for a row without words.
    """

    keys: Keys
    weights: Similarities
    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    totals: Similarities

    @classmethod
    def of(cls, batches: Iterable[EncodedWords]) -> "WordSets":
        """Join batches of rows, each with a vocabulary of its own.

        Words weigh by how many of all rows have them.
        """
        # the different words of each row, numbered as in the vocabulary of its batch
        sets = []
        vocabularies = [np.empty(0, np.uint64)]
        for batch in batches:
            matrix = _sparse(batch.indices, np.append(0, np.cumsum(batch.lengths)), len(batch.keys))
            matrix.sum_duplicates()
            sets.append((matrix.indices, matrix.indptr))
            vocabularies.append(batch.keys)
        keys, positions = np.unique(np.concatenate(vocabularies), return_inverse=True)

        # one vocabulary
        ids = [np.empty(0, np.int32)]
        lengths = [np.empty(0, np.int64)]
        first = 0
        for (indices, starts), vocabulary in zip(sets, vocabularies[1:], strict=True):
            matrix = _sparse(positions[first:][indices].astype(np.int32), starts, len(keys))
            matrix.sort_indices()
            ids.append(matrix.indices)
            lengths.append(np.diff(starts))
            first += len(vocabulary)
        all_ids = np.concatenate(ids)
        all_starts = np.append(0, np.cumsum(np.concatenate(lengths), dtype=np.int64))
        documents = np.bincount(all_ids, minlength=len(keys))
        weights = np.sqrt(np.log(len(all_starts) / documents)).astype(np.float32)
        totals = _sparse(all_ids, all_starts, len(keys)) @ weights
        return cls(keys, weights, all_ids, all_starts, totals)

    def similarity(self, left: RowNumbers, right: RowNumbers) -> Similarities:
        """Return the similarity of pairs of rows, each of which has words; float32 of shape ``(pairs,)``."""
        similarities = np.empty(len(left), np.float32)
        for start in range(0, len(left), PAIRS_AT_A_TIME):
            block = slice(start, start + PAIRS_AT_A_TIME)
            common = self._rows(left[block]).multiply(self._rows(right[block])) @ self.weights
            similarities[block] = common / (self.totals[left[block]] + self.totals[right[block]] - common)
        return similarities

    def _rows(self, rows: RowNumbers) -> "csr_matrix":
        """Return a sparse matrix of chosen rows, with 1 for each of their words."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        ends = np.cumsum(lengths)
        # position of a word among all: start of its row, plus its number in the row
        positions = np.repeat(self.starts[rows] - ends + lengths, lengths) + np.arange(ends[-1])
        return _sparse(self.ids.take(positions), np.append(0, ends), len(self.keys))


def _sparse(ids: NDArray[np.int32], starts: NDArray[np.int64], words: int) -> "csr_matrix":
    """Return a sparse float32 matrix with 1 for each word of each row."""
    from scipy.sparse import csr_matrix

    ones = np.ones(len(ids), np.float32)
    return csr_matrix((ones, ids, starts), shape=(len(starts) - 1, words), copy=True)


WIDTH = 4
"""Samples of a band.

With 3, a million rows have ten times as many candidates; with 5, twice as many samples find as much.
"""
MISSED = 0.08
"""Fraction of the pairs of exactly the required similarity that no band finds.

Of more similar pairs, fewer are missed.
"""
FIRST_SAMPLE = 32
"""Number of the first sample."""
MAX_PER_BAND = 4
"""Rows of a band that a row is compared with: thousands of rows with the same samples are alike."""
ROWS_AT_A_TIME = 1 << 16
_LESS = 1 - 1e-4
"""Tolerance of sums of weights: two rows are not more similar than the lighter is to the heavier one."""


@dataclass(frozen=True)
class NearDuplicateRows:
    """A similar row for each row of a split, with their similarity; both of shape ``(rows,)``.

    It is a row of an earlier split if there is one, else an earlier row of the same split, numbered through
    all splits, or ``NO_ROW``, with the similarity 0.
    """

    origin: OriginRows
    similarity: NDArray[np.float32]


def find_near_duplicates(
    words: Sequence[Iterable[EncodedWords]], keys: Sequence[Keys], similarity: float
) -> list[NearDuplicateRows]:
    """Search every split for rows that resemble an earlier row by at least ``similarity``.

    Rows that repeat an earlier row do not count. ``words`` are the words of the rows of each split, in
    batches, which are read once; earlier splits first. Of rows with the same of the ``keys`` of their texts,
    the first is searched: others are copies.
    """
    if not keys:
        return []

    # the first row of each text, in all splits
    sizes = list(map(len, keys))
    split = np.repeat(np.arange(len(sizes), dtype=np.int8), sizes)
    original = first_copies(np.concatenate(keys))
    search = Search(WordSets.of(chain.from_iterable(words)), split, similarity)
    search.run((original == NO_ROW) & (search.sets.totals > 0))

    # a copy within its split resembles what its original resembles; a copy of a row in an earlier split is a
    # leak only
    copies = np.flatnonzero(original != NO_ROW)
    copies = copies[split[original[copies]] == split[copies]]
    search.origin[copies] = search.origin[original[copies]]
    search.similarity[copies] = search.similarity[original[copies]]

    ends = np.cumsum(sizes)[:-1]
    origins = np.split(search.origin, ends)
    similarities = np.split(search.similarity, ends)
    return list(map(NearDuplicateRows, origins, similarities))


class Search:
    """The search of all rows; ``origin`` and ``similarity`` are as in ``NearDuplicateRows``, for all rows."""

    def __init__(self, sets: WordSets, split: NDArray[np.int8], similarity: float) -> None:
        """Prepare the search.

        Args:
            sets: Words of the rows.
            split: Number of the split of each row; earlier splits come first.
            similarity: Required similarity.
        """
        self.sets = sets
        self.split = split
        self.required = similarity
        self.origin = np.full(len(split), NO_ROW, np.int32)
        self.similarity = np.zeros(len(split), np.float32)

    def run(self, chosen: NDArray[np.bool_]) -> None:
        """Compare the rows that are ``chosen``, a mask of shape ``(rows,)``, with each other.

        Each has words.
        """
        if not chosen.any():
            return
        compared = np.flatnonzero(chosen)
        for first in range(FIRST_SAMPLE, FIRST_SAMPLE + WIDTH * bands(self.required), WIDTH):
            keys = self._band_keys(first)
            for left, right in candidates(keys[compared], self.split[compared]):
                self._compare(compared[left], compared[right])

    def _band_keys(self, first: int) -> Keys:
        """Return the key of each row in the band of the samples from ``first``, of shape ``(rows,)``.

        A sample is the smallest variate of the words of a row, as bits, which have the same order; 0 for a
        row without words.
        """
        keys = np.zeros(len(self.split), np.uint64)
        for number in range(first, first + WIDTH):
            # variates of the words, by the logarithm of numbers in (0, 1] from 53 random bits
            numbers = np.full(len(self.sets.keys), number, np.uint64)
            bits = mixed(self.sets.keys, numbers) >> np.uint64(11)
            uniform = (bits + np.uint64(1)) * 2.0**-53
            variates = (-np.log(uniform) / self.sets.weights).astype(np.float32).view(np.uint32)
            for start in range(0, len(keys), ROWS_AT_A_TIME):
                ends = self.sets.starts[start : start + ROWS_AT_A_TIME + 1]
                words = variates[self.sets.ids[ends[0] : ends[-1]]]
                samples = RaggedArray(words, np.diff(ends)).reduce(np.minimum, words)
                rows = slice(start, start + ROWS_AT_A_TIME)
                keys[rows] = mixed(keys[rows], samples.astype(np.uint64))
        return keys

    def _compare(self, left: RowNumbers, right: RowNumbers) -> None:
        """Compare pairs of rows, and keep the most similar one of each first row.

        A row of an earlier split replaces a row of the same split.
        """
        # pairs whose first row has no similar row yet, or one that may be replaced, and whose weights may do
        origin = self.origin[left]
        in_same_split = self.split[origin] == self.split[left]
        is_earlier_split = self.split[right] < self.split[left]
        is_open = (origin == NO_ROW) | (in_same_split & is_earlier_split)
        lighter = np.minimum(self.sets.totals[left], self.sets.totals[right])
        heavier = np.maximum(self.sets.totals[left], self.sets.totals[right])
        chosen = is_open & (lighter > _LESS * self.required * heavier)
        left = left[chosen]
        right = right[chosen]

        # of several assignments to a row, the last counts: the most similar one
        similarity = self.sets.similarity(left, right)
        order = np.argsort(similarity, kind="stable")
        order = order[similarity[order] >= self.required]
        self.origin[left[order]] = right[order]
        self.similarity[left[order]] = similarity[order]


def bands(similarity: float) -> int:
    """Return the number of bands that misses the fraction ``MISSED`` of pairs of exactly this similarity."""
    return math.ceil(math.log(MISSED) / math.log1p(-(similarity**WIDTH)))


def candidates(keys: Keys, split: NDArray[np.int8]) -> Iterator[tuple[RowNumbers, RowNumbers]]:
    """Yield pairs of rows with the same key, the later row first: of two splits, then of one split.

    Keys and splits have the shape ``(rows,)``; splits ascend. A row is compared with the last
    ``MAX_PER_BAND`` rows of earlier splits, and with as many rows before it in its own.
    """
    # sorted by key, rows of one key stand together, and among them rows of one split
    order = np.argsort(keys, kind="stable")
    positions = np.arange(len(order))
    is_new_key = np.diff(keys[order]) != 0
    key_starts = _starts(is_new_key, positions)
    split_starts = _starts(is_new_key | (np.diff(split[order]) != 0), positions)

    # step back from the start of the split to the start of the key, then from the row to the start of its
    # split
    for begin, end in ((split_starts, key_starts), (positions, split_starts)):
        later = []
        earlier = []
        for step in range(1, MAX_PER_BAND + 1):
            has_row = np.flatnonzero(begin - step >= end)
            later.append(has_row)
            earlier.append(begin[has_row] - step)
        yield order[np.concatenate(later)], order[np.concatenate(earlier)]


def _starts(is_new: NDArray[np.bool_], positions: RowNumbers) -> RowNumbers:
    """Return the position where the run of equal values of each position starts."""
    return np.maximum.accumulate(np.where(np.r_[True, is_new], positions, 0))
