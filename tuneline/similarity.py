"""Similarity of rows: the fraction of their different words that two rows have in common, where rare words count more.

It does not depend on the order of words, so swapped clauses and swapped texts make no difference. A word weighs the square root of its
inverse document frequency. With equal weights, rows of one template resemble each other, because its words are in all of them; with
the whole inverse document frequency, names and numbers weigh so much that a copy with other names is missed. benchmarks/near_duplicates.py
measures all three.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.text import EncodedWords, Keys

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Similarities = NDArray[np.float32]


@dataclass(frozen=True)
class WordSets:
    """The different words of each row.

    Attributes:
        keys: Hash of each word, shape ``(words,)``. The most frequent words come first, so that what is looked up most is in the cache.
        weights: Weight of each word, float64 of shape ``(words,)``.
        matrix: Sparse float32 of shape ``(rows, words)``: the square root of the weight where a row has the word. So the product of two
            rows is the weight of their common words.
        totals: Weight of all words of each row, float32 of shape ``(rows,)``; 0 for a row without words.
    """

    keys: Keys
    weights: NDArray[np.float64]
    matrix: "csr_matrix"
    totals: Similarities

    @classmethod
    def of(cls, batches: Sequence[EncodedWords]) -> Self:
        """Join batches of rows, which weigh words by how many of all rows have them."""
        from scipy.sparse import csr_matrix

        keys = np.unique(np.concatenate([batch.keys for batch in batches]))
        places = [np.searchsorted(keys, batch.keys) for batch in batches]
        counts = np.zeros(len(keys), np.int64)
        for place, batch in zip(places, batches, strict=True):
            counts[place] += np.bincount(batch.indices, minlength=len(place))
        order = np.argsort(-counts, kind="stable")
        rank = np.empty(len(keys), np.int32)
        rank[order] = np.arange(len(keys), dtype=np.int32)
        indices = np.concatenate([rank[place][batch.indices] for place, batch in zip(places, batches, strict=True)])
        starts = np.r_[0, np.cumsum(np.concatenate([batch.lengths for batch in batches]))]
        rows = len(starts) - 1
        matrix = csr_matrix((np.ones(len(indices), np.float32), indices, starts), shape=(rows, len(keys)))
        matrix.sum_duplicates()
        documents = np.bincount(matrix.indices, minlength=len(keys))
        weights = np.sqrt(np.log((rows + 1) / np.maximum(documents, 1)))
        matrix.data = np.sqrt(weights).astype(np.float32)[matrix.indices]
        return cls(keys[order], weights, matrix, _summed(matrix.multiply(matrix)))

    def similarity(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> Similarities:
        """Return the similarity of pairs of rows, each of which has words; float32 of shape ``(pairs,)``."""
        common = _summed(self.matrix[left].multiply(self.matrix[right]))
        return common / (self.totals[left] + self.totals[right] - common)

    def similarity_to(self, row: int) -> Similarities:
        """Return the similarity of all rows to one row that has words; float32 of shape ``(rows,)``."""
        common: Similarities = self.matrix @ self.matrix[[row]].toarray()[0]
        similarities: Similarities = common / (self.totals + self.totals[row] - common)
        return similarities


def _summed(matrix: "csr_matrix") -> Similarities:
    return np.asarray(matrix.sum(axis=1), np.float32).ravel()
