"""The choice of the label: every reading of every column in one table, and the doubts between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tuneline.columns.classes import FEW_CLASSES, class_reading, holds_texts, is_date, is_id
from tuneline.columns.doubts import Alternative, ColumnDoubt, NamedColumns
from tuneline.columns.label_groups import (
    CLEAR_COLUMNS,
    group_readings,
    indicator_reading,
    indicator_words,
    joined_names,
)
from tuneline.columns.numbers import number_readings
from tuneline.columns.reading import CLOSE, Column, LabelReading
from tuneline.columns.refusals import check_label, no_label, not_indicators, refuse_as_label
from tuneline.columns.sets import PROVED, separated_by, set_readings
from tuneline.core.task_kinds import SET_KINDS
from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import listed
from tuneline.sniffing.names import LABEL_NAMES, ONLY_LABEL_NAMES, SET_NAMES


def _as_list(reading: LabelReading | None) -> list[LabelReading]:
    return [] if reading is None else [reading]


READINGS: Sequence[Callable[[Column], list[LabelReading]]] = (
    lambda column: _as_list(class_reading(column)),
    number_readings,
    set_readings,
)
"""The ways to read one column as the label. A new one is a function and an entry."""
GROUP_READINGS = group_readings
"""The ways to read several columns together."""
NAMED_LABEL = 3.0
"""Points of a known name of a label."""
ONLY_LABEL = 4.5
"""Points of a name that says that the column is the label, whatever other columns there are."""
LABEL_WORDS = ("label", "class", "categor", "target", "sentiment", "intent", "topic", "tag", "genre")
"""Words in the name of a label."""
CLASS_WORDS = ("class", "categor", "intent", "topic", "code")
"""Words in the name of a column whose numbers are those of classes, however many there are."""
LIKE_LABEL = 1.5
"""Points of a name that has one of ``LABEL_WORDS``: half as many, because ``class_size`` has one, too."""
LEAST_COVERAGE = 0.5
"""Share of the rows that have a label, below which the reading explains too little."""
GAPS = 4.0
"""Points that a label loses for rows without one."""
SURELY_NUMBERS = 1.0
"""Points from which a column of many values holds numbers and no classes."""
TOO_FEW = 0.5
"""Points below which nothing looks like a label."""


@dataclass(frozen=True)
class LabelChoice:
    """The reading of the label.

    Attributes:
        reading: The best one.
        why: The reason.
        doubt: The question, where another reading is close or this one explains too little.
    """

    reading: LabelReading
    why: str
    doubt: ColumnDoubt | None = None


def choose_label(columns: Sequence[Column], named: NamedColumns) -> LabelChoice:
    """Choose the reading of the label.

    Raises:
        DataError: No column looks like a label, or what the user named cannot be read so.
    """
    if len(named.label) > 1:
        return LabelChoice(_of_several(columns, named), NAMED_BY_USER)
    if named.label:
        return _of_one(columns, named)

    readings = _fitting(label_readings(columns, named), named)
    likely: set[str] = set()
    for reading in readings:
        if reading.points >= TOO_FEW:
            likely.update(reading.columns)
    for column in columns:
        if column.key in ONLY_LABEL_NAMES and column.name not in likely:
            refuse_as_label(column)
    if not likely:
        raise no_label(columns)
    best, *others = readings
    return LabelChoice(best, _why(best, others), label_doubt(best, _close_to(best, others), named))


def _fitting(readings: Sequence[LabelReading], named: NamedColumns) -> list[LabelReading]:
    """Return the readings that are what the user said, the best first."""
    fitting = list(filter(named.allow, readings))
    if not fitting and named.task in SET_KINDS:
        fitting = list(readings)  # a label in each of several rows of a text: the rows decide
    return sorted(fitting, key=lambda reading: -reading.points)


def _close_to(best: LabelReading, others: Sequence[LabelReading]) -> list[LabelReading]:
    """Return the readings between which and the best one a person has to choose."""
    close = []
    for reading in others:
        if best.points - reading.points < CLOSE:
            close.append(reading)
    return close


def label_readings(columns: Sequence[Column], named: NamedColumns) -> list[LabelReading]:
    """Return every reading of every column that can be the label, with its evidence."""
    candidates = []
    for column in columns:
        if column.name not in named.text and column.profile.filled:
            candidates.append(column)

    readings: list[LabelReading] = []
    members: set[str] = set()
    if not named.one_label:
        for reading in GROUP_READINGS(candidates):
            readings.append(named_points(reading, columns))
            if readings[-1].points >= PROVED or len(reading.columns) >= CLEAR_COLUMNS:
                members.update(reading.columns)
    for column in candidates:
        if column.name in members and column.key not in ONLY_LABEL_NAMES:
            continue
        for reading in column_readings(column, named):
            readings.append(with_evidence(reading, column))
    return readings


def column_readings(column: Column, named: NamedColumns) -> list[LabelReading]:
    """Return every reading of one column.

    Of a set that the values prove, the combinations are no classes; nor are many different numbers.
    """
    if named.separator is not None:
        return [separated_by(column, named.separator)]
    found = []
    for read in READINGS:
        found += read(column)
    if named.one_label and found:
        single = list(filter(_is_single, found))
        return single or [_forced(column, named)]

    are_sets = any(reading.sets is not None and reading.points >= PROVED for reading in found)
    are_numbers = any(reading.task == "regression" and reading.points >= SURELY_NUMBERS for reading in found)
    has_many = len(column.values) > FEW_CLASSES
    if any(word in column.key for word in CLASS_WORDS):
        has_many = False
        found = list(map(_as_rather_classes, found))
    readings = []
    for reading in found:
        is_ruled_out = are_sets and _is_single(reading) and not reading.refused
        if are_numbers and has_many and reading.task == "classification":
            is_ruled_out = True
        if not is_ruled_out:
            readings.append(reading)
    return readings


def _as_rather_classes(reading: LabelReading) -> LabelReading:
    """Return a reading with the evidence of a name that is one of classes."""
    if reading.task == "regression":
        return reading.better_by(-1.0)
    return reading


def _is_single(reading: LabelReading) -> bool:
    """Return True if a row has one label."""
    return reading.sets is None


NUMBERS_ROWS = -6.0
"""Points of a column that numbers the rows."""
NAMES_ROWS = -2.5
"""Points of a column whose name says that it names the rows."""
IS_DATE = -4.0
"""Points of a column of dates: more than a known name has, because ``target`` may be a day, too."""
IS_TEXT = -4.0
"""Points of a column of texts, likewise."""
NO_EVIDENCE = 0.0
"""Points of a reading that only the user's word speaks for."""


def with_evidence(reading: LabelReading, column: Column) -> LabelReading:
    """Return a reading with the evidence of the column: its name, its gaps, and what else it looks like."""
    points = 0.0
    if column.profile.numbered and column.profile.filled > 2:
        points += NUMBERS_ROWS
    elif is_id(column) and column.key not in LABEL_NAMES:
        points += NAMES_ROWS
    if is_date(column):
        points += IS_DATE
    if holds_texts(column) and _is_single(reading):
        points += IS_TEXT
    return named_points(reading, [column]).better_by(points)


def named_points(reading: LabelReading, columns: Sequence[Column]) -> LabelReading:
    """Return a reading with the evidence of the names of its columns and of the rows without a label."""
    keys = [column.key for column in columns if column.name in reading.columns]
    points = 0.0
    if len(keys) == 1:
        key = keys[0]
        if key in ONLY_LABEL_NAMES:
            points = ONLY_LABEL
        elif key in LABEL_NAMES or (key in SET_NAMES and reading.sets is not None):
            points = NAMED_LABEL
        elif key in SET_NAMES or any(word in key for word in LABEL_WORDS):
            points = LIKE_LABEL
    gaps = 1 - reading.coverage
    if reading.sets is not None and reading.sets.layout in ("separated", "lists"):
        gaps = max(0.0, gaps - LEAST_COVERAGE)  # an empty cell is the empty set
    return reading.better_by(points - GAPS * gaps)


def label_doubt(
    best: LabelReading, rivals: Sequence[LabelReading], named: NamedColumns
) -> ColumnDoubt | None:
    """Return the question between close readings, or about one that explains too little; else ``None``."""
    asked = [best, *rivals][:4]
    if best.refused:
        raise DataError(
            f"{_place(best)}: {best.why}: {best.trains}, which cannot be read as they are.",
            best.refused,
        )
    readable = tuple(_alternative(reading, named) for reading in asked if not reading.refused)
    if len(readable) > 1:
        if len({reading.columns for reading in asked}) > 1:
            problem = f"Several columns can be the label: {_named(asked)}"
        else:
            problem = f"Column {best.name!r} can be read in several ways"
        return ColumnDoubt(problem, readable)
    if best.coverage < LEAST_COVERAGE:
        problem = (
            f"{_place(best)} {'is' if len(best.columns) == 1 else 'are'} empty in"
            f" {1 - best.coverage:.0%} of the rows, which would be left out"
        )
        return ColumnDoubt(problem, readable)
    return None


def _alternative(reading: LabelReading, named: NamedColumns) -> Alternative:
    choice = replace(
        named,
        label=reading.columns,
        task=reading.task,
        separator=reading.sets.separator if reading.sets else None,
        decimal=reading.numbers.decimal if reading.sets is None else None,
    )
    return Alternative(reading.trains, reading.options, choice)


def _place(reading: LabelReading) -> str:
    if len(reading.columns) == 1:
        return f"Column {reading.columns[0]!r}"
    return f"Columns {listed(reading.columns, 4)}"


def _named(readings: Sequence[LabelReading]) -> str:
    places = []
    for reading in readings:
        place = listed(reading.columns, 3)
        if place not in places:
            places.append(place)
    return "; ".join(places)


def _why(best: LabelReading, others: Sequence[LabelReading]) -> str:
    """Return why a reading is the best, with the next columns that could be the label, too."""
    if best.name.strip().lower() in (*LABEL_NAMES, *SET_NAMES):
        why = "by its name"
    elif best.sets is not None:
        why = "it has several labels per row"
    else:
        why = best.why
    further = []
    for other in others:
        is_other = not set(other.columns) & set(best.columns) and not other.refused
        if is_other and other.points >= TOO_FEW and other.name not in further:
            further.append(other.name)
    if further:
        why += f"; {listed(further, 4)} could be the label, too: --label COLUMN"
    return why


def _of_several(columns: Sequence[Column], named: NamedColumns) -> LabelReading:
    """Return the reading of several columns that the user named.

    Raises:
        DataError: Some have 0 and 1, and others do not.
    """
    chosen = [_named_column(columns, name) for name in named.label]
    are_indicators = [indicator_words(column) is not None for column in chosen]
    reading = None
    if all(are_indicators):
        reading = indicator_reading(chosen, named=True)
    elif not any(are_indicators):
        reading = joined_names(chosen)
    if reading is None:
        raise not_indicators(chosen)
    return reading


def _named_column(columns: Sequence[Column], name: str) -> Column:
    return next(column for column in columns if column.name == name)


def _of_one(columns: Sequence[Column], named: NamedColumns) -> LabelChoice:
    """Return the reading of the column that the user named.

    Raises:
        DataError: It has one value.
    """
    column = _named_column(columns, named.label[0])
    check_label(column)
    readings = _fitting(column_readings(column, named), named)
    if not readings:
        return LabelChoice(_forced(column, named), NAMED_BY_USER)
    best, *others = readings
    close = _close_to(best, others)
    doubt = None
    if best.refused or (close and named.task not in SET_KINDS):
        doubt = label_doubt(best, close, named)
    return LabelChoice(best, NAMED_BY_USER, doubt)


NAMED_BY_USER = "named by you"


def _forced(column: Column, named: NamedColumns) -> LabelReading:
    """Return the reading that the user asks for, of a column that does not look like it.

    Raises:
        DataError: It has too many distinct values.
    """
    if named.task is None or named.task == "classification" or named.task in SET_KINDS:
        # A label in each of several rows of a text is decided by the rows.
        if column.profile.many and not column.profile.is_numeric:
            raise DataError(
                f"Column {column.name!r} has too many distinct values to be a label.",
                "Name another: --label COLUMN",
            )
        distinct = len(column.values)
        return LabelReading(
            (column.name,),
            column.name,
            "classification",
            NO_EVIDENCE,
            f"{distinct} classes",
            f"{distinct} classes",
        )
    return LabelReading((column.name,), column.name, named.task, NO_EVIDENCE, "numbers", NAMED_BY_USER)
