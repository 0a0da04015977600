"""Similarity of rows: the fraction of their different words that two rows have in common, where rare words count more.

It does not depend on the order of words, so swapped clauses and swapped texts make no difference. A word weighs the square root of its
inverse document frequency. With equal weights, rows of one template resemble each other, because its words are in all of them; with
the whole inverse document frequency, names and numbers weigh so much that a copy with other names is missed. benchmarks/near_duplicates.py
measures all three.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tuneline.files.arrays import GrowingArray, MappedArray
from tuneline.partitions import partitions
from tuneline.text import EncodedWords, Keys

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Rows = NDArray[np.int64]
Similarities = NDArray[np.float32]

PAIRS_AT_A_TIME = 1 << 14
ROWS_AT_A_TIME = 1 << 12
"""Rows that are read from anywhere before memory is released: the system reads up to 64 kB around each, so 256 MB."""


class WordFile:
    """The different words of rows, in files: appended in batches, each with a vocabulary of its own, then joined.

    Memory holds a few bytes per row, and some per different word.
    """

    def __init__(self) -> None:
        self._ids, self._lengths = GrowingArray(np.int32), GrowingArray(np.int32)
        self._keys, self._counts, self._documents = GrowingArray(np.uint64), GrowingArray(np.int64), GrowingArray(np.int32)
        self._batches: list[tuple[int, int]] = []

    def append(self, batch: EncodedWords) -> None:
        """Append rows."""
        from scipy.sparse import csr_matrix

        starts, words = np.r_[0, np.cumsum(batch.lengths)], len(batch.keys)
        entries = (np.ones(len(batch.indices), np.bool_), batch.indices, starts)
        matrix = csr_matrix(entries, shape=(len(batch.lengths), words), copy=True)
        matrix.sum_duplicates()
        self._ids.append(matrix.indices)
        self._lengths.append(np.diff(matrix.indptr))
        self._keys.append(batch.keys)
        self._counts.append(np.bincount(batch.indices, minlength=words))
        self._documents.append(np.bincount(matrix.indices, minlength=words))
        self._batches.append((len(batch.lengths), words))

    def joined(self) -> "WordSets":
        """Return the words of all rows with one vocabulary; nothing can be appended any more."""
        ids, lengths = self._ids.mapped(), self._lengths.mapped().values
        ranks, keys, documents = self._vocabulary()
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        weights = np.sqrt(np.log((len(lengths) + 1) / documents))
        first = first_word = 0
        sets = WordSets(keys, weights, ids, starts, np.zeros(len(lengths), np.float32))
        for rows, words in self._batches:
            values = ids.values[starts[first] : starts[first + rows]]
            values[:] = ranks[first_word : first_word + words][values]
            block = sets.matrix(first, first + rows)
            block.sort_indices()
            values[:] = block.indices
            sets.totals[first : first + rows] = _summed(block.multiply(block))
            ids.release()
            first, first_word = first + rows, first_word + words
        return sets

    def _vocabulary(self) -> tuple[NDArray[np.int32], Keys, NDArray[np.int64]]:
        """Return the rank of each word of each batch; and the key of each different word and the number of its rows, by rank."""
        keys, counts, documents = (array.mapped().values for array in (self._keys, self._counts, self._documents))
        places, different, sums = np.zeros(len(keys), np.int32), [np.empty(0, np.uint64)], [np.empty((2, 0), np.int64)]
        found = 0
        for chosen in partitions(keys):
            unique, inverse = np.unique(keys[chosen], return_inverse=True)
            places[chosen] = found + inverse
            found += len(unique)
            different.append(unique)
            weighted = (np.bincount(inverse, values[chosen], len(unique)) for values in (counts, documents))
            sums.append(np.stack([one.astype(np.int64) for one in weighted]))
        occurrences, rows = np.concatenate(sums, axis=1)
        order = np.argsort(-occurrences, kind="stable")
        ranks = np.empty(found, np.int32)
        ranks[order] = np.arange(found, dtype=np.int32)
        return ranks[places], np.concatenate(different)[order], rows[order]


@dataclass(frozen=True)
class WordSets:
    """The different words of each row, in a file.

    Attributes:
        keys: Hash of each word, shape ``(words,)``. The most frequent words come first, so that what is looked up most is in the cache.
        weights: Weight of each word, float64 of shape ``(words,)``.
        ids: Words of each row, row after row, ascending: positions in ``keys``, int32.
        starts: Start of each row in ``ids``, and the end of the last one, int64 of shape ``(rows + 1,)``.
        totals: Weight of all words of each row, float32 of shape ``(rows,)``; 0 for a row without words.
    """

    keys: Keys
    weights: NDArray[np.float64]
    ids: MappedArray
    starts: Rows
    totals: Similarities

    @classmethod
    def of(cls, batches: Iterable[EncodedWords]) -> "WordSets":
        """Join batches of rows, which weigh words by how many of all rows have them."""
        words = WordFile()
        for batch in batches:
            words.append(batch)
        return words.joined()

    def matrix(self, first: int, stop: int) -> "csr_matrix":
        """Return a sparse float32 matrix of shape ``(stop - first, words)``: the square root of the weight where a row has the word.

        So the product of two rows is the weight of their common words.
        """
        starts = self.starts[first : stop + 1]
        ids = self.ids.values[starts[0] : starts[-1]]
        return self._sparse(self._roots[ids], ids, starts - starts[0])

    def similarity(self, left: Rows, right: Rows) -> Similarities:
        """Return the similarity of pairs of rows, each of which has words; float32 of shape ``(pairs,)``."""
        similarities = np.empty(len(left), np.float32)
        for start in range(0, len(left), PAIRS_AT_A_TIME):
            some = slice(start, start + PAIRS_AT_A_TIME)
            common = _summed(self._rows(left[some], self._roots**2).multiply(self._rows(right[some])))
            similarities[some] = common / (self.totals[left[some]] + self.totals[right[some]] - common)
        return similarities

    def similarity_to(self, row: int) -> Similarities:
        """Return the similarity of all rows to one row that has words; float32 of shape ``(rows,)``. It holds the words in memory."""
        common: Similarities = self._every @ self._rows(np.array([row]), self._roots).toarray()[0]
        similarities: Similarities = common / (self.totals + self.totals[row] - common)
        return similarities

    @cached_property
    def _every(self) -> "csr_matrix":
        return self.matrix(0, len(self.totals))

    @cached_property
    def _roots(self) -> Similarities:
        return np.sqrt(self.weights).astype(np.float32)

    def _rows(self, rows: Rows, data: Similarities | None = None) -> "csr_matrix":
        """Return chosen rows of words, with a number for each word or 1."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        found = []
        for first in range(0, len(rows), ROWS_AT_A_TIME):
            some = lengths[first : first + ROWS_AT_A_TIME]
            ends = np.cumsum(some)
            places = np.repeat(self.starts[rows[first : first + ROWS_AT_A_TIME]] - ends + some, some)
            places += np.arange(len(places))
            found.append(self.ids.values.take(places))
            self.ids.release()
        ids = np.concatenate(found)
        return self._sparse(np.ones(len(ids), np.float32) if data is None else data.take(ids), ids, np.append(0, np.cumsum(lengths)))

    def _sparse(self, data: Similarities, ids: NDArray[np.int32], starts: Rows) -> "csr_matrix":
        from scipy.sparse import csr_matrix

        return csr_matrix((data, ids, starts), shape=(len(starts) - 1, len(self.keys)))


def _summed(matrix: "csr_matrix") -> Similarities:
    return np.asarray(matrix.sum(axis=1), np.float32).ravel()
