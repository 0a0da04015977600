"""Clusters of rows: rows of a split that are not independent of each other.

Rows are linked by an equal text, by a nearly equal one, or by the group by which the source is divided
(``data.split.by``): a customer, a document. Rows that are connected by links are a cluster. A link may lead
through rows of other splits: two rows that resemble one row of train resemble each other.

Intervals and tests count clusters (``tuneline/judge/metrics/stats.py``): six copies of a row are one
observation.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.checks.analysis.near_duplicates import NO_ROW, OriginRows, find_near_duplicates, first_copies
from tuneline.core.stage.texts import (
    EncodedWords,
    Keys,
    normalized,
    renumbered,
    text_keys,
    unordered_row_keys,
    words,
)

Clusters = NDArray[np.int32]
"""Number of the cluster or group of each row, from 0 in the order of first rows, shape ``(rows,)``."""
BATCH_ROWS = 65_536


def cluster_splits(
    keys: Sequence[Keys], near_duplicates: Sequence[OriginRows], groups: Sequence[NDArray[Any] | None]
) -> list[Clusters]:
    """Return the clusters of each split.

    Args:
        keys: Keys of the texts of each split, equal for equal texts.
        near_duplicates: The row that each row resembles, or ``NO_ROW``, numbered through all splits.
        groups: The group of each row of a split; ``None`` for a split without groups.
    """
    if not keys:
        return []
    sizes = list(map(len, keys))
    links = [first_copies(np.concatenate(keys)), np.concatenate(near_duplicates)]

    # groups are of single splits: the source is divided so that no group is in two of them
    first = 0
    for size, group in zip(sizes, groups, strict=True):
        if group is not None:
            rows = np.full(sum(sizes), NO_ROW, np.int32)
            originals = first_copies(group)
            rows[first : first + size] = np.where(originals == NO_ROW, NO_ROW, originals + first)
            links.append(rows)
        first += size

    components = _components(links)
    return [renumbered(part) for part in np.split(components, np.cumsum(sizes)[:-1])]


def cluster_texts(columns: Sequence[pa.StringArray], similarity: float) -> Clusters:
    """Return the clusters of rows by their texts, one array for each text column.

    Args:
        columns: Texts without null.
        similarity: Similarity from which two rows are alike, as in the data check ``near_duplicates``.
    """
    plain = [normalized(column) for column in columns]
    keys = unordered_row_keys([text_keys(column) for column in plain])
    (similar,) = find_near_duplicates([_encoded(plain)], [keys], similarity)
    return cluster_splits([keys], [similar.origin], [None])[0]


def _encoded(columns: Sequence[pa.StringArray]) -> Iterable[EncodedWords]:
    """Yield the words of rows, a batch of rows at a time."""
    for start in range(0, len(columns[0]), BATCH_ROWS):
        yield EncodedWords.of(words([column.slice(start, BATCH_ROWS) for column in columns]))


def _components(links: Sequence[OriginRows]) -> Clusters:
    """Return the connected component of each row, given the rows that each row is linked to."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows = len(links[0])
    starts = [np.flatnonzero(link != NO_ROW) for link in links]
    ends = [link[start] for link, start in zip(links, starts, strict=True)]
    left = np.concatenate(starts)
    graph = coo_array((np.ones(len(left), np.int8), (left, np.concatenate(ends))), shape=(rows, rows))
    _, components = connected_components(graph, directed=False)
    return np.asarray(components, np.int32)
