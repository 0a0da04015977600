"""The choice of the label: every reading of every column, in ranks, and the question between equal ones."""

import re
from collections.abc import Sequence
from dataclasses import replace

from tuneline.columns.numbers import MOST_INTEGER_CLASSES, number_readings
from tuneline.columns.profiles import Column
from tuneline.columns.readings import (
    BY_NAME,
    IF_NAMED,
    KNOWN_NAME,
    LEAST_COVERAGE,
    PLAIN,
    SET_TASK,
    WEAK,
    LabelReading,
    OpenQuestionError,
    UserChoices,
)
from tuneline.columns.sets import (
    LONGEST_LABEL,
    MOST_VOTED,
    ONE_CELL,
    indicator_reading,
    indicator_words,
    separated_by,
    set_readings,
    share_of,
)
from tuneline.params.data import LABELS_OF_COLUMNS
from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import listed
from tuneline.sniffing.names import LABEL_NAMES, ONLY_LABEL_NAMES, SET_NAMES

MOST_CLASSES = 200
MOST_DISTINCT = 0.9
"""Largest number of classes per row: with more, nearly each row has a value of its own."""
WORDS_OF_TEXT = 4
"""Mean words from which a column of mostly distinct values holds texts."""
WORDS_OF_SENTENCE = 5
"""Mean words from which values are rather texts, although few of them are different."""
MANY_NUMBERS = 8
SPARSE = 5
"""Largest number per distinct value, above which numbers are ids or measurements and not classes."""
MOSTLY_DATES = 0.9
"""Share of the cells that look like dates, from which the others are mistakes."""
ID_NAME = re.compile(
    r"(.*[_ .-])?(id|ids|uuid|guid|key|hash|url|uri|index|idx|row|no|nr|number|file|path|name)"
)
"""Names of columns that name something."""
PERSON = re.compile(
    r"(.*[^a-z])?(annotator|annotation|rater|worker|coder|judge|labell?er)s?(id|name)?([^a-z].*)?"
)
"""Names of columns that say who labelled a row, or that have the labels of one person."""
DATE = re.compile(r"\d{4}-\d\d?-\d\d?.*|\d\d?[./-]\d\d?[./-]\d{2,4}.*")
NUMBERED_NAME = re.compile(r"(.*?)[_ .-]?(\d+)")
CLASS_WORDS = ("class", "categor", "intent", "topic", "code")
"""Words in the name of a column whose numbers can be those of classes, however many there are."""
LEAST_SHARED = 0.6
"""Share of the cells of a column whose name the other columns have, too."""
MOST_ASKED = 4
"""Answers to a question."""
NAME_IT = "Name the column of the label: --label COLUMN"


def choose_label(columns: Sequence[Column], choices: UserChoices) -> LabelReading:
    """Choose the reading of the label.

    Raises:
        OpenQuestionError: Several readings are equally plain, or the best one explains too little.
        DataError: No column looks like a label, or what the user named cannot be read so.
    """
    named = [column for column in columns if column.name in choices.label]
    candidates = [column for column in columns if column.filled and column.name not in choices.text]
    if len(named) > 1:
        return _of_several(named)
    if named:
        _refuse_one_value(named[0])
        found = column_readings(named[0], choices)
    else:
        found = _all_readings(candidates, choices)
    allowed = [reading for reading in found if choices.allow(reading)]
    if not allowed:
        raise _no_label(candidates, choices)

    rank = min(reading.rank for reading in allowed)
    equal = [reading for reading in allowed if reading.rank == rank]
    best = [reading for reading in equal if not reading.refused]
    refused = [reading for reading in equal if reading.refused]
    if refused and not {reading.columns for reading in best} - {refused[0].columns}:
        hints = [refused[0].refused, *(f"Or: {choices.command} {reading.answer.options}" for reading in best)]
        raise DataError(
            f"{refused[0].place}: {refused[0].trains}, which cannot be read.",
            "\n  ".join([*hints, f"Or: {NAME_IT}"]),
        )
    is_enough = best[0].coverage >= LEAST_COVERAGE and rank <= PLAIN
    if len(best) > 1 or refused or not (is_enough or named):
        raise OpenQuestionError(_question(best), [reading.answer for reading in best[:MOST_ASKED]], choices)
    return best[0]


def _question(readings: Sequence[LabelReading]) -> str:
    """Return what is not plain."""
    first = readings[0]
    places = list(dict.fromkeys(listed(reading.columns, 3) for reading in readings))
    if len(places) > 1:
        return f"Several columns can be the label: {'; '.join(places)}"
    if len(readings) > 1:
        return f"{first.place} can be read in several ways"
    if first.coverage < LEAST_COVERAGE:
        return f"{first.place}: {1 - first.coverage:.0%} of the rows have no label, and would be left out"
    return f"No column is plainly the label. {first.place} can be"


def _all_readings(columns: Sequence[Column], choices: UserChoices) -> list[LabelReading]:
    """Return every reading of every column that can be the label, ranked by the names, too."""
    readings: list[LabelReading] = []
    members: set[str] = set()
    if choices.task in (None, SET_TASK) and choices.separator is None:
        for reading in group_readings(columns):
            readings.append(reading)
            if reading.rank <= KNOWN_NAME or reading.refused:
                members.update(reading.columns)
    for column in columns:
        is_label = column.key in ONLY_LABEL_NAMES
        if column.name in members and not is_label:
            continue
        found = column_readings(column, choices)
        if is_label and not any(reading.sets or reading.refused for reading in found):
            _refuse_as_label(column)
        elif not is_label and (column.numbers_rows or is_id(column) or is_date(column)):
            found = []
        elif not is_label and holds_texts(column):
            found = [reading for reading in found if reading.sets is not None]
        for reading in found:
            if reading.coverage >= LEAST_COVERAGE or column.key in LABEL_NAMES:
                readings.append(_ranked_by_name(reading, column.key))
    return readings


def _ranked_by_name(reading: LabelReading, key: str) -> LabelReading:
    is_set_name = key in SET_NAMES and reading.sets is not None
    if reading.rank == IF_NAMED or not (key in LABEL_NAMES or key in ONLY_LABEL_NAMES or is_set_name):
        return reading
    return replace(reading, rank=BY_NAME if key in ONLY_LABEL_NAMES else KNOWN_NAME)


def column_readings(column: Column, choices: UserChoices) -> list[LabelReading]:
    """Return every reading of one column, and the one that the user asks for, if it is named.

    The combinations of a clear set are not classes; nor are many different numbers.
    """
    if choices.separator is not None:
        return [separated_by(column, choices.separator)]
    classes = _classes(column)
    numbers = number_readings(column, choices.decimal)
    if choices.task == "classification":
        return classes or _of_many_classes(column, choices)
    if choices.task == "regression":
        forced = LabelReading((column.name,), column.name, "regression", IF_NAMED, "numbers")
        return [replace(reading, rank=PLAIN) for reading in numbers] or [forced]
    sets = set_readings(column)
    if any(reading.is_clear for reading in sets):
        return sets
    has_many = len(column.values) > MOST_INTEGER_CLASSES
    has_class_name = any(word in column.key for word in CLASS_WORDS)
    if has_many and not has_class_name and any(reading.rank <= WEAK for reading in numbers):
        classes = []
    return [*classes, *numbers, *sets] or _of_many_classes(column, choices)


def _classes(column: Column) -> list[LabelReading]:
    """Return how the column is a label of classes: not at all if it has one value, or too many."""
    values = column.values
    if column.nested or column.many or len(values) < 2 or column.fractions:
        return []
    if len(values) > min(MOST_CLASSES, max(MOST_DISTINCT * column.filled, 2)):
        return []
    is_rare = len(values) > max(column.filled / 2, 2)
    is_long = max(map(len, values)) > LONGEST_LABEL or column.mean_words >= WORDS_OF_SENTENCE
    has_ids = column.is_numeric and len(values) >= MANY_NUMBERS
    if has_ids:
        has_ids = max(map(float, values)) > SPARSE * len(values)
    rank = WEAK if is_rare or is_long or has_ids else PLAIN
    trains = f"{len(values)} classes: {listed(dict(values.most_common()), MOST_ASKED)}"
    return [
        LabelReading((column.name,), column.name, "classification", rank, trains, coverage=column.coverage)
    ]


def _of_many_classes(column: Column, choices: UserChoices) -> list[LabelReading]:
    """Return the reading as classes of a column that does not look like it, if the user named it.

    Raises:
        DataError: It has too many distinct values.
    """
    if not choices.label:
        return []
    if column.many and not column.is_numeric:
        raise DataError(f"Column {column.name!r} has too many distinct values to be a label.", NAME_IT)
    trains = f"{len(column.values)} classes"
    return [LabelReading((column.name,), column.name, "classification", IF_NAMED, trains)]


def is_date(column: Column) -> bool:
    """Return True if nearly all cells look like dates."""
    return share_of(column, DATE.fullmatch) >= MOSTLY_DATES


def is_id(column: Column) -> bool:
    """Return True if the name of a column says that it names the rows, or who labelled them."""
    is_name = ID_NAME.fullmatch(column.key) is not None or names_person(column.name)
    return is_name and column.key not in LABEL_NAMES


def names_person(name: str) -> bool:
    """Return True if a column is called after the people who label."""
    return PERSON.fullmatch(name.strip().lower()) is not None


def holds_texts(column: Column) -> bool:
    """Return True if the values are mostly distinct and of several words."""
    is_distinct = column.many or len(column.values) > column.filled // 2
    return is_distinct and column.mean_words >= WORDS_OF_TEXT


def group_readings(columns: Sequence[Column]) -> list[LabelReading]:
    """Return how several columns have the labels together.

    Columns of one vocabulary that are numbered or called after people are refused: they have the labels of
    several people, or some labels each.
    """
    groups: dict[str, list[Column]] = {}
    rest = []
    for column in columns:
        match = NUMBERED_NAME.fullmatch(column.key)
        has_names = not column.nested and 1 < len(column.values) <= MOST_VOTED
        if has_names and names_person(column.name):
            groups.setdefault("people", []).append(column)
            continue
        rest.append(column)
        if has_names and match is not None and not column.is_numeric:
            groups.setdefault(f"numbered {match[1]}", []).append(column)

    indicators = indicator_reading(rest)
    readings = [indicators] if indicators is not None else []
    for members in groups.values():
        if len(members) > 1 and _have_one_vocabulary(members):
            names = tuple(column.name for column in members)
            trains = "some labels each, or the labels of several people"
            readings.append(
                LabelReading(names, LABELS_OF_COLUMNS, "classification", PLAIN, trains, refused=ONE_CELL)
            )
    return readings


def _have_one_vocabulary(columns: Sequence[Column]) -> bool:
    """Return True if the names of each column are names of the others, too."""
    for column in columns:
        others = set().union(*(other.values for other in columns if other is not column))
        if share_of(column, others.__contains__) < LEAST_SHARED:
            return False
    return True


def _of_several(columns: Sequence[Column]) -> LabelReading:
    """Return the reading of several columns that the user named.

    Raises:
        DataError: One has something else than 0 and 1.
    """
    reading = indicator_reading(columns, named=True)
    if reading is None or any(indicator_words(column) is None for column in columns):
        raise DataError(
            f"{listed(column.name for column in columns)} are no columns of 0 and 1.",
            f"Several --label name a column of 0 and 1 for each label. {ONE_CELL}",
        )
    return reading


def _refuse_one_value(column: Column) -> None:
    """Refuse a label that is the same in all rows."""
    if len(column.values) < 2 and not column.nested:
        value = next(iter(column.values), "")
        raise DataError(
            f"Column {column.name!r} has the value {value!r} in all {column.filled:,} rows: there is nothing"
            " to learn.",
            NAME_IT,
        )


def _refuse_as_label(column: Column) -> None:
    """Refuse a column that is called a label, and from which nothing can be learned.

    Raises:
        DataError: It has one value, numbers the rows, or holds dates or texts.
    """
    _refuse_one_value(column)
    what = ""
    if column.numbers_rows:
        what = "numbers the rows"
    elif is_date(column):
        what = "has dates"
    elif holds_texts(column):
        what = f"has {len(column.values):,} distinct values of {column.mean_words:.0f} words, as texts have"
    if what:
        hint = f"{NAME_IT} --text COLUMN; or --label {column.name!r} to learn it all the same"
        raise DataError(f"Column {column.name!r} {what}: it is not a label.", hint)


def _no_label(columns: Sequence[Column], choices: UserChoices) -> DataError:
    """Return the error for a file without a column that looks like a label."""
    if choices.task == SET_TASK:
        hint = (
            "Name the column of the labels (--label COLUMN) and what separates them (--separator ';'), or a"
            " column of 0 and 1 for each label (--label A --label B). A text in several rows: write it once,"
            " with its labels in one cell (a; b)"
        )
        return DataError("No column has several labels per row.", hint)
    nested = [column.name for column in columns if column.nested]
    hint = NAME_IT
    if nested:
        hint = f"{listed(nested)}: several labels are a flat list of names, or one text. {NAME_IT}"
    return DataError("No column looks like a label: few distinct values, or numbers.", hint)
