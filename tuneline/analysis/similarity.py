"""Similarity of rows: the fraction of their different words that two rows have in common.

Rare words count more. It does not depend on the order of words, so swapped clauses and swapped texts make no
difference. A word weighs the square root of its inverse document frequency. With equal weights, rows of one
template resemble each other, because its words are in all of them; with the whole inverse document frequency,
names and numbers weigh so much that a copy with other names is missed. benchmarks/near_duplicates.py measures
all three.
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
        rows = []
        for first in range(0, len(keys), HASHES_AT_A_TIME):
            block = keys[first : first + HASHES_AT_A_TIME]
            rows.append(first + np.flatnonzero(block >> shift == number))
        yield np.concatenate(rows)


KEPT = 256 << 20
"""Bytes of a file that may stay in memory."""


class MappedArray:
    """An array in a file, of which the system reads into memory what is used."""

    def __init__(self, file: int, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        self._map: mmap.mmap | None = None
        self.values: NDArray[Any] = np.empty(0, dtype)
        size = prod(shape) * np.dtype(dtype).itemsize
        if size:
            self._map = mmap.mmap(file, size)
            self.values = np.frombuffer(self._map, dtype)
        self.values = self.values.reshape(shape)

    @classmethod
    def zeros(cls, shape: tuple[int, ...], dtype: DTypeLike) -> "MappedArray":
        """Make an array of zeros."""
        with tempfile.TemporaryFile(dir=".") as file:
            size = prod(shape) * np.dtype(dtype).itemsize
            if size:
                # Without this, a full disk kills the process while it writes to the array.
                os.posix_fallocate(file.fileno(), 0, size)
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
"""Rows that are read from anywhere before memory is released.

The system reads up to 64 kB around each, so 256 MB.
"""


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

        # the different words of each row, numbered as in the vocabulary of its batch
        ids = GrowingArray(np.int32)
        lengths = GrowingArray(np.int32)
        keys = GrowingArray(np.uint64)
        occurrences = GrowingArray(np.int64)
        documents = GrowingArray(np.int32)
        sizes = []
        for batch in batches:
            rows = len(batch.lengths)
            words = len(batch.keys)
            starts = np.r_[0, np.cumsum(batch.lengths)]
            entries = (np.ones(len(batch.indices), np.bool_), batch.indices, starts)
            matrix = csr_matrix(entries, shape=(rows, words), copy=True)
            matrix.sum_duplicates()
            ids.append(matrix.indices)
            lengths.append(np.diff(matrix.indptr))
            keys.append(batch.keys)
            occurrences.append(np.bincount(batch.indices, minlength=words))
            documents.append(np.bincount(matrix.indices, minlength=words))
            sizes.append((rows, words))

        # one vocabulary for all
        mapped_ids = ids.mapped()
        row_lengths = lengths.mapped().values
        ranks, joined_keys, rows_with_word = _joined(
            keys.mapped().values, occurrences.mapped().values, documents.mapped().values
        )
        weights = np.sqrt(np.log((len(row_lengths) + 1) / rows_with_word))
        starts = np.zeros(len(row_lengths) + 1, np.int64)
        np.cumsum(row_lengths, out=starts[1:])
        totals = np.zeros(len(row_lengths), np.float32)
        sets = cls(joined_keys, weights, mapped_ids, starts, totals)

        # the words of each row, numbered as in that vocabulary
        first = 0
        first_word = 0
        for rows, words in sizes:
            sets._renumber(first, first + rows, ranks[first_word : first_word + words])
            first += rows
            first_word += words
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
        """Return a sparse float32 matrix of shape ``(stop - first, words)``.

        Where a row has a word, it holds the square root of the word's weight, so the product of two rows is
        the weight of their common words.
        """
        starts = self.starts[first : stop + 1]
        ids = self.ids.values[starts[0] : starts[-1]]
        return self._sparse(self._roots[ids], ids, starts - starts[0])

    def similarity(self, left: Rows, right: Rows) -> Similarities:
        """Return the similarity of pairs of rows, each of which has words; float32 of shape ``(pairs,)``."""
        similarities = np.empty(len(left), np.float32)
        for start in range(0, len(left), PAIRS_AT_A_TIME):
            block = slice(start, start + PAIRS_AT_A_TIME)
            # One side has weights, and the other side ones: their product has weights of common words.
            weighted = self._rows(left[block], self._roots**2)
            common = _summed(weighted.multiply(self._rows(right[block])))
            similarities[block] = common / (self.totals[left[block]] + self.totals[right[block]] - common)
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
        parts = []
        for first in range(0, len(rows), ROWS_AT_A_TIME):
            block = slice(first, first + ROWS_AT_A_TIME)
            block_lengths = lengths[block]
            block_starts = np.cumsum(block_lengths) - block_lengths
            # position of a word in the file: start of its row, plus its number in the row
            positions = np.repeat(self.starts[rows[block]] - block_starts, block_lengths)
            positions += np.arange(len(positions))
            parts.append(self.ids.values.take(positions))
            self.ids.release()

        ids = np.concatenate(parts)
        if data is None:
            values = np.ones(len(ids), np.float32)
        else:
            values = data.take(ids)
        return self._sparse(values, ids, np.append(0, np.cumsum(lengths)))

    def _sparse(self, data: Similarities, ids: NDArray[np.int32], starts: Rows) -> "csr_matrix":
        from scipy.sparse import csr_matrix

        return csr_matrix((data, ids, starts), shape=(len(starts) - 1, len(self.keys)))


def _summed(matrix: "csr_matrix") -> Similarities:
    return np.asarray(matrix.sum(axis=1), np.float32).ravel()


def _joined(
    keys: Keys, counts: NDArray[np.int64], documents: NDArray[np.int32]
) -> tuple[NDArray[np.int32], Keys, NDArray[np.int64]]:
    """Join the vocabularies of batches, which follow each other in the arrays.

    Args:
        keys: Hash of each word of each batch.
        counts: Occurrences of the word in the batch.
        documents: Number of rows of the batch that have the word.

    Returns:
        The rank of each word of each batch by its occurrences in all batches; the key of each different word,
        by rank; and the number of rows that have it, by rank.
    """
    # Sums for each different word. The empty arrays are for no words at all.
    positions = np.zeros(len(keys), np.int32)  # of each word of each batch, among the different ones
    different = [np.empty(0, np.uint64)]
    occurrences = [np.empty(0, np.int64)]
    rows = [np.empty(0, np.int64)]
    words = 0
    for members in partitions(keys):
        unique, inverse = np.unique(keys[members], return_inverse=True)
        positions[members] = words + inverse
        words += len(unique)
        different.append(unique)
        occurrences.append(np.bincount(inverse, counts[members], len(unique)).astype(np.int64))
        rows.append(np.bincount(inverse, documents[members], len(unique)).astype(np.int64))

    # ranks: the most frequent words first
    order = np.argsort(-np.concatenate(occurrences), kind="stable")
    ranks = np.empty(words, np.int32)
    ranks[order] = np.arange(words, dtype=np.int32)
    return ranks[positions], np.concatenate(different)[order], np.concatenate(rows)[order]
