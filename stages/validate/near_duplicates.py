"""Near-duplicates across splits: MinHash finds candidates, their exact Jaccard similarity decides.

Rows of the later split are looked up in the earlier ones. The later side is a sample of bounded size; the earlier side streams
past it, whole. So time is linear in the rows, and memory does not grow with them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stages.validate.minhash import Shingled, candidates
from stages.validate.picking import take_rows
from stages.validate.raw import batches
from stages.validate.text import Keys

SLACK = 0.2
"""A candidate whose estimated similarity is further below the one wanted is not looked at. Three standard errors of an estimate
from 64 permutations are at most 0.19."""
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class NearDuplicates:
    """What was found for the rows of one split.

    Attributes:
        origin: The earlier row, counted through all earlier splits; -1 for none, NaN for a row that was not looked up.
        similarity: Jaccard similarity with that row, 0 for none.
    """

    origin: NDArray[np.float64]
    similarity: NDArray[np.float64]


def sample(keys: Keys, limit: int) -> Rows:
    """The rows with the smallest keys: a random sample that depends on the texts alone."""
    return np.sort(np.argsort(keys, kind="stable")[:limit])


def near_duplicates(
    path: Path, rows: Rows, total: int, *, earlier: Sequence[Path], text_columns: Sequence[str], similarity: float
) -> NearDuplicates:
    """Looks rows of one raw file up in those before it.

    Args:
        path: The raw file.
        rows: The numbers of the rows to look up, ascending.
        total: Rows in the file.
        earlier: The raw files that are searched.
        text_columns: The columns that hold texts.
        similarity: Jaccard similarity from which two rows are near-duplicates.
    """
    found = NearDuplicates(np.full(total, np.nan), np.zeros(total))
    found.origin[rows] = -1
    wanted = Shingled.of(_texts_of(path, rows, text_columns), similarity)
    start = 0
    for texts in (columns for file in earlier for columns in _texts(file, text_columns)):
        stock = Shingled.of(texts, similarity)
        open_places = np.flatnonzero(found.origin[rows] == -1)
        for place, other, jaccard in _matches(wanted, open_places, stock, similarity):
            if jaccard > found.similarity[rows[place]]:
                found.origin[rows[place]], found.similarity[rows[place]] = start + other, jaccard
        start += len(texts[0])
    return found


def _matches(wanted: Shingled, places: Rows, stock: Shingled, similarity: float) -> Iterator[tuple[int, int, float]]:
    """Yields pairs of places that are as similar as wanted, with their similarity."""
    left, right = candidates(wanted.bands[places], stock.bands)
    left = places[left]
    estimate = (wanted.signatures[left] == stock.signatures[right]).mean(axis=1)
    close = estimate >= similarity - SLACK
    for place, other in zip(left[close], right[close], strict=True):
        if (jaccard := wanted.jaccard(place, stock, other)) >= similarity:
            yield int(place), int(other), jaccard


def _texts(path: Path, text_columns: Sequence[str]) -> Iterator[list[pa.StringArray]]:
    for batch in batches(path, list(text_columns)):
        yield [pc.fill_null(batch[name], "") for name in text_columns]


def _texts_of(path: Path, rows: Rows, text_columns: Sequence[str]) -> list[pa.StringArray]:
    table = take_rows(path, rows, text_columns)
    return [pa.array(table[name].to_pylist(), pa.string()).fill_null("") for name in text_columns]
