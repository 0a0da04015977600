"""Which rows are new: neither in the data already, nor earlier in the same run. Pure functions over hashes of texts, keys and labels."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.splitting import hashes, row_hashes
from tuneline.text import Keys, mixed

NONE = np.uint64(0)
"""Hash of a key or label that is missing."""


class RowStatus(IntEnum):
    """What becomes of a row."""

    NEW = 0
    DUPLICATE = 1
    """A row with the same key or the same texts has the same label."""
    CONFLICT = 2
    """A row with the same key or the same texts has another label."""
    HELD_OUT = 3
    """Its texts are in validation or test, which are not for training."""


@dataclass(frozen=True)
class RowHashes:
    """Hashes of rows, each of shape ``(rows,)``.

    Attributes:
        texts: Of the texts, as the division into splits compares them: case, white space and the order of a pair make no difference.
        keys: Of the key.
        labels: Of the label.
        held: True for rows of validation and test.
    """

    texts: Keys
    keys: Keys
    labels: Keys
    held: NDArray[np.bool_]

    @classmethod
    def of(cls, texts: list[pa.Array], labels: pa.Array, keys: pa.Array | None, *, held: bool = False) -> Self:
        """Hash rows."""
        none = np.zeros(len(labels), np.uint64)
        hashed = row_hashes(texts, None, 0) if len(labels) else none
        named = labels if pa.types.is_string(labels.type) else labels.cast(pa.string())
        return cls(hashed, none if keys is None else hashes(keys), hashes(named), np.full(len(labels), held))

    @classmethod
    def joined(cls, parts: "list[RowHashes]") -> Self:
        """Join the rows of several parts."""
        none = np.zeros(0, np.uint64)
        return cls(
            texts=np.concatenate([none, *(part.texts for part in parts)]),
            keys=np.concatenate([none, *(part.keys for part in parts)]),
            labels=np.concatenate([none, *(part.labels for part in parts)]),
            held=np.concatenate([np.zeros(0, np.bool_), *(part.held for part in parts)]),
        )


class _Index:
    """Identities (texts or keys) of the data, sorted, and their labels."""

    def __init__(self, identities: Keys, labels: Keys) -> None:
        present = identities != NONE
        self._identities = np.unique(identities[present])
        self._unlabelled = np.unique(identities[present & (labels == NONE)])
        self._labelled = np.unique(mixed(identities[present], labels[present]))

    def find(self, identities: Keys, labels: Keys) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which rows are in the data, and which of them only with another label."""
        found = _isin(identities, self._identities)
        same = _isin(mixed(identities, labels), self._labelled) | _isin(identities, self._unlabelled)
        return found, found & ~same


def _isin(values: Keys, known: Keys) -> NDArray[np.bool_]:
    """Return which values are in ``known``, which is sorted; ``np.isin`` would sort it again for each small file."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    return np.asarray(known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values)


@dataclass
class Selection:
    """Judges the rows of a run, file after file: the first of several equal rows is new.

    Attributes:
        known: The rows of the data.
    """

    known: RowHashes
    _texts: dict[int, int] = field(default_factory=dict)
    _keys: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = self.known
        self._by_text, self._by_key = _Index(known.texts, known.labels), _Index(known.keys, known.labels)
        self._held = np.unique(known.texts[known.held])

    def classify(self, rows: RowHashes) -> NDArray[np.int8]:
        """Return the ``RowStatus`` of each row, and remember the new ones."""
        statuses = np.full(len(rows.texts), RowStatus.NEW, np.int8)
        text_found, text_conflicts = self._by_text.find(rows.texts, rows.labels)
        key_found, key_conflicts = self._by_key.find(rows.keys, rows.labels)
        statuses[text_found | key_found] = RowStatus.DUPLICATE
        statuses[_isin(rows.texts, self._held)] = RowStatus.HELD_OUT
        statuses[text_conflicts | key_conflicts] = RowStatus.CONFLICT
        columns = (rows.texts.tolist(), rows.keys.tolist(), rows.labels.tolist())
        for row in np.flatnonzero(statuses == RowStatus.NEW).tolist():
            statuses[row] = self._compare(*(column[row] for column in columns))
        return statuses

    def _compare(self, text: int, key: int, label: int) -> RowStatus:
        """Compare a row with the new rows before it."""
        earlier = {found for found in (self._texts.get(text), self._keys.get(key) if key else None) if found is not None}
        if earlier:
            return RowStatus.DUPLICATE if earlier == {label} else RowStatus.CONFLICT
        self._texts[text] = label
        if key:
            self._keys[key] = label
        return RowStatus.NEW
