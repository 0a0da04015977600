"""Columns of dates and times: a random split tests on the days of the training."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tuneline.analysis.times import NUMBER_FORMATS, day, read_times
from tuneline.columns.choice import ColumnChoice
from tuneline.columns.classes import ID_NAME
from tuneline.columns.profiles import Cells, ColumnProfile

MOST_UNREAD = 0.05
"""Largest share of the values that are no time."""
FEWEST_TIMES = 3
"""Distinct times from which a file can be divided by them."""
MOST_WORDS = 6
"""Mean words of a time."""
NAMES = ("date", "time", "day", "year", "month", "created", "timestamp")
"""Parts of the names of columns whose plain numbers, such as 2019, are times."""


@dataclass(frozen=True)
class TimeColumn:
    """A column of times.

    Attributes:
        first: The earliest day in the sample.
        last: The latest day.
        layout: The format.
        rival: Another format that fits as well: the day may be the month.
    """

    name: str
    first: str
    last: str
    layout: str
    rival: str


def find_times(
    profiles: Sequence[ColumnProfile], sample: Sequence[Cells], decision: ColumnChoice
) -> list[TimeColumn]:
    """Return the columns of times, by a sample of the rows."""
    columns = []
    for position, profile in enumerate(profiles):
        if profile.name in (*decision.text_columns, *decision.label_columns) or profile.nested:
            continue
        if ID_NAME.fullmatch(profile.name.strip().lower()):
            continue
        cells = [row[position] for row in sample if row[position]]
        column = _as_times(profile, [cell for cell in cells if cell is not None])
        if column is not None:
            columns.append(column)
    return columns


def _as_times(profile: ColumnProfile, cells: Sequence[str]) -> TimeColumn | None:
    """Return a column with a time in nearly every row, given some of its cells; else ``None``."""
    is_filled = profile.filled >= profile.rows * (1 - MOST_UNREAD)
    if not cells or not is_filled or profile.mean_words > MOST_WORDS:
        return None
    times = read_times(pa.array(cells, pa.string()))
    read = times.values[times.is_read]
    if len(read) < len(cells) * (1 - MOST_UNREAD) or len(set(read.tolist())) < FEWEST_TIMES:
        return None
    is_plain = profile.is_numeric and times.layout not in NUMBER_FORMATS
    if is_plain and not any(part in profile.name.lower() for part in NAMES):
        return None
    return TimeColumn(profile.name, day(read.min()), day(read.max()), times.layout, times.rival)


def time_notes(times: Sequence[TimeColumn], by_time: str | None) -> list[str]:
    """Return what a random split means for rows with times, given the column ``by_time`` that decides."""
    notes = []
    for column in times:
        if column.name == by_time:
            continue
        option = f"--by-time {column.name!r}"
        note = (
            f"{column.name!r} is a date, from {column.first} to {column.last}. A random split has the same"
            " days in train and in test, so it does not say how the model does on later texts. If it will"
            f" read those, {option} trains on the earliest rows and tests on the latest; or make files of"
            " your own by date (train, validation, test)."
        )
        if column.rival:
            note += (
                f" Before that, write its dates as 2024-12-31: it is not clear which number is the day"
                f" ({column.layout} or {column.rival})."
            )
        notes.append(note)
    return notes
