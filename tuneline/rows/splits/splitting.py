"""Division of rows into train, validation and test (``data.split``): by a hash of text or group, or by time.

The hash of ``seed`` and the text (or the column ``by``) is a position between 0 and 1. Test takes the lowest
positions, then validation, then train. So equal texts, or all rows of a group, are in the same split, and the
order of the rows does not matter.

With ``stratify: false`` the cuts are at the fractions: the split of a row depends on nothing but the row and
the seed, so it never changes when rows are added. The sizes are left to chance: of 320 rows, 10 % are 32,
give or take 5, and rare classes may be absent.

With ``stratify: true`` the cuts of each class are moved along this order until the class has its share of
texts, or of groups (each with the most frequent class of its rows), rounded up or down. Groups, and rows
with equal texts, stay whole, so that the rows of a class can miss its share. Added rows can move only the
rows next to a cut (1 in 100 when 1,000 rows become 1,100); in a class of a few dozen rows, that can be from
train to test, or the reverse. The last text or group of a class is in train, because a class that is not in
train is an error.

Rows with several labels are divided label by label, as in iterative stratification (Sechidis, Tsoumakas &
Vlahavas, "On the Stratification of Multi-Label Data", 2011): the label with the fewest rows that are not yet
divided comes first, and they fill up what each split lacks of it. There they are drawn at random, and their
order decides here, so that rows stay where they are. It costs exactness: of 25 labels of 4,000 rows, the
share of a label in test or validation misses the fraction by 1.9 % in the mean, 0.8 % with theirs, and 11 %
where nothing is stratified.

With ``by_time`` the earliest rows are train, then validation, and the latest are test, as a model meets them
when it is used. Rows of one time are in one split. Classes play no part. The cuts follow the fractions, so
they move when later rows are added: rows that were test become train, and a new model must not be compared
with an old one on them. Equal texts of different times can be in two splits; the data check ``leakage`` names
them.
"""

import hashlib
from collections.abc import Callable
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.params.data import SplitParams
from tuneline.core.paths import SPLITS
from tuneline.core.runtime.errors import DataError
from tuneline.core.stage.texts import Keys, normalized, unordered_row_keys
from tuneline.model.tasks import Task
from tuneline.model.tasks.columns import staged_type

TRAIN, VALIDATION, TEST = range(len(SPLITS))
UNDIVIDED = -1
NO_STRATUM = 0


def strata(task: Task, labels: pa.Array) -> pa.Array:
    """Return the strata that each row is in, as lists of text: each stratum has its share of each split.

    Labels are of ``staged_type``. A row without a label is in none, and numbers are not classes; a row with
    no label of several is in the stratum of the empty text.
    """
    if not task.has_classes:
        return pa.array([[]] * len(labels), pa.list_(pa.string()))
    if task.one_class:
        row_ends = np.cumsum(labels.is_valid().to_numpy(zero_copy_only=False))
        offsets = np.concatenate([[0], row_ends])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), labels.drop_null())
    is_empty = pc.equal(pc.list_value_length(labels), 0)
    sets = pc.if_else(is_empty, pa.scalar([""], staged_type(task)), labels)
    return pc.fill_null(sets, pa.scalar([], staged_type(task)))


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


def assign_splits(rows: Keys, strata: pa.ListArray, split: SplitParams) -> NDArray[np.int8]:
    """Return the split of each row, as an index into ``SPLITS``, shape ``(rows,)``.

    Args:
        rows: Hash of each row (``row_hashes``).
        strata: Names of the strata that each row is in (``Task.strata``).
        split: The fractions, and whether each stratum is divided by them.
    """
    if not split.stratify:
        cuts = np.array([split.test, split.test + split.validation])
        parts = np.array([TEST, VALIDATION, TRAIN], np.int8)
        return parts[np.searchsorted(cuts, _positions(rows), side="right")]

    units, strata = _units(rows, strata)
    parts = _stratified(_positions(units), strata, split)
    return parts[np.searchsorted(units, rows)]


def _stratified(positions: NDArray[np.float64], strata: pa.ListArray, split: SplitParams) -> NDArray[np.int8]:
    """Return the split of each unit, given their positions, ascending, and their strata."""
    parts = np.full(len(positions), UNDIVIDED, np.int8)

    # pairs of a unit and a stratum that it is in
    unit = pc.list_parent_indices(strata).to_numpy().astype(np.int64)
    names, stratum = np.unique(hashes(pc.list_flatten(strata)), return_inverse=True)

    # the stratum with the fewest undivided units, until none has any
    while True:
        undivided_units = np.bincount(stratum[parts[unit] == UNDIVIDED], minlength=len(names))
        if not undivided_units.any():
            break
        fewest = int(np.where(undivided_units > 0, undivided_units, len(positions) + 1).argmin())
        _divide(parts, unit[stratum == fewest], positions, split)

    # what is in no stratum
    rest = np.flatnonzero(parts == UNDIVIDED)
    if len(rest):
        _divide(parts, rest, positions, split)
    return parts


def _divide(
    parts: NDArray[np.int8], members: NDArray[np.int64], positions: NDArray[np.float64], split: SplitParams
) -> None:
    """Divide the undivided units of a stratum so that the whole stratum has its share of each split.

    ``members`` are the indices of all units of the stratum in ``parts``, ascending.
    """
    undivided = members[parts[members] == UNDIVIDED]

    # what the splits have of the stratum already
    test = np.count_nonzero(parts[members] == TEST)
    validation = np.count_nonzero(parts[members] == VALIDATION)
    test_stop, validation_stop = _cuts(
        positions[undivided],
        split,
        test=split.test * len(members) - test,
        validation=split.validation * len(members) - validation,
    )

    parts[undivided] = TRAIN
    parts[undivided[:validation_stop]] = VALIDATION
    parts[undivided[:test_stop]] = TEST


def _positions(keys: Keys) -> NDArray[np.float64]:
    """Return hashes as numbers from 0 to 1, of the 53 bits that a float64 holds exactly."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _units(rows: Keys, strata: pa.ListArray) -> tuple[Keys, pa.ListArray]:
    """Return the distinct hashes of rows, ascending, and the strata that are the most frequent ones of each.

    There is one hash per text or group: a unit.
    """
    # one key for the strata of a row: the sum of their hashes, which has no order
    keys = np.full(len(rows), NO_STRATUM, np.uint64)
    np.add.at(keys, pc.list_parent_indices(strata).to_numpy(), hashes(pc.list_flatten(strata)))

    # how often each unit has which strata
    table = pa.table({"unit": rows, "strata": keys, "row": np.arange(len(rows))})
    counted = table.group_by(["unit", "strata"]).aggregate([("row", "count"), ("row", "min")])
    unit = counted["unit"].to_numpy()
    key = counted["strata"].to_numpy()
    count = counted["row_count"].to_numpy()
    first_row = counted["row_min"].to_numpy()

    # The last entry of each unit has its most frequent strata.
    order = np.lexsort((key, np.where(key == NO_STRATUM, 0, count), unit))
    last = order[np.append(unit[order][1:] != unit[order][:-1], True)]
    return unit[last], strata.take(pa.array(first_row[last]))


def _cuts(
    positions: NDArray[np.float64], split: SplitParams, test: float, validation: float
) -> tuple[int, int]:
    """Return where test and validation end, among the ascending positions of one stratum's undivided units.

    ``test`` and ``validation`` are how many of them each should get; negative if it has too many already.
    """
    last = len(positions) - 1  # this unit of a stratum stays in train
    test = max(test, 0.0)
    validation = max(validation, 0.0)
    test_stop = np.clip(np.searchsorted(positions, split.test), np.floor(test), np.ceil(test))

    # validation is rounded up or down, and so are both together
    fewest = max(test_stop + np.floor(validation), np.floor(test + validation))
    most = min(test_stop + np.ceil(validation), np.ceil(test + validation))
    both = np.searchsorted(positions, split.test + split.validation)
    validation_stop = np.clip(both, fewest, most)
    return min(int(test_stop), last), min(int(validation_stop), last)


# By time.

Microseconds = NDArray[np.int64]
"""Times since 1970 (UTC), shape ``(rows,)``."""
UNREAD = np.iinfo(np.int64).min
"""Time of a value that is missing or is no time."""
NUMBERS: dict[str, Literal["s", "ms"]] = {r"\d{9,10}(\.\d+)?": "s", r"\d{12,13}": "ms"}
"""Unit of numbers since 1970, by their pattern."""

UTC = r"(?<=\d)\s*(?:UTC|GMT)(?=[+-]\d|$)"
"""The name of UTC at the end of a time, or before an offset. Other names can be several zones, as CST can."""


def read_times(texts: pa.StringArray) -> Microseconds:
    """Read times in ISO 8601, also with the name of UTC, or as seconds or milliseconds since 1970."""
    import pandas as pd

    values = pd.Series(pc.utf8_trim_whitespace(texts).to_pylist(), dtype="object")
    values = values.str.replace(UTC, "", regex=True)
    times = pd.to_datetime(values, format="ISO8601", utc=True, errors="coerce")
    for pattern, unit in NUMBERS.items():
        numbers = pd.to_numeric(values.where(values.str.fullmatch(pattern) == True))  # noqa: E712 - not null
        times = times.where(numbers.isna(), pd.to_datetime(numbers, unit=unit, utc=True))
    microseconds = times.to_numpy(dtype="datetime64[us]").astype(np.int64)
    return np.asarray(np.where(times.isna(), UNREAD, microseconds))


def split_by_time(
    texts: pa.StringArray,
    complete: NDArray[np.bool_],
    split: SplitParams,
    place: Callable[[int], str],
) -> NDArray[np.int8]:
    """Return the split of each row, as ``assign_by_time``, from the texts of its times.

    Args:
        texts: The column ``by_time``.
        complete: Which rows need a time; others are left out later, and are in train here.
        split: The column and the fractions.
        place: Where a row is, for messages.

    Raises:
        DataError: A row has no time.
    """
    times = read_times(texts)
    column = f"column {split.by_time!r}"
    unread = np.flatnonzero(complete & (times == UNREAD))
    if len(unread):
        row = int(unread[0])
        problem = f"{place(row)}, {column}: {texts[row].as_py()!r} is no time"
        if len(unread) > 1:
            problem += f"; nor are {len(unread) - 1:,} others"
        raise DataError(
            f"data.split.by_time: {problem}.",
            "Write times as 2024-12-31, 2024-12-31T18:30:00+01:00 or seconds since 1970, take the row out, or"
            " set data.split.by_time to null.",
        )

    parts = np.full(len(texts), TRAIN, np.int8)
    try:
        parts[complete] = assign_by_time(times[complete], split)
    except ValueError as error:
        raise DataError(f"data.split.by_time: {column} {error}.", "Name another column.") from None
    return parts


def assign_by_time(times: Microseconds, split: SplitParams) -> NDArray[np.int8]:
    """Return the split of each row by its time, as an index into ``SPLITS``, shape ``(rows,)``.

    Each cut is the one between two times that is next to its fraction of the rows.

    Raises:
        ValueError: There are fewer times than splits.
    """
    distinct, numbers, rows = np.unique(times, return_inverse=True, return_counts=True)
    needed = 1 + (split.validation > 0) + (split.test > 0)
    if len(distinct) < needed:
        raise ValueError(f"has {len(distinct)} distinct times, and {needed} splits need {needed}")
    before = (np.cumsum(rows) - rows) / len(times)  # share of the rows that are earlier than each time

    first_test = len(distinct)
    if split.test > 0:
        first_test = _nearest(before, 1 - split.test, needed - 1, first_test - 1)
    first_validation = first_test
    if split.validation > 0:
        first_validation = _nearest(before, 1 - split.test - split.validation, 1, first_test - 1)

    parts = np.full(len(distinct), TRAIN, np.int8)
    parts[first_validation:first_test] = VALIDATION
    parts[first_test:] = TEST
    return parts[numbers]


def _nearest(shares: NDArray[np.float64], share: float, first: int, last: int) -> int:
    """Return the index from ``first`` to ``last`` whose share is nearest."""
    return first + int(np.abs(shares[first : last + 1] - share).argmin())
