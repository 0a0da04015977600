"""Near-duplicates of all rows, within a split and in earlier splits: sampled words find candidates, their similarity decides.

Every word draws an exponential variate with its weight as the rate, and the first word of a row is its sample. Two rows have the same
sample with a probability equal to their similarity (``tuneline/similarity.py``; Moulton and Jiang, "Maximally Consistent Sampling and the
Jaccard Index of Probability Distributions", 2018), as with MinHash for words of equal weight (Broder 1997). Rows are candidates if
they have the same ``WIDTH`` samples of a band. Bands are made and searched one after the other, by sorting: memory is that of the rows'
words and of one band.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.validate.rows import RaggedArray, Rows
from tuneline.similarity import WordSets
from tuneline.text import EncodedWords, Keys, mixed

NONE = -1
"""Marks a row that resembles no other."""
WIDTH = 4
"""Samples of a band. With 3, a million rows have ten times as many candidates; with 5, twice as many samples find as much."""
MISSED = 0.08
"""Fraction of the pairs of exactly the required similarity that no band finds; of more similar pairs, fewer are missed."""
MAX_PER_BAND = 4
"""Rows of a band that a row is compared with: thousands of rows with the same samples are alike."""
PREVIEW = 32
"""Samples of which a byte is kept for each row, to drop candidates without looking at their words."""
PAIRS_AT_A_TIME = 1 << 17
ROWS_AT_A_TIME = 1 << 16
THREADS = 2


@dataclass(frozen=True)
class NearDuplicates:
    """Near-duplicates of the rows of one split.

    Attributes:
        origin: A similar row, numbered through all splits: of an earlier split if there is one, else an earlier row of the same split;
            ``NONE`` if there is neither. int64 of shape ``(rows,)``.
        similarity: Similarity to that row, 0 for none; float32 of shape ``(rows,)``.
    """

    origin: Rows
    similarity: NDArray[np.float32]


def find_near_duplicates(words: Sequence[Sequence[EncodedWords]], keys: Sequence[Keys], similarity: float) -> list[NearDuplicates]:
    """Search every split for rows that resemble an earlier row, but do not repeat it.

    Args:
        words: Words of the rows of each split, in batches; earlier splits first.
        keys: Keys of the rows' texts in each split. Of rows with the same key, the first is searched: others are copies.
        similarity: Similarity from which two rows are near-duplicates.
    """
    if not keys:
        return []
    sizes = [len(split) for split in keys]
    split = np.repeat(np.arange(len(sizes), dtype=np.int8), sizes)
    search = Search(WordSets.of([batch for batches in words for batch in batches]), split, similarity)
    _, first, inverse = np.unique(np.concatenate(keys), return_index=True, return_inverse=True)
    original = first[inverse]
    search.run(np.flatnonzero((original == np.arange(len(split))) & (search.sets.totals > 0)))
    # A copy within its split resembles what its original resembles. A copy of a row in an earlier split is a leak only.
    copied = split[original] == split
    origin = np.where(copied, search.origin[original], NONE)
    found = np.where(copied, search.similarity[original], np.float32(0))
    ends = np.cumsum(sizes)[:-1]
    return [NearDuplicates(*parts) for parts in zip(np.split(origin, ends), np.split(found, ends), strict=True)]


class Search:
    """The search of all rows.

    Args:
        sets: Words of all rows, earlier splits first.
        split: Number of the split of each row, int8 of shape ``(rows,)``.
        similarity: Similarity from which two rows are near-duplicates.

    Attributes:
        origin: As in ``NearDuplicates``, for all rows.
        similarity: As in ``NearDuplicates``, for all rows.
    """

    def __init__(self, sets: WordSets, split: NDArray[np.int8], similarity: float) -> None:
        self.sets = sets
        self.split = split
        self.required = similarity
        self.origin = np.full(len(split), NONE)
        self.similarity = np.zeros(len(split), np.float32)
        self._blocks = list(_blocks(sets.matrix.indices, sets.matrix.indptr))
        self._threads = ThreadPoolExecutor(THREADS)  # NumPy releases the lock of the interpreter

    def run(self, rows: Rows) -> None:
        """Compare rows with each other.

        Args:
            rows: Numbers of the rows, ascending. Each has words.
        """
        if not len(rows):
            return
        preview = np.concatenate([self._samples(first).astype(np.uint8) for first in range(0, PREVIEW, WIDTH)]).T.copy()
        for first in range(PREVIEW, PREVIEW + WIDTH * bands(self.required), WIDTH):
            keys = np.zeros(len(self.split), np.uint64)
            for samples in self._samples(first):
                keys = mixed(keys, samples.astype(np.uint64))
            for left, right in candidates(keys[rows], self.split[rows]):
                self._compare(rows[left], rows[right], preview)

    def _samples(self, first: int) -> NDArray[np.uint32]:
        """Return ``WIDTH`` samples of each row, numbered from ``first``, shape ``(WIDTH, rows)``.

        A sample is the variate of the first word, as bits, which have the same order; 0 for a row without words.
        """
        numbers = np.arange(first, first + WIDTH, dtype=np.uint64)
        uniform = ((mixed(self.sets.keys, numbers[:, None]) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
        variates = (-np.log(uniform) / self.sets.weights).astype(np.float32).view(np.uint32)

        def smallest(block: RaggedArray) -> NDArray[np.uint32]:
            places = block.values.astype(np.intp)
            return np.stack([block.reduce(np.minimum, row[places], 0) for row in variates]).astype(np.uint32)

        return np.concatenate(list(self._threads.map(smallest, self._blocks)), axis=1)

    def _compare(self, left: Rows, right: Rows, preview: NDArray[np.uint8]) -> None:
        """Compare pairs of rows, and keep the most similar one of each first row. A row of an earlier split replaces one of the same."""
        known = self.origin[left]
        is_open = (known == NONE) | ((self.split[known] == self.split[left]) & (self.split[right] < self.split[left]))
        left, right = left[is_open], right[is_open]
        least, similarities, kept = _least_common(self.required), [np.empty(0, np.float32)], [np.empty(0, np.int64)]
        for start in range(0, len(left), PAIRS_AT_A_TIME):
            some = slice(start, start + PAIRS_AT_A_TIME)
            common = np.count_nonzero(preview[left[some]] == preview[right[some]], axis=1)
            close = start + np.flatnonzero(common >= least)
            similarity = self.sets.similarity(left[close], right[close])
            similarities.append(similarity[similarity >= self.required])
            kept.append(close[similarity >= self.required])
        similarity, pairs = np.concatenate(similarities), np.concatenate(kept)
        order = np.argsort(similarity, kind="stable")  # of several assignments to a row, the last counts
        self.origin[left[pairs[order]]], self.similarity[left[pairs[order]]] = right[pairs[order]], similarity[order]


def bands(similarity: float) -> int:
    """Return the number of bands that misses the fraction ``MISSED`` of pairs of exactly this similarity."""
    return math.ceil(math.log(MISSED) / math.log1p(-(similarity**WIDTH)))


def candidates(keys: Keys, split: NDArray[np.int8]) -> Iterator[tuple[Rows, Rows]]:
    """Yield pairs of rows with the same key, the later row first: those of two splits, then those of one split.

    Args:
        keys: Key of each row, shape ``(rows,)``.
        split: Split of each row, ascending. A row is compared with the last ``MAX_PER_BAND`` rows of earlier splits, and with as many
            rows before it in its own.
    """
    order = np.argsort(keys, kind="stable")
    place = np.arange(len(order))
    new_key = np.diff(keys[order]) != 0
    start = _starts(new_key, place)
    start_of_split = _starts(new_key | (np.diff(split[order]) != 0), place)
    for before, first in ((start_of_split, start), (place, start_of_split)):
        steps = [(np.flatnonzero(before - step >= first), step) for step in range(1, MAX_PER_BAND + 1)]
        yield (
            order[np.concatenate([places for places, _ in steps])],
            order[np.concatenate([before[places] - step for places, step in steps])],
        )


def _starts(is_new: NDArray[np.bool_], place: Rows) -> Rows:
    """Return the place where the run of equal values of each place starts."""
    return np.maximum.accumulate(np.where(np.r_[True, is_new], place, 0))


def _least_common(similarity: float) -> int:
    """Return the least number of equal bytes in a preview: three standard deviations below the mean of this similarity."""
    return int(PREVIEW * similarity - 3 * math.sqrt(PREVIEW * similarity * (1 - similarity)))


def _blocks(indices: NDArray[np.int32], starts: NDArray[np.int32]) -> Iterator[RaggedArray]:
    """Yield the words of rows, ``ROWS_AT_A_TIME`` rows each."""
    for first in range(0, len(starts) - 1, ROWS_AT_A_TIME):
        ends = starts[first : first + ROWS_AT_A_TIME + 1]
        yield RaggedArray(indices[ends[0] : ends[-1]], np.diff(ends).astype(np.int64))
