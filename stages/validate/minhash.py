"""MinHash over whole batches of rows: which of them may be alike, and how alike they are.

The set of a row is its pairs of neighbouring words (Broder, "On the resemblance and containment of documents", 1997). Permutations and
the shape of the index are datasketch's. Its objects hold one row each, which a million rows cannot afford, so the same
arithmetic runs here on arrays; signatures are equal to the library's, value by value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

import numpy as np
import pyarrow as pa
from datasketch import MinHash, MinHashLSH
from numpy.typing import NDArray

from stages.validate.segments import Segments
from stages.validate.text import Keys, folded, mixed, text_keys, words

PERMUTATIONS = 64
PER_BAND = 4
"""Rows of one band that are looked at for each row looked up: where thousands share a band, they are copies of each other."""
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Shingled:
    """Rows as sets of word pairs.

    Attributes:
        sets: Hashes of each row's word pairs, with repetitions.
        signatures: uint32 of shape ``[rows, PERMUTATIONS]``.
        bands: uint64 of shape ``[rows, bands]``. Rows that share one of them may be alike.
    """

    sets: Segments
    signatures: NDArray[np.uint32]
    bands: Keys

    @classmethod
    def of(cls, texts: Sequence[pa.StringArray], similarity: float) -> Self:
        """Shingles the texts of some rows, to find those as similar as ``similarity``."""
        sets = word_pairs(words([folded(column) for column in texts]))
        signatures = minhash(sets)
        return cls(sets, signatures, banded(signatures, similarity))

    def jaccard(self, place: int, other: "Shingled", other_place: int) -> float:
        """Size of the intersection of two rows' sets over that of their union."""
        one, two = np.unique(self.sets.row(place)), np.unique(other.sets.row(other_place))
        common = len(np.intersect1d(one, two, assume_unique=True))
        return common / (len(one) + len(two) - common)


def word_pairs(rows: pa.ListArray) -> Segments:
    """Hashes of the pairs of neighbouring words, the boundary counted as a word: 32 bits each."""
    lengths = np.diff(rows.offsets.to_numpy()).astype(np.int64)
    coded = rows.flatten().dictionary_encode()
    hashes = text_keys(coded.dictionary)[coded.indices.to_numpy()]
    pairs = (mixed(hashes[:-1], hashes[1:]) >> np.uint64(32)).astype(np.uint32)
    inside = np.ones(len(pairs), dtype=bool)
    inside[np.cumsum(lengths)[:-1] - 1] = False  # the last word of a row and the first of the next are no pair
    return Segments(pairs[inside], lengths - 1)


def minhash(sets: Segments) -> NDArray[np.uint32]:
    """MinHash signatures, the same as ``datasketch.MinHash`` makes of each set.

    Returns:
        uint32 of shape ``[rows, PERMUTATIONS]``.
    """
    multipliers, offsets = permutations()
    values = _premixed(sets.values)
    signatures = np.empty((len(sets.lengths), PERMUTATIONS), dtype=np.uint32)
    for place, (multiplier, offset) in enumerate(zip(multipliers, offsets, strict=True)):
        signatures[:, place] = sets.reduce(np.minimum, values * multiplier + offset, np.iinfo(np.uint32).max)
    return signatures


@cache
def permutations() -> NDArray[np.uint32]:
    """The affine permutations of datasketch: odd multipliers, and offsets, of shape ``[2, PERMUTATIONS]``."""
    found: NDArray[np.uint32] = MinHash(num_perm=PERMUTATIONS, scheme="affine32").permutations
    return found


def _premixed(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The finaliser of MurmurHash3, which datasketch puts before its permutations."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


@cache
def band_shape(similarity: float) -> tuple[int, int]:
    """Bands, and values per band, that datasketch finds best.

    Aimed a tenth below the similarity wanted, and a miss counted as 19 times a needless candidate: of rows exactly as similar
    as 0.8, 99 in 100 become candidates.
    """
    index = MinHashLSH(threshold=0.9 * similarity, num_perm=PERMUTATIONS, weights=(0.05, 0.95))
    return index.b, index.r


def banded(signatures: NDArray[np.uint32], similarity: float) -> Keys:
    """One hash for each band of each signature; the same values in another band give another hash."""
    bands, width = band_shape(similarity)
    hashes = np.broadcast_to(np.arange(bands, dtype=np.uint64), (len(signatures), bands)).copy()
    for place in range(width):
        hashes = mixed(hashes, signatures[:, place : bands * width : width].astype(np.uint64))
    return hashes


def candidates(wanted: Keys, stock: Keys) -> tuple[Rows, Rows]:
    """Places of rows that share a band: for each row and band looked up, at most the first ``PER_BAND`` of the other side."""
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for band in range(wanted.shape[1]):
        order = np.argsort(stock[:, band], kind="stable")
        hashes = stock[order, band]
        first, last = np.searchsorted(hashes, wanted[:, band], "left"), np.searchsorted(hashes, wanted[:, band], "right")
        for step in range(PER_BAND):
            here = np.flatnonzero(first + step < last)
            pairs.append(np.stack([here, order[first[here] + step]], axis=1))
    both = np.unique(np.concatenate(pairs), axis=0)
    return both[:, 0], both[:, 1]
