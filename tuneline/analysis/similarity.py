"""Similarity of rows: the fraction of their different words that two rows have in common, where rare words count more.

It does not depend on the order of words, so swapped clauses and swapped texts make no difference. A word
weighs the square root of its inverse document frequency. With equal weights, rows of one template resemble
each other, because its words are in all of them; with the whole inverse document frequency, names and numbers
weigh so much that a copy with other names is missed.
"""

import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuneline.analysis.text import EncodedWords, Keys

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

PARTITION_ROWS = 1 << 21
"""Rows of a partition, about: keys are hashes, so all partitions have nearly as many.

A row takes about 100 bytes while it is sorted.
"""
HASHES_AT_A_TIME = 1 << 20


def partitions(keys: NDArray[np.uint64]) -> Iterator[NDArray[np.int64]]:
    """Yield the row numbers of one partition after the other, each ascending.

    Rows with the same key are in the same partition.

    Keys are 64-bit hashes. Partitions are ranges of keys, ascending; each passes over all keys.
    """
    bits = max((len(keys) - 1) // PARTITION_ROWS, 0).bit_length()
    if not bits:
        yield np.arange(len(keys))
        return
    shift = np.uint64(64 - bits)
    for number in range(1 << bits):
        blocks = (
            (first, keys[first : first + HASHES_AT_A_TIME]) for first in range(0, len(keys), HASHES_AT_A_TIME)
        )
        yield np.concatenate([first + np.flatnonzero(block >> shift == number) for first, block in blocks])


KEPT = 256 << 20
"""Bytes of a file that may stay in memory."""


class MappedArray:
    """An array in a file, of which the system reads into memory what is used."""

    def __init__(self, file: int, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        size = prod(shape) * np.dtype(dtype).itemsize
        self._map = mmap.mmap(file, size) if size else None
        self.values: NDArray[Any] = (
            np.frombuffer(self._map, dtype).reshape(shape) if self._map else np.empty(shape, dtype)
        )

    @classmethod
    def zeros(cls, shape: tuple[int, ...], dtype: DTypeLike) -> "MappedArray":
        """Make an array of zeros."""
        with tempfile.TemporaryFile(dir=".") as file:
            if size := prod(shape) * np.dtype(dtype).itemsize:
                os.posix_fallocate(
                    file.fileno(), 0, size
                )  # else a full disk kills the process while it writes to the array
            return cls(file.fileno(), dtype, shape)

    def release(self) -> None:
        """Let go of what was read into memory of a large array.

        Nothing is lost: what is used again is read again.
        """
        if self._map and len(self._map) > KEPT:
            self._map.madvise(mmap.MADV_DONTNEED)


class GrowingArray:
    """A one-dimensional array in a file, made by appending to it."""

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._file = tempfile.TemporaryFile(dir=".")  # noqa: SIM115 - it is used as long as this object
        self._length = 0

    def append(self, values: NDArray[Any]) -> None:
        """Append values."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self._length += len(values)

    def mapped(self) -> MappedArray:
        """Return all values; nothing can be appended any more."""
        with self._file as file:
            file.flush()
            return MappedArray(file.fileno(), self._dtype, (self._length,))


Rows = NDArray[np.int64]
Similarities = NDArray[np.float32]
PAIRS_AT_A_TIME = 1 << 14
ROWS_AT_A_TIME = 1 << 12
"""Rows that are read from anywhere before memory is released: the system reads up to 64 kB around each, so 256 MB."""


@dataclass(frozen=True)
class WordSets:
    """The different words of each row, in a file.

    Attributes:
        keys: Hash of each word, shape ``(words,)``. The most frequent words come first, so that what is
            looked up most is in the cache.
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
        """Join batches of rows, each with a vocabulary of its own.

        Words weigh by how many of all rows have them.
        """
        from scipy.sparse import csr_matrix

        ids_of_batches, lengths_of_rows = GrowingArray(np.int32), GrowingArray(np.int32)
        vocabulary = GrowingArray(np.uint64), GrowingArray(np.int64), GrowingArray(np.int32)
        sizes = []
        for batch in batches:
            starts, words = np.r_[0, np.cumsum(batch.lengths)], len(batch.keys)
            entries = (np.ones(len(batch.indices), np.bool_), batch.indices, starts)
            matrix = csr_matrix(entries, shape=(len(batch.lengths), words), copy=True)
            matrix.sum_duplicates()
            ids_of_batches.append(matrix.indices)
            lengths_of_rows.append(np.diff(matrix.indptr))
            counts = (
                batch.keys,
                np.bincount(batch.indices, minlength=words),
                np.bincount(matrix.indices, minlength=words),
            )
            for array, values in zip(vocabulary, counts, strict=True):
                array.append(values)
            sizes.append((len(batch.lengths), words))
        ids, lengths = ids_of_batches.mapped(), lengths_of_rows.mapped().values
        ranks, keys, documents = _joined(*(array.mapped().values for array in vocabulary))
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        sets = cls(
            keys,
            np.sqrt(np.log((len(lengths) + 1) / documents)),
            ids,
            starts,
            np.zeros(len(lengths), np.float32),
        )
        first = first_word = 0
        for rows, words in sizes:
            sets._renumber(first, first + rows, ranks[first_word : first_word + words])
            first, first_word = first + rows, first_word + words
        return sets

    def _renumber(self, first: int, stop: int, ranks: NDArray[np.int32]) -> None:
        """Replace the words of rows by their ranks, and set the totals of the rows."""
        values = self.ids.values[self.starts[first] : self.starts[stop]]
        values[:] = ranks[values]
        block = self.matrix(first, stop)
        block.sort_indices()
        values[:] = block.indices
        self.totals[first:stop] = _summed(block.multiply(block))
        self.ids.release()

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
        """Return the similarity of all rows to one row that has words; float32 of shape ``(rows,)``.

        It holds the words in memory.
        """
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
        return self._sparse(
            np.ones(len(ids), np.float32) if data is None else data.take(ids),
            ids,
            np.append(0, np.cumsum(lengths)),
        )

    def _sparse(self, data: Similarities, ids: NDArray[np.int32], starts: Rows) -> "csr_matrix":
        from scipy.sparse import csr_matrix

        return csr_matrix((data, ids, starts), shape=(len(starts) - 1, len(self.keys)))


def _summed(matrix: "csr_matrix") -> Similarities:
    return np.asarray(matrix.sum(axis=1), np.float32).ravel()


def _joined(
    keys: Keys, counts: NDArray[np.int64], documents: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Keys, NDArray[np.int64]]:
    """Join vocabularies of batches: each has keys of words, their occurrences, and the number of rows that have them.

    Return the rank of each word of each batch; and the key of each different word and the number of its rows,
    by rank.
    """
    places, different, sums = (
        np.zeros(len(keys), np.int32),
        [np.empty(0, np.uint64)],
        [np.empty((2, 0), np.int64)],
    )
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
