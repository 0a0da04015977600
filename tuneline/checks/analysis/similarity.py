"""Similarity of rows: the fraction of their different words that two rows have in common.

It does not depend on the order of words, so swapped clauses and swapped texts make no difference. Rare words
count more: a word weighs the square root of its inverse document frequency. With equal weights, rows of one
template resemble each other, because its words are in all of them; with the whole inverse document frequency,
names and numbers weigh so much that a copy with other names is missed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.core.stage.arrays import RowNumbers
from tuneline.core.stage.texts import EncodedWords, Keys

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


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
