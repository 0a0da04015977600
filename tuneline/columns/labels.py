"""The choice of the label: every reading of every column in one table, and the doubts between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tuneline.columns.classes import FEW_CLASSES, class_reading, holds_texts, is_date, is_id
from tuneline.columns.label_groups import (
    CLEAR_COLUMNS,
    group_readings,
    indicator_reading,
    indicator_words,
    joined_names,
)
from tuneline.columns.numbers import number_readings
from tuneline.columns.reading import CLOSE, Column, LabelReading
from tuneline.columns.sets import PROVED, separated_by, set_readings
from tuneline.core.task_kinds import SET_KINDS
from tuneline.params.data import TaskKind
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
LIKE_LABEL = 1.5
LEAST_COVERAGE = 0.5
"""Share of the rows that have a label, below which the reading explains too little."""
GAPS = 4.0
"""Points that a label loses for rows without one."""
SURELY_NUMBERS = 1.0
"""Points from which a column of many values holds numbers and no classes."""
TOO_FEW = 0.5
"""Points below which nothing looks like a label."""


@dataclass(frozen=True)
class NamedColumns:
    """What the user said about columns and labels; ``None`` or empty is left to ``tuneline init``.

    Attributes:
        label: The label column, or several columns that have the labels.
        separator: What separates the labels of a row.
        decimal: The character before the decimals of a label.
    """

    text: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    task: TaskKind | None = None
    separator: str | None = None
    decimal: str | None = None

    @property
    def one_label(self) -> bool:
        """True if a row has one label."""
        return self.task is not None and self.task not in SET_KINDS


NOTHING_NAMED = NamedColumns()


@dataclass(frozen=True)
class Alternative:
    """One answer to a doubt.

    Attributes:
        trains: What it would train, in words.
        options: The options that choose it.
        choice: The same as what the user named.
    """

    trains: str
    options: str
    choice: NamedColumns


@dataclass(frozen=True)
class ColumnDoubt:
    """A question that the values do not answer.

    Attributes:
        problem: What can be read in several ways, as a sentence.
        alternatives: The answers, the likeliest first.
    """

    problem: str
    alternatives: tuple[Alternative, ...]


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
    if named.label:
        return _of_named(columns, named)
    readings = label_readings(columns, named)
    if named.task is not None:
        of_task = [reading for reading in readings if reading.task == named.task]
        readings = of_task or [reading for reading in readings if named.task in SET_KINDS]
    if named.separator is not None:
        readings = [reading for reading in readings if reading.sets is not None]
    if named.decimal is not None:
        readings = [reading for reading in readings if _has_decimal(reading, named.decimal)]
    readings.sort(key=lambda reading: -reading.points)
    likely = {name for reading in readings if reading.points >= TOO_FEW for name in reading.columns}
    for column in columns:
        if column.key in ONLY_LABEL_NAMES and column.name not in likely:
            refuse_as_label(column)
    if not likely:
        raise _no_label(columns)
    best = readings[0]
    rivals = [reading for reading in readings[1:] if best.points - reading.points < CLOSE]
    why = _why(best, readings[1:])
    return LabelChoice(best, why, label_doubt(best, rivals, named))


def label_readings(columns: Sequence[Column], named: NamedColumns) -> list[LabelReading]:
    """Return every reading of every column that can be the label, with its evidence."""
    candidates = [column for column in columns if column.name not in named.text and column.profile.filled]
    groups = []
    if not named.one_label:
        groups = [named_points(reading, columns) for reading in GROUP_READINGS(candidates)]
    members: set[str] = set()
    for reading in groups:
        if reading.points >= PROVED or len(reading.columns) >= CLEAR_COLUMNS:
            members.update(reading.columns)

    readings = list(groups)
    for column in candidates:
        if column.name in members and column.key not in ONLY_LABEL_NAMES:
            continue
        for reading in column_readings(column, named):
            readings.append(with_evidence(reading, column))
    return readings


def column_readings(column: Column, named: NamedColumns) -> list[LabelReading]:
    """Return every reading of one column. Of a set that the values prove, the combinations are no classes."""
    if named.separator is not None:
        return [separated_by(column, named.separator)]
    readings = []
    for read in READINGS:
        readings += read(column)
    if named.one_label:
        one = [reading for reading in readings if reading.sets is None]
        return one or [_forced(column, named)] if readings else []
    if any(reading.sets is not None and reading.points >= PROVED for reading in readings):
        readings = [reading for reading in readings if reading.sets is not None or reading.refused]
    if any(reading.task == "regression" and reading.points >= SURELY_NUMBERS for reading in readings):
        few = len(column.values) <= FEW_CLASSES
        readings = [reading for reading in readings if few or reading.task != "classification"]
    return readings


def with_evidence(reading: LabelReading, column: Column) -> LabelReading:
    """Return a reading with the evidence of the column: its name, its gaps, and what else it looks like."""
    reading = named_points(reading, [column])
    is_called = column.key in LABEL_NAMES
    if column.profile.numbered and column.profile.filled > 2:
        reading = reading.better_by(-6.0)
    elif is_id(column) and not is_called:
        reading = reading.better_by(-2.5)
    if is_date(column):
        reading = reading.better_by(-4.0)
    if holds_texts(column) and reading.sets is None:
        reading = reading.better_by(-4.0)
    return reading


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
            f"Column {best.name!r}: {best.why}: {best.trains}, which cannot be read as they are.",
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


def _has_decimal(reading: LabelReading, decimal: str) -> bool:
    return reading.sets is None and reading.task == "regression" and reading.numbers.decimal == decimal


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
        is_other = not set(other.columns) & set(best.columns)
        if is_other and other.points >= TOO_FEW and other.name not in further:
            further.append(other.name)
    if further:
        why += f"; {listed(further, 4)} could be the label, too: --label COLUMN"
    return why


def _no_label(columns: Sequence[Column]) -> DataError:
    hint = "Name it: --label COLUMN"
    nested = [column.name for column in columns if column.profile.nested]
    if nested:
        hint = f"{listed(nested)}: several labels are a flat list of names, or one text. {hint}"
    return DataError("No column looks like a label: few distinct values, or numbers.", hint)


def _of_named(columns: Sequence[Column], named: NamedColumns) -> LabelChoice:
    """Return the reading of the columns that the user named.

    Raises:
        DataError: They cannot be read so.
    """
    chosen = [next(column for column in columns if column.name == name) for name in named.label]
    if len(chosen) > 1:
        if any(indicator_words(column) is not None for column in chosen):
            reading = None
            if all(indicator_words(column) is not None for column in chosen):
                reading = indicator_reading(chosen, named=True)
        else:
            reading = joined_names(chosen)
        if reading is None:
            raise _not_indicators(chosen)
        return LabelChoice(reading, NAMED_BY_USER)

    column = chosen[0]
    check_label(column)
    readings = column_readings(column, named)
    if named.task is not None:
        readings = [reading for reading in readings if reading.task == named.task]
    if named.decimal is not None:
        readings = [reading for reading in readings if _has_decimal(reading, named.decimal)]
    if not readings:
        return LabelChoice(_forced(column, named), NAMED_BY_USER)
    readings.sort(key=lambda reading: -reading.points)
    best = readings[0]
    rivals = [reading for reading in readings[1:] if best.points - reading.points < CLOSE]
    if named.task is not None and named.task in SET_KINDS:
        rivals = []
    doubt = None
    if rivals or best.refused:
        doubt = label_doubt(best, rivals, named)
    return LabelChoice(best, NAMED_BY_USER, doubt)


NAMED_BY_USER = "named by you"
OTHER_LABEL = "Name the column of the label: --label COLUMN"


def check_label(column: Column) -> None:
    """Refuse a column that is the same in all rows.

    Raises:
        DataError: It has one value only, or none.
    """
    values = list(column.values)
    if len(values) < 2 and not column.profile.many and not column.profile.nested:
        value = values[0] if values else ""
        raise DataError(
            f"Column {column.name!r} has the value {value!r} in all {column.profile.filled:,} rows: there is"
            " nothing to learn.",
            OTHER_LABEL,
        )


def refuse_as_label(column: Column) -> None:
    """Refuse a column that is called a label, and from which nothing can be learned.

    Raises:
        DataError: It has one value, numbers the rows, or holds texts.
    """
    if not column.profile.filled:
        return
    check_label(column)
    place = f"Column {column.name!r}"
    if column.profile.numbered and column.profile.filled > 1:
        raise DataError(
            f"{place} numbers the rows: it is no label.",
            f"{OTHER_LABEL}; or --label {column.name!r} to learn it all the same",
        )
    if holds_texts(column):
        distinct = len(column.values)
        problem = (
            f"{place} has {distinct:,} distinct values of {column.profile.mean_words:.0f} words in"
            f" {column.profile.filled:,} rows: it looks like the text, not the label."
        )
        raise DataError(problem, f"{OTHER_LABEL} --text COLUMN")


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
            (column.name,), column.name, "classification", 0.0, f"{distinct} classes", f"{distinct} classes"
        )
    return LabelReading((column.name,), column.name, named.task, 0.0, "numbers", NAMED_BY_USER)


def _not_indicators(columns: Sequence[Column]) -> DataError:
    column = next(column for column in columns if indicator_words(column) is None)
    values = [value for value, _ in column.values.most_common()]
    return DataError(
        f"Column {column.name!r} has more values than 0 and 1: {listed(values, 5)}.",
        "Several --label name a column of 0 and 1 for each label, or columns with a name or nothing in each.",
    )
