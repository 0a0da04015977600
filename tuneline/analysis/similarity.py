"""Similarity of rows: the fraction of their different words that two rows have in common.

It does not depend on the order of words, so swapped clauses and swapped texts make no difference. Rare words
count more: a word weighs the square root of its inverse document frequency. With equal weights, rows of one
template resemble each other, because its words are in all of them; with the whole inverse document frequency,
names and numbers weigh so much that a copy with other names is missed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.analysis.text import EncodedWords, Keys
from tuneline.core.arrays import RowNumbers

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


Similarities = NDArray[np.float32]
PAIRS_AT_A_TIME = 1 << 14


@dataclass(frozen=True)
class WordSets:
    """The different words of each row.

    Attributes:
        keys: Hash of each word, shape ``(words,)``. The most frequent words come first, so that what is
            looked up most is in the cache.
        ids: Words of each row, row after row, ascending: positions in ``keys``, int32.
        starts: Start of each row in ``ids``, and the end of the last one, int64 of shape ``(rows + 1,)``.
        totals: Weight of all words of each row, float32 of shape ``(rows,)``; 0 for a row without words.
    """

    keys: Keys
    weights: NDArray[np.float64]
    ids: NDArray[np.int32]
    starts: NDArray[np.int64]
    totals: Similarities

    @classmethod
    def of(cls, batches: Iterable[EncodedWords]) -> "WordSets":
        """Join batches of rows, each with a vocabulary of its own.

        Words weigh by how many of all rows have them.
        """
        from scipy.sparse import csr_matrix

        # the different words of each row, numbered as in the vocabulary of its batch
        ids = [np.empty(0, np.int32)]
        lengths = [np.empty(0, np.int32)]
        keys = [np.empty(0, np.uint64)]
        counts = [np.empty(0, np.int64)]
        documents = [np.empty(0, np.int64)]
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
            counts.append(np.bincount(batch.indices, minlength=words))
            documents.append(np.bincount(matrix.indices, minlength=words))
            sizes.append((rows, words))

        # one vocabulary
        ranks, joined_keys, joined_documents = _joined(
            np.concatenate(keys), np.concatenate(counts), np.concatenate(documents)
        )
        starts_of_rows = np.append(0, np.cumsum(np.concatenate(lengths), dtype=np.int64))
        row_count = len(starts_of_rows) - 1
        sets = cls(
            joined_keys,
            np.sqrt(np.log((row_count + 1) / joined_documents)),
            np.concatenate(ids),
            starts_of_rows,
            np.zeros(row_count, np.float32),
        )

        # the words of each row as positions in that vocabulary
        first_row = 0
        first_word = 0
        for rows, words in sizes:
            sets._renumber(first_row, first_row + rows, ranks[first_word : first_word + words])
            first_row += rows
            first_word += words
        return sets

    def _renumber(self, first: int, stop: int, ranks: NDArray[np.int32]) -> None:
        """Replace the words of rows by their ranks, and set the totals of the rows."""
        ids = self.ids[self.starts[first] : self.starts[stop]]
        ids[:] = ranks[ids]
        block = self.matrix(first, stop)
        block.sort_indices()
        ids[:] = block.indices
        self.totals[first:stop] = _summed(block.multiply(block))

    def matrix(self, first: int, stop: int) -> "csr_matrix":
        """Return a sparse float32 matrix of shape ``(stop - first, words)``.

        Where a row has a word, it holds the square root of the word's weight, so the product of two rows is
        the weight of their common words.
        """
        starts = self.starts[first : stop + 1]
        ids = self.ids[starts[0] : starts[-1]]
        return self._sparse(self._roots[ids], ids, starts - starts[0])

    def similarity(self, left: RowNumbers, right: RowNumbers) -> Similarities:
        """Return the similarity of pairs of rows, each of which has words; float32 of shape ``(pairs,)``."""
        similarities = np.empty(len(left), np.float32)
        for start in range(0, len(left), PAIRS_AT_A_TIME):
            block = slice(start, start + PAIRS_AT_A_TIME)
            # One side has weights, and the other side ones: their product has weights of common words.
            weighted = self._rows(left[block], self._roots**2)
            common = _summed(weighted.multiply(self._rows(right[block])))
            similarities[block] = common / (self.totals[left[block]] + self.totals[right[block]] - common)
        return similarities

    @cached_property
    def _roots(self) -> Similarities:
        return np.sqrt(self.weights).astype(np.float32)

    def _rows(self, rows: RowNumbers, data: Similarities | None = None) -> "csr_matrix":
        """Return chosen rows of words, with a number for each word or 1."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        ends = np.cumsum(lengths)
        # position of a word among all: start of its row, plus its number in the row
        positions = np.repeat(self.starts[rows] - ends + lengths, lengths) + np.arange(ends[-1])
        ids = self.ids.take(positions)
        if data is None:
            values = np.ones(len(ids), np.float32)
        else:
            values = data.take(ids)
        return self._sparse(values, ids, np.append(0, ends))

    def _sparse(self, data: Similarities, ids: NDArray[np.int32], starts: NDArray[np.int64]) -> "csr_matrix":
        from scipy.sparse import csr_matrix

        return csr_matrix((data, ids, starts), shape=(len(starts) - 1, len(self.keys)))


def _summed(matrix: "csr_matrix") -> Similarities:
    return np.asarray(matrix.sum(axis=1), np.float32).ravel()


def _joined(
    keys: Keys, counts: NDArray[np.int64], documents: NDArray[np.int64]
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
    different, inverse = np.unique(keys, return_inverse=True)
    # bincount adds float64, which is exact up to 2**53
    occurrences = np.bincount(inverse, counts, len(different)).astype(np.int64)
    rows = np.bincount(inverse, documents, len(different)).astype(np.int64)

    order = np.argsort(-occurrences, kind="stable")
    ranks = np.empty(len(different), np.int32)
    ranks[order] = np.arange(len(different), dtype=np.int32)
    return ranks[inverse], different[order], rows[order]


class RaggedArray:
    """Rows of different lengths: a flat array of values, row after row, and the length of each row.

    The lengths are int64 of shape ``(rows,)``.
    """

    def __init__(self, values: NDArray[Any], lengths: NDArray[np.int64]) -> None:
        self.values = values
        self.lengths = lengths
        self._is_filled = lengths > 0
        self._starts = (np.cumsum(lengths) - lengths)[self._is_filled]

    @classmethod
    def of(cls, column: pa.ListArray) -> Self:
        """Wrap the values of an Arrow list column without a copy."""
        offsets = column.offsets.to_numpy().astype(np.int64)
        return cls(column.flatten().to_numpy(zero_copy_only=False), np.diff(offsets))

    def reduce(self, ufunc: np.ufunc, values: NDArray[Any], empty: int = 0) -> NDArray[np.int64]:
        """Reduce each row of ``values``, of the shape of ``self.values``, to one number.

        The result is int64 of shape ``(rows,)``, with ``empty`` for a row without values.
        """
        reduced = np.full(len(self.lengths), empty, dtype=np.int64)
        if not len(self._starts):
            return reduced
        dtype = None
        if ufunc is np.add:  # else sums of small types, such as masks, would overflow
            dtype = np.int64
        # empty rows hold no values, so each filled row ends where the next filled one starts
        reduced[self._is_filled] = ufunc.reduceat(values, self._starts, dtype=dtype)
        return reduced

    def first(self) -> NDArray[np.int64]:
        """Return the first value of each row, -1 for an empty row."""
        return self._at(self._starts)

    def last(self) -> NDArray[np.int64]:
        """Return the last value of each row, -1 for an empty row."""
        return self._at(self._starts + self.lengths[self._is_filled] - 1)

    def first_other(self, values: NDArray[Any], expected: int | None) -> NDArray[np.int64]:
        """Return the first of the values of each row that is not the expected one; else the expected one.

        ``values`` have the shape of ``self.values``; no row is empty. If nothing is expected, it is the first
        value.
        """
        last = len(values)
        positions = np.arange(last)
        if expected is not None:
            positions[values == expected] = last
        positions = self.reduce(np.minimum, positions)
        is_expected = positions == last
        positions[is_expected] = self._starts[is_expected]
        return values[positions].astype(np.int64)

    def drops(self) -> NDArray[np.int64]:
        """Count the values of each row that are smaller than the value before them."""
        is_drop = np.zeros(len(self.values), dtype=bool)
        is_drop[1:] = self.values[1:] < self.values[:-1]
        is_drop[self._starts] = False
        return self.reduce(np.add, is_drop)

    def _at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        result = np.full(len(self.lengths), -1, dtype=np.int64)
        result[self._is_filled] = self.values[positions]
        return result
