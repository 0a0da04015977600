"""The times of a column of texts: dates, times and seconds since 1970, in one format for the whole column.

``DATE_FORMATS`` and ``NUMBER_FORMATS`` are the formats beside ISO 8601; pandas reads them. A column such as
03/04/2024 can have the day or the month first. If no value decides, both formats are named, and nothing is
guessed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Microseconds = NDArray[np.int64]

UNREAD = np.iinfo(np.int64).min
"""Time of a value that is missing or not read."""
ISO = "ISO8601"
NUMBER_FORMATS: Mapping[str, tuple[str, Literal["s", "ms"]]] = {
    "seconds since 1970": (r"^\d{9,10}(\.\d+)?$", "s"),
    "milliseconds since 1970": (r"^\d{12,13}$", "ms"),
}
"""Formats of numbers: a pattern, and the unit."""
_DATES = (
    "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y", "%d.%m.%Y", "%d.%m.%y",
    "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y",
)  # fmt: skip
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
DATE_FORMATS = (
    *(date + clock for date, clock in product(_DATES, _CLOCKS)),
    "%Y-%m-%d %H:%M:%S %Z",
    "%a, %d %b %Y %H:%M:%S %z",
    "%a %b %d %H:%M:%S %z %Y",
)
TRIED = 1_000
"""Distinct values with which the format is chosen."""


@dataclass(frozen=True)
class Times:
    """The times of a column.

    Attributes:
        values: Microseconds since 1970 (UTC) of each row, ``UNREAD`` where there is none.
        layout: The format, for people; empty if no value is a time.
        rival: Another format in which the values would be other times; empty if there is none.
    """

    values: Microseconds
    layout: str
    rival: str = ""

    @property
    def is_read(self) -> NDArray[np.bool_]:
        """Which rows have a time, shape ``(rows,)``."""
        return np.asarray(self.values != UNREAD)


def read_times(texts: pa.StringArray) -> Times:
    """Read a column in the format that fits most of its values."""
    coded = pc.dictionary_encode(pc.utf8_trim_whitespace(texts))
    distinct = pd.Series(coded.dictionary.to_pylist(), dtype="object")
    indices = pc.fill_null(coded.indices, len(distinct)).to_numpy(zero_copy_only=False)

    # the formats that read the most of all values, of those that read the most of the first ones
    tried = distinct[:TRIED]
    read = {layout: int((_parsed(tried, layout) != UNREAD).sum()) for layout in _layouts()}
    most = max(read.values())
    fitting: list[tuple[str, Microseconds]] = []
    for layout, number in read.items():
        if number == most and most > 0:
            fitting.append((layout, _parsed(distinct, layout)))
    if not fitting:
        return Times(np.full(len(texts), UNREAD), "")
    layout, values = max(fitting, key=lambda format_and_values: (format_and_values[1] != UNREAD).sum())

    # another one that reads as many, as other times
    rival = ""
    for name, others in fitting:
        reads_as_many = (others != UNREAD).sum() == (values != UNREAD).sum()
        if reads_as_many and not np.array_equal(others, values):
            rival = name
    return Times(np.append(values, UNREAD)[indices], layout, rival)


def _layouts() -> Iterator[str]:
    yield ISO
    yield from NUMBER_FORMATS
    yield from DATE_FORMATS


def _parsed(texts: pd.Series, layout: str) -> Microseconds:
    """Return the times of texts in a format, ``UNREAD`` for the texts that it does not fit."""
    if layout in NUMBER_FORMATS:
        pattern, unit = NUMBER_FORMATS[layout]
        numbers = pd.to_numeric(texts.where(texts.str.match(pattern)), errors="coerce")
        times = pd.to_datetime(numbers, unit=unit, utc=True, errors="coerce")
    else:
        times = pd.to_datetime(texts, format=layout, utc=True, errors="coerce")
    values = times.to_numpy(dtype="datetime64[us]").astype(np.int64)
    return np.asarray(np.where(times.isna(), UNREAD, values))


def day(microseconds: int) -> str:
    """Return the day of a time, such as 2024-03-01 (UTC)."""
    return str(np.datetime64(int(microseconds), "us").astype("datetime64[D]"))
