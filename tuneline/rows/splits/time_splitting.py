"""Division of rows into train, validation and test by time (``data.split.by_time``).

The earliest rows are train, then validation, and the latest are test, as a model meets them when it is used.
Rows of one time are in one split. Classes play no part.

The cuts follow the fractions, so they move when later rows are added: rows that were test become train, and a
new model must not be compared with an old one on them. Equal texts of different times can be in two splits;
the data check ``leakage`` names them.
"""

import re
from collections.abc import Callable
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.params.data import SplitParams
from tuneline.core.runtime.errors import DataError
from tuneline.rows.splits.splitting import TEST, TRAIN, VALIDATION

Microseconds = NDArray[np.int64]
"""Times since 1970 (UTC), shape ``(rows,)``."""
UNREAD = np.iinfo(np.int64).min
"""Time of a value that is missing or is no time."""
NUMBERS: dict[str, Literal["s", "ms"]] = {r"\d{9,10}(\.\d+)?": "s", r"\d{12,13}": "ms"}
"""Unit of numbers since 1970, by their pattern."""

ZONE = re.compile(r"(?<=\d)\s*(?:(?:UTC|GMT)(?=[+-]\d)|([A-Z]{2,4})$)")
"""A zone at the end of a time. One before an offset, as in UTC+01:00, says nothing more."""
ZONES = {"UTC": 0, "GMT": 0, "UT": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3}
ZONES |= {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}
"""Hours from UTC of the zones of Europe and of RFC 5322."""


def read_times(texts: pa.StringArray) -> Microseconds:
    """Read times in ISO 8601, also with the name of a zone, or as seconds or milliseconds since 1970."""
    values = pd.Series(pc.utf8_trim_whitespace(texts).to_pylist(), dtype="object")
    values = values.str.replace(ZONE, _offset, regex=True)
    times = pd.to_datetime(values, format="ISO8601", utc=True, errors="coerce")
    for pattern, unit in NUMBERS.items():
        numbers = pd.to_numeric(values.where(values.str.fullmatch(pattern) == True))  # noqa: E712 - not null
        times = times.where(numbers.isna(), pd.to_datetime(numbers, unit=unit, utc=True))
    microseconds = times.to_numpy(dtype="datetime64[us]").astype(np.int64)
    return np.asarray(np.where(times.isna(), UNREAD, microseconds))


def _offset(zone: re.Match[str]) -> str:
    """Return a zone as hours and minutes; what is none of ``ZONES`` stays, and is no time."""
    if zone[1] is None:
        return ""
    return f"{ZONES[zone[1]]:+03d}:00" if zone[1] in ZONES else zone[0]


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
            "Write times as 2024-12-31, 2024-12-31T18:30:00Z or seconds since 1970, take the row out, or set"
            " data.split.by_time to null.",
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
