"""How the train file becomes the splits that have no file, and which column must not be divided."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tuneline.analysis.similarity import WordSets
from tuneline.analysis.text import EncodedWords, normalized, words
from tuneline.columns.choice import ColumnChoice
from tuneline.columns.labels import is_date, names_person
from tuneline.columns.profiles import Column
from tuneline.columns.readings import UserChoices
from tuneline.params.data import SplitParams
from tuneline.readers.rows import check_columns
from tuneline.runtime.errors import DataError

LEAST_ROWS = {"test": 300, "validation": 150}
"""Rows of the two splits below which they get a larger part of a small file, within ``LARGEST_FRACTION``."""
LARGEST_FRACTION = {"test": 0.3, "validation": 0.15}
FEWEST_VALUES = 5
LEAST_MATES, MOST_MATES = 0.5, 50
"""Mean number of other rows with the value of a row: with fewer it is an id, with more a category."""
ALIKE = 0.2
"""Smallest difference between the similarity of texts of one value and of different values."""
LEAST_T = 4.0
"""Smallest t statistic of that difference."""


def usual_split(rows: int) -> SplitParams:
    """Return how a file of so many rows is divided.

    Validation and test get a tenth each, and more of a small file, or its test could tell nothing apart.
    """
    usual = SplitParams()
    fractions = {}
    for name, least in LEAST_ROWS.items():
        required = math.ceil(least / rows * 100) / 100
        fractions[name] = max(min(required, LARGEST_FRACTION[name]), getattr(usual, name))
    return SplitParams(**fractions)


def plan_division(
    without_file: Sequence[str],
    columns: Mapping[str, Column],
    choices: UserChoices,
    now: SplitParams,
    group: str | None,
) -> SplitParams | None:
    """Return how the train file is divided; ``None`` if every split has a file of its own.

    Args:
        without_file: Names of the splits without a file.
        columns: The columns of the train file.
        choices: What the user said.
        now: The division that is kept, where the user said nothing else.
        group: The column of alike texts that decides, where the user said nothing else.

    Raises:
        DataError: A column that the user named is missing, both are named, or nothing is divided.
    """
    by, by_time = choices.by, choices.by_time
    if by is not None and by_time is not None:
        raise DataError(
            "--by and --by-time contradict each other: rows of one value can be of any time.",
            "Leave out one of them.",
        )
    option = "--by" if by is not None else "--by-time"
    named = by or by_time
    if named is not None:
        check_columns(list(columns), [named], "The train file")
        if not without_file:
            raise DataError(
                f"{option} divides a file, but every split has a file of its own.",
                f"Leave out {option}, or name fewer files.",
            )
    if not without_file:
        return None
    if named is None and not choices.no_by:
        by, by_time = (group, None) if group is not None else (now.by, now.by_time)
        if (by or by_time) not in columns:
            by = by_time = None

    # the splits with a file take nothing from the train file
    usual = SplitParams()
    fractions = {"validation": 0.0, "test": 0.0}
    for name in fractions:
        if name in without_file:
            fractions[name] = getattr(now, name) or getattr(usual, name)
    return SplitParams(**fractions, by=by, by_time=by_time, stratify=now.stratify)


@dataclass(frozen=True)
class GroupColumn:
    """A column whose values have a few rows each with alike texts, such as a customer or a document.

    Rows with one value must not be divided, or a test would ask what the model was trained on.

    Attributes:
        rows: Mean number of rows with the value of a row.
        within: Mean similarity of two different texts of one value, from 0 to 1.
        across: Mean similarity of texts of different values.
    """

    name: str
    rows: float
    within: float
    across: float


def find_group(columns: Mapping[str, Column], decision: ColumnChoice) -> GroupColumn | None:
    """Return the coarsest column of alike texts, by the sample of the rows."""
    texts = list(zip(*(columns[name].cells for name in decision.text_columns), strict=True))
    groups = []
    for column in columns.values():
        is_read = column.name in (*decision.text_columns, *decision.label_columns)
        if not is_read and _can_be_group(column):
            group = _compared(column, texts)
            if group is not None:
                groups.append(group)
    return max(groups, key=lambda group: group.rows, default=None)


def _can_be_group(column: Column) -> bool:
    is_other = column.numbers_rows or column.nested or column.fractions or not column.filled
    return not (is_other or is_date(column) or names_person(column.name))


def pairs_of(values: Iterable[Hashable]) -> int:
    """Return the number of ordered pairs of equal values."""
    return sum(count * (count - 1) for count in Counter(values).values())


def _compared(column: Column, texts: Sequence[tuple[str | None, ...]]) -> GroupColumn | None:
    """Compare two different texts of each value, and the texts of neighbouring values.

    Equal texts do not count: they are in one split anyway.
    """
    rows_of: dict[str, list[int]] = {}
    for row, cell in enumerate(column.cells):
        if cell and cell.strip() and any(texts[row]):
            rows_of.setdefault(cell.strip(), []).append(row)
    pairs = pairs_of(value for value, members in rows_of.items() for _ in members)
    rows = pairs / max(sum(map(len, rows_of.values())), 1) * column.sampled_once_in
    if len(rows_of) < FEWEST_VALUES or not LEAST_MATES <= rows <= MOST_MATES:
        return None

    first = []
    second = []
    for members in rows_of.values():
        others = [row for row in members if texts[row] != texts[members[0]]]
        if others:
            first.append(members[0])
            second.append(others[0])
    if len(first) < 2:
        return None
    cells = zip(*(texts[row] for row in first + second), strict=True)
    arrays = [normalized(pa.array([text or "" for text in column], pa.string())) for column in cells]
    sets = WordSets.of([EncodedWords.of(words(arrays))])
    left = np.arange(len(first))
    own = sets.similarity(left, len(first) + left)
    foreign = sets.similarity(left, len(first) + np.roll(left, -1))
    gains = own - foreign
    t = gains.mean() / max(gains.std(ddof=1) / len(gains) ** 0.5, 1e-9)
    if gains.mean() < ALIKE or t < LEAST_T:
        return None
    return GroupColumn(column.name, 1 + rows, float(own.mean()), float(foreign.mean()))


def division_notes(
    division: SplitParams, group: GroupColumn | None, columns: Mapping[str, Column], decision: ColumnChoice
) -> list[str]:
    """Return what columns of groups and of dates mean for the division."""
    notes = []
    if group is not None and division.by_time is None:
        likeness = (
            f"{group.name!r} has {group.rows:.1f} rows per value, and texts of one value have a similarity of"
            f" {group.within:.2f}, of different values {group.across:.2f}: with such rows in train and in"
            " test, the metric would be too good."
        )
        if division.by == group.name:
            notes.append(f"by {likeness} --no-by divides them by text.")
        else:
            notes.append(f"! {likeness} --by {group.name!r} keeps them in one split.")
    for column in columns.values():
        is_read = column.name in (*decision.text_columns, *decision.label_columns)
        if not is_read and division.by_time is None and column.filled and is_date(column):
            notes.append(
                f"{column.name!r} has dates: a random split has the same days in train and in test."
                f" --by-time {column.name!r} tests on the latest rows."
            )
    return notes
