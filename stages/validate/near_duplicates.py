"""Near-duplicates across splits: MinHash finds candidates, their exact Jaccard similarity decides.

Rows of the later split are looked up in the earlier splits. The later side is a sample of bounded size; the earlier side is streamed
in full. So time is linear in the rows, and memory does not grow with them.

A row is the set of its pairs of neighbouring words (Broder, "On the resemblance and containment of documents", 1997). Permutations
and the parameters of the index are those of datasketch. Its objects hold one row each, which is too slow for a million rows, so the
same arithmetic runs here on arrays; signatures equal those of the library, value by value.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasketch import MinHash, MinHashLSH
from numpy.typing import NDArray

from stages.validate.rows import RaggedArray, Rows, read_batches, take_rows
from tuneline.text import Keys, mixed, normalized, text_keys, words

SLACK = 0.2
"""A candidate is dropped if its estimated similarity is further than this below the threshold. Three standard errors of an estimate
from 64 permutations are at most 0.19."""
PERMUTATIONS = 64
MAX_PER_BAND = 4
"""Rows per band that are compared with each row looked up: thousands of rows that share a band are copies of each other."""


@dataclass(frozen=True)
class NearDuplicates:
    """Near-duplicates of the rows of one split.

    Attributes:
        origin: The most similar earlier row, numbered through all earlier splits; -1 for none, NaN for a row that was not looked up.
        similarity: Jaccard similarity with that row, 0 for none.
    """

    origin: NDArray[np.float64]
    similarity: NDArray[np.float64]


def sample_rows(keys: Keys, limit: int) -> Rows:
    """Return the rows with the smallest keys: a random sample that depends on the texts alone."""
    return np.sort(np.argsort(keys, kind="stable")[:limit])


def find_near_duplicates(
    path: Path, rows: Rows, total: int, *, earlier: Sequence[Path], text_columns: Sequence[str], similarity: float
) -> NearDuplicates:
    """Look up rows of one raw file in the files of earlier splits.

    Args:
        path: The raw file.
        rows: Numbers of the rows to look up, ascending.
        total: Number of rows in the file.
        earlier: Raw files of the earlier splits.
        text_columns: Columns with texts.
        similarity: Jaccard similarity from which two rows are near-duplicates.
    """
    result = NearDuplicates(np.full(total, np.nan), np.zeros(total))
    result.origin[rows] = -1
    queries = ShingledRows.of(_texts_of_rows(path, rows, text_columns), similarity)
    start = 0
    for texts in (columns for file in earlier for columns in _text_batches(file, text_columns)):
        corpus = ShingledRows.of(texts, similarity)
        unmatched = np.flatnonzero(result.origin[rows] == -1)
        for query, other, jaccard in _matches(queries, unmatched, corpus, similarity):
            if jaccard > result.similarity[rows[query]]:
                result.origin[rows[query]], result.similarity[rows[query]] = start + other, jaccard
        start += len(texts[0])
    return result


@dataclass(frozen=True)
class ShingledRows:
    """Rows as sets of word pairs.

    Attributes:
        sets: Hashes of each row's word pairs, with repetitions.
        signatures: uint32 of shape ``(rows, PERMUTATIONS)``.
        bands: uint64 of shape ``(rows, bands)``. Two rows with a common value in one column are candidates.
    """

    sets: RaggedArray
    signatures: NDArray[np.uint32]
    bands: Keys

    @classmethod
    def of(cls, texts: Sequence[pa.StringArray], similarity: float) -> Self:
        """Shingle rows, given one array per text column, for finding rows of at least this similarity."""
        sets = word_pairs(words([normalized(column) for column in texts]))
        signatures = minhash_signatures(sets)
        return cls(sets, signatures, band_hashes(signatures, similarity))

    def jaccard(self, row: int, other: "ShingledRows", other_row: int) -> float:
        """Return the size of the intersection of two rows' sets divided by that of their union."""
        left, right = np.unique(self.sets.row(row)), np.unique(other.sets.row(other_row))
        common = len(np.intersect1d(left, right, assume_unique=True))
        return common / (len(left) + len(right) - common)


def word_pairs(rows: pa.ListArray) -> RaggedArray:
    """Return 32-bit hashes of each row's pairs of neighbouring words; the boundary counts as a word."""
    lengths = np.diff(rows.offsets.to_numpy()).astype(np.int64)
    encoded = rows.flatten().dictionary_encode()
    hashes = text_keys(encoded.dictionary)[encoded.indices.to_numpy()]
    pairs = (mixed(hashes[:-1], hashes[1:]) >> np.uint64(32)).astype(np.uint32)
    within_row = np.ones(len(pairs), dtype=bool)
    within_row[np.cumsum(lengths)[:-1] - 1] = False
    return RaggedArray(pairs[within_row], lengths - 1)


def minhash_signatures(sets: RaggedArray) -> NDArray[np.uint32]:
    """Return MinHash signatures equal to those of ``datasketch.MinHash``, uint32 of shape ``(rows, PERMUTATIONS)``."""
    multipliers, offsets = permutations()
    values = _murmur_finalized(sets.values)
    signatures = np.empty((len(sets.lengths), PERMUTATIONS), dtype=np.uint32)
    for column, (multiplier, offset) in enumerate(zip(multipliers, offsets, strict=True)):
        signatures[:, column] = sets.reduce(np.minimum, values * multiplier + offset, np.iinfo(np.uint32).max)
    return signatures


@cache
def permutations() -> NDArray[np.uint32]:
    """Return the affine permutations of datasketch, odd multipliers and offsets, of shape ``(2, PERMUTATIONS)``."""
    affine: NDArray[np.uint32] = MinHash(num_perm=PERMUTATIONS, scheme="affine32").permutations
    return affine


def _murmur_finalized(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Apply the finalizer of MurmurHash3, as datasketch does before its permutations."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


@cache
def band_shape(similarity: float) -> tuple[int, int]:
    """Return the optimal number of bands, and of values per band, according to datasketch.

    The index aims 10 % below ``similarity`` and weighs a miss 19 times a needless candidate: of pairs with a similarity of exactly
    0.8, 99 in 100 become candidates.
    """
    index = MinHashLSH(threshold=0.9 * similarity, num_perm=PERMUTATIONS, weights=(0.05, 0.95))
    return index.b, index.r


def band_hashes(signatures: NDArray[np.uint32], similarity: float) -> Keys:
    """Return one hash per band of each signature. The same values in another band have another hash."""
    bands, width = band_shape(similarity)
    hashes = np.broadcast_to(np.arange(bands, dtype=np.uint64), (len(signatures), bands)).copy()
    for offset in range(width):
        hashes = mixed(hashes, signatures[:, offset : bands * width : width].astype(np.uint64))
    return hashes


def candidates(queries: Keys, corpus: Keys) -> tuple[Rows, Rows]:
    """Return pairs of rows that share a band: for each query and band, at most the first ``MAX_PER_BAND`` rows of the corpus."""
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for band in range(queries.shape[1]):
        order = np.argsort(corpus[:, band], kind="stable")
        hashes = corpus[order, band]
        first, last = np.searchsorted(hashes, queries[:, band], "left"), np.searchsorted(hashes, queries[:, band], "right")
        for step in range(MAX_PER_BAND):
            hits = np.flatnonzero(first + step < last)
            pairs.append(np.stack([hits, order[first[hits] + step]], axis=1))
    unique = np.unique(np.concatenate(pairs), axis=0)
    return unique[:, 0], unique[:, 1]


def _matches(queries: ShingledRows, rows: Rows, corpus: ShingledRows, similarity: float) -> Iterator[tuple[int, int, float]]:
    """Yield pairs of a query row and a corpus row that are similar enough, with their similarity."""
    left, right = candidates(queries.bands[rows], corpus.bands)
    left = rows[left]
    estimate = (queries.signatures[left] == corpus.signatures[right]).mean(axis=1)
    close = estimate >= similarity - SLACK
    for query, other in zip(left[close], right[close], strict=True):
        if (jaccard := queries.jaccard(query, corpus, other)) >= similarity:
            yield int(query), int(other), jaccard


def _text_batches(path: Path, text_columns: Sequence[str]) -> Iterator[list[pa.StringArray]]:
    for batch in read_batches(path, list(text_columns)):
        yield [pc.fill_null(batch[name], "") for name in text_columns]


def _texts_of_rows(path: Path, rows: Rows, text_columns: Sequence[str]) -> list[pa.StringArray]:
    table = take_rows(path, rows, text_columns)
    return [pa.array(table[name].to_pylist(), pa.string()).fill_null("") for name in text_columns]
