"""Rows that are near-identical to a few others: most of their pairs of neighbouring words are the same."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tuneline.cli.labels.labelled_rows import LabelledRows, Rows
from tuneline.files.schemas import ROW_GROUP
from tuneline.text import normalized, words

SIMILARITY = 0.5
"""Jaccard similarity of the sets of word pairs. One word in ten replaced leaves about 0.67."""
MOST = 3
"""Similar rows per row."""
FEATURES = 1 << 20
"""Hashes of word pairs: two of the pairs of a row have the same hash once in thousands of rows."""


def similar_rows(rows: LabelledRows, chosen: Rows) -> list[list[tuple[float, int]]]:
    """Return the most similar rows of each chosen row, at most ``MOST``, as (similarity, row), the most similar first."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(analyzer=_word_pairs, n_features=FEATURES, binary=True, norm=None, alternate_sign=False)
    known = hashing.transform(_words(rows.texts.take(pa.array(chosen))))
    sizes = np.diff(known.indptr)
    found: list[list[tuple[float, int]]] = [[] for _ in chosen]
    for start in range(0, len(rows), ROW_GROUP):
        batch = hashing.transform(_words(rows.texts.slice(start, ROW_GROUP)))
        shared = (batch @ known.T).tocoo()
        similarity = shared.data / (np.diff(batch.indptr)[shared.row] + sizes[shared.col] - shared.data)
        others, own = shared.row.astype(np.int64) + start, shared.col
        kept = np.flatnonzero((similarity >= SIMILARITY) & (others != chosen[own]))
        for index, other, value in zip(own[kept].tolist(), others[kept].tolist(), similarity[kept].tolist(), strict=True):
            found[index] = sorted([*found[index], (value, other)], key=lambda one: (-one[0], one[1]))[:MOST]
    return found


def _words(texts: pa.Table) -> Sequence[Sequence[str]]:
    return words([normalized(column.combine_chunks()) for column in texts.columns]).to_pylist()


def _word_pairs(row: Sequence[str]) -> list[str]:
    return [f"{first} {second}" for first, second in pairwise(row)]
