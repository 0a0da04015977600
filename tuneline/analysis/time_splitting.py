"""Division of rows into train, validation and test by time (``data.split.by_time``).

The earliest rows are train, then validation, and the latest are test, as a model meets them when it is used.
Rows of one time are in one split. Classes play no part.

The cuts follow the fractions, so they move when later rows are added: rows that were test become train, and a
new model must not be compared with an old one on them. Equal texts of different times can be in two splits;
the data check ``leakage`` names them.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.analysis.splitting import TEST, TRAIN, VALIDATION
from tuneline.analysis.times import Microseconds, read_times
from tuneline.params.data import SplitParams
from tuneline.runtime.errors import DataError


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
        DataError: A row has no time, or the format of the times is not clear.
    """
    times = read_times(texts)
    column = f"column {split.by_time!r}"
    if times.rival:
        example = texts[int(times.is_read.argmax())]
        raise DataError(
            f"data.split.by_time: {column}: {example} can be {times.layout} or {times.rival}, and no value"
            " tells which.",
            "Write these dates as 2024-12-31.",
        )
    unread = np.flatnonzero(complete & ~times.is_read)
    if len(unread):
        row = int(unread[0])
        problem = f"{place(row)}, {column}: {texts[row].as_py()!r} is no time"
        if times.layout:
            problem += f" as the others are ({times.layout})"
        if len(unread) > 1:
            problem += f"; nor are {len(unread) - 1:,} others"
        raise DataError(
            f"data.split.by_time: {problem}.",
            "Correct it, take the row out, or set data.split.by_time to null. Formats: docs/your-data.md.",
        )

    parts = np.full(len(texts), TRAIN, np.int8)
    try:
        parts[complete] = assign_by_time(times.values[complete], split)
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
