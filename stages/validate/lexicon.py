"""How often each word occurs, by hash: no text of the data leaves it, and memory has a bound."""

from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.validate.text import BOUNDARY, Keys, text_keys

LIMIT = 1 << 21
"""Different words that are counted; beyond it the rarest are forgotten."""


class Lexicon:
    """Words and their counts.

    Attributes:
        hashes: Of the words, ascending.
        counts: How often each occurs, in the same order.
    """

    def __init__(self, hashes: Keys, counts: NDArray[np.int64]) -> None:
        self.hashes = hashes
        self.counts = counts

    @classmethod
    def empty(cls) -> Self:
        """No words yet."""
        return cls(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, rows: pa.ListArray) -> Self:
        """Counts the words of some rows."""
        found = pc.value_counts(rows.flatten())
        keep = pc.not_equal(found.field("values"), BOUNDARY)
        return cls(*_summed(text_keys(found.field("values").filter(keep)), found.field("counts").filter(keep).to_numpy()))

    def plus(self, other: "Lexicon") -> "Lexicon":
        """Both together."""
        hashes, counts = _summed(np.concatenate([self.hashes, other.hashes]), np.concatenate([self.counts, other.counts]))
        if len(hashes) > LIMIT:
            kept = np.sort(np.argsort(-counts, kind="stable")[: LIMIT // 2])
            hashes, counts = hashes[kept], counts[kept]
        return Lexicon(hashes, counts)

    def most_common(self, number: int) -> Keys:
        """Hashes of the most frequent words, ascending."""
        return np.sort(self.hashes[np.argsort(-self.counts, kind="stable")[:number]])

    def share_in(self, known: Keys) -> float:
        """The share of all occurrences whose word is among ``known``; 1 when there are none."""
        total = int(self.counts.sum())
        return float(self.counts[np.isin(self.hashes, known)].sum() / total) if total else 1.0


def _summed(hashes: Keys, counts: NDArray[np.int64]) -> tuple[Keys, NDArray[np.int64]]:
    unique, places = np.unique(hashes, return_inverse=True)
    return unique, np.bincount(places, weights=counts, minlength=len(unique)).astype(np.int64)
