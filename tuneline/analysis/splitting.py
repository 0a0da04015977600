"""Division of rows into train, validation and test (``data.split``), by a hash of each row's text or group.

The hash of ``seed`` and the text (or the column ``by``) is a position between 0 and 1. Test takes the lowest
positions, then validation, then train. So equal texts, or all rows of a group, are in the same split, and the
order of the rows does not matter.

With ``stratify: false`` the cuts are at the fractions: the split of a row depends on nothing but the row and
the seed, so it never changes when rows are added. The sizes are left to chance: of 320 rows, 10 % are 32,
give or take 5, and rare classes may be absent.

With ``stratify: true`` the cuts of each class are moved along this order until the class has its share of
texts, or of groups (each with the most frequent class of its rows), rounded up or down. Added rows can move
only the rows next to a cut (1 in 100 when 1,000 rows become 1,100), and only between validation and one of
its neighbours: rows below the middle of validation are never in train, and rows above it never in test. A
model is therefore not tested on rows that an earlier one was trained on, or the reverse, in either mode. The
exception: the last text or group of a class is in train, because a class that is not in train is an error.
"""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.analysis.text import Keys, normalized, unordered_row_keys
from tuneline.core.paths import SPLITS
from tuneline.params.data import SplitParams

TRAIN, VALIDATION, TEST = range(len(SPLITS))
NO_LABEL = 0


def hashes(values: pa.StringArray, seed: int = 0) -> Keys:
    """Return a 64-bit hash of each value, 0 where it is null.

    It is specified (BLAKE2b), so no update of a library changes a split.
    """
    coded = pc.dictionary_encode(values)
    key = seed.to_bytes(4, "little")
    digests = bytearray()
    for value in coded.dictionary.to_pylist():
        digests += hashlib.blake2b(value.encode(), digest_size=8, key=key).digest()

    # The last one is for null, whose index is -1.
    table: Keys = np.append(np.frombuffer(digests, ">u8").astype(np.uint64), np.uint64(0))
    indices = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
    result: Keys = table[indices]
    return result


def row_hashes(texts: list[pa.StringArray], groups: pa.StringArray | None, seed: int) -> Keys:
    """Return the hash of each row: of its group, the column ``by``, or of its texts where there is none.

    Case, white space and the order of a pair make no difference, as in the data check ``leakage``. A row
    whose group is null is a group of its own.
    """
    keys = unordered_row_keys([hashes(normalized(pc.fill_null(column, "")), seed) for column in texts])
    if groups is None:
        return keys
    has_group = groups.is_valid().to_numpy(zero_copy_only=False)
    return np.where(has_group, hashes(groups, seed), keys)


def assign_splits(rows: Keys, labels: Keys, split: SplitParams) -> NDArray[np.int8]:
    """Return the split of each row, as an index into ``SPLITS``, shape ``(rows,)``.

    Args:
        rows: Hash of each row (``row_hashes``).
        labels: Hash of the class of each row; ``NO_LABEL`` in every row of a regression, which is one
            stratum.
        split: The fractions, and whether each class is divided by them.
    """
    if not split.stratify:
        cuts = np.array([split.test, split.test + split.validation])
        parts = np.array([TEST, VALIDATION, TRAIN], np.int8)
        return parts[np.searchsorted(cuts, _positions(rows), side="right")]

    units, strata = _units(rows, labels)
    parts = np.full(len(units), TRAIN, np.int8)
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)  # in ascending order of their hashes
        test_stop, validation_stop = _cuts(_positions(units[members]), split)
        parts[members[:validation_stop]] = VALIDATION
        parts[members[:test_stop]] = TEST
    return parts[np.searchsorted(units, rows)]


def _positions(keys: Keys) -> NDArray[np.float64]:
    """Return hashes as numbers from 0 to 1, of the 53 bits that a float64 holds exactly."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _units(rows: Keys, labels: Keys) -> tuple[Keys, Keys]:
    """Return the distinct hashes of rows, ascending, and the most frequent label of each.

    There is one hash per text or group: a unit.
    """
    pairs = pa.table({"unit": rows, "label": labels}).group_by(["unit", "label"])
    counts = pairs.aggregate([([], "count_all")])
    unit = counts["unit"].to_numpy()
    label = counts["label"].to_numpy()
    count = counts["count_all"].to_numpy()

    # The last entry of each unit has its most frequent label.
    order = np.lexsort((label, np.where(label == NO_LABEL, 0, count), unit))
    last = order[np.append(unit[order][1:] != unit[order][:-1], True)]
    return unit[last], label[last]


def _cuts(positions: NDArray[np.float64], split: SplitParams) -> tuple[int, int]:
    """Return where test and validation end, among the ascending positions of one class's units."""
    last = len(positions) - 1  # this unit of a class stays in train
    middle = int(np.searchsorted(positions, split.test + split.validation / 2))
    if split.validation == 0:
        # There are no rows in between, so the cut stays at the fraction.
        return min(middle, last), min(middle, last)
    # Test stays below the middle of validation, and train above it.
    test_stop = min(_cut(positions, split.test), middle)
    validation_stop = max(_cut(positions, split.test + split.validation), middle)
    return min(test_stop, last), min(validation_stop, last)


def _cut(positions: NDArray[np.float64], fraction: float) -> int:
    """Return the cut next to a fraction that gives this fraction of the units, rounded up or down."""
    share = fraction * len(positions)
    return int(np.clip(np.searchsorted(positions, fraction), np.floor(share), np.ceil(share)))
