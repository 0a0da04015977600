"""The choice of the label: every reading of every column, in ranks, and the question between equal ones."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import listed
from tuneline.model.tasks.task import MISSING_WORDS, NO_NAMES
from tuneline.rows.proposals.profiles import NESTED, NUMBER, Column
from tuneline.rows.proposals.readings import (
    BY_NAME,
    IF_NAMED,
    KNOWN_NAME,
    LEAST_COVERAGE,
    MOST_INTEGER_CLASSES,
    PLAIN,
    SET_TASK,
    WEAK,
    LabelReading,
    OpenQuestionError,
    UserChoices,
    missing_where,
    number_readings,
    written_as_names,
)
from tuneline.rows.proposals.sets import (
    LONGEST_LABEL,
    ONE_CELL,
    indicator_reading,
    indicator_words,
    separated_by,
    set_readings,
    share_of,
)
from tuneline.rows.proposals.tables import LABEL_NAMES, ONLY_LABEL_NAMES, SET_NAMES
from tuneline.rows.reading.label_values import WHOLE_NUMBER, class_name, plain_text, sorted_names, unwrapped

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
ID_NAME = re.compile(r"(.*[_ .-])?(id|ids|uuid|guid|key|hash|url|uri|index|idx|row|no|nr|number|file|path)")
"""Names of columns that name something."""
PERSON = re.compile(
    r"(.*[^a-z])?(annotator|annotation|rater|worker|coder|judge|labell?er)s?(id|name)?([^a-z].*)?"
)
"""Names of columns that say who labelled a row, or that have the labels of one person."""
DATE = re.compile(r"\d{4}-\d\d?-\d\d?.*|\d\d?[./-]\d\d?[./-]\d{2,4}.*")
TIME = re.compile(r"\d+(:\d\d?){1,2}([.,]\d+)?(\s?[ap]\.?m\.?)?", re.IGNORECASE)
"""A time of day, a duration, or a verse."""
SEVERAL_NUMBERS = re.compile(r"\d+(?:\W+\d+)+")
NUMBERED_NAME = re.compile(r"[_ .-]?\d+$")
"""The end of the name of one of several columns."""
CLASS_WORDS = ("class", "categor", "intent", "topic", "code")
"""Words in the name of a column whose numbers can be those of classes, however many there are."""
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
        if len(named[0].values) < 2 and not named[0].nested:
            problem = f"Column {named[0].name!r} has one value in all rows: there is nothing to learn."
            raise DataError(problem, NAME_IT)
        found = column_readings(named[0], choices)
    else:
        found = _all_readings(candidates, choices)
    allowed = [reading for reading in found if choices.allow(reading)]
    if not allowed:
        raise _no_label(choices)

    # what cannot be read is no candidate, but what is left in its place is no plain choice
    rank = min(reading.rank for reading in allowed)
    refused = [reading for reading in allowed if reading.refused and reading.rank == rank]
    readable = [reading for reading in allowed if not reading.refused]
    unreadable = ""
    if refused:
        unreadable = f"{refused[0].place}: {refused[0].trains}, which cannot be read. "
        if not readable:
            raise DataError(unreadable.strip(), f"{refused[0].refused}\n  Or: {NAME_IT}")
        unreadable += f"{refused[0].refused}. "

    rank = min(reading.rank for reading in readable)
    best = [reading for reading in readable if reading.rank == rank]
    # one doubtful reading of a column is a question about all of them
    of_column = [reading for reading in readable if reading.columns == best[0].columns]
    is_doubtful = any(reading.doubt for reading in of_column)
    if len(best) == 1 and is_doubtful:
        best = sorted(of_column, key=lambda reading: reading.rank)
    is_plain = (rank <= PLAIN or named) and not is_doubtful
    if refused or len(best) > 1 or not (is_plain or choices.confirm(best[0])):
        answers = [reading.answer for reading in best[:MOST_ASKED]]
        raise OpenQuestionError(unreadable + _question(best), answers, choices)
    return best[0]


def _question(readings: Sequence[LabelReading]) -> str:
    """Return what is not plain."""
    first = readings[0]
    places = dict.fromkeys(reading.place for reading in readings)
    if len(places) > 1:
        return f"Several columns can be the label: {'; '.join(places)}"
    doubts = [reading.doubt for reading in readings if reading.doubt]
    if doubts:
        return f"{first.place}: {doubts[0]}"
    if len(readings) > 1:
        return f"{first.place} can be read in several ways"
    return f"No column is plainly the label. {first.place} can be"


def _all_readings(columns: Sequence[Column], choices: UserChoices) -> list[LabelReading]:
    """Return every reading of every column that can be the label, ranked by the names, too."""
    readings: list[LabelReading] = []
    indicators: LabelReading | None = None
    members: set[str] = set()
    if choices.task in (None, SET_TASK) and choices.separator is None:
        indicators = indicator_reading([column for column in columns if not names_person(column.name)])
        if indicators is not None and indicators.rank <= KNOWN_NAME:
            members.update(indicators.columns)
    for column in columns:
        is_label = column.key in ONLY_LABEL_NAMES
        if column.name in members and not is_label:
            continue
        found = column_readings(column, choices)
        obstacle = _why_no_label(column)
        if obstacle:
            found = [reading for reading in found if reading.sets is not None or reading.refused]
        if obstacle and is_label and not found:
            hint = f"{NAME_IT} --text COLUMN; or --label {column.name!r} to learn it all the same"
            raise DataError(f"Column {column.name!r} {obstacle}: it is not a label.", hint)
        if not is_label and (is_id(column) or (obstacle and not holds_texts(column))):
            continue
        for reading in found:
            if reading.coverage >= LEAST_COVERAGE or column.key in LABEL_NAMES:
                rank = _rank(reading, column.key)
                if _is_one_of_several(column, columns):
                    rank = max(rank, WEAK)
                readings.append(replace(reading, rank=rank))
    if indicators is not None:
        # Beside another plain column, they can be properties of the text.
        best = min((reading.rank for reading in readings), default=PLAIN)
        readings.insert(0, replace(indicators, rank=max(indicators.rank, min(best, PLAIN))))
    return readings


def _is_one_of_several(column: Column, columns: Sequence[Column]) -> bool:
    """Return True if another column, whose name differs by its number, has some of the names in this one.

    They are of several people, or have some labels each.
    """
    if column.is_numeric:
        return False
    stem = NUMBERED_NAME.sub("", column.key)
    for other in columns:
        is_numbered_alike = other is not column and NUMBERED_NAME.sub("", other.key) == stem
        if is_numbered_alike and other.values.keys() & column.values.keys():
            return True
    return False


def _why_no_label(column: Column) -> str:
    """Return why a column is not a label; empty if it can be one."""
    if len(column.values) < 2 and not column.nested:
        return "has one value in all rows"
    if column.numbers_rows:
        return "numbers the rows"
    if is_date(column):
        return "has dates"
    if share_of(column, TIME.fullmatch) >= MOSTLY_DATES:
        return "has times"
    if holds_texts(column):
        return "has distinct values of several words, as texts have"
    return ""


def _rank(reading: LabelReading, key: str) -> int:
    """Return the rank of the reading of a column of this name."""
    is_set_name = key in SET_NAMES and reading.sets is not None
    if reading.rank == IF_NAMED or not (key in LABEL_NAMES or is_set_name):
        return reading.rank
    return BY_NAME if key in ONLY_LABEL_NAMES else KNOWN_NAME


def column_readings(column: Column, choices: UserChoices) -> list[LabelReading]:
    """Return every reading of one column, and the one that the user asks for, if it is named.

    The combinations of a clear set are not classes; nor are many different numbers.
    """
    if choices.separator is not None:
        return [separated_by(column, choices.separator)]
    classes = _classes(column)
    numbers = number_readings(column)
    if choices.task == "classification":
        return classes or _of_many_classes(column, named=bool(choices.label))
    if choices.task == "regression":
        forced = LabelReading((column.name,), column.name, "regression", IF_NAMED, "numbers")
        return [replace(reading, rank=PLAIN) for reading in numbers] or [forced]
    sets = set_readings(column)
    if any(reading.is_clear for reading in sets):
        return sets
    has_many = len(column.values) > MOST_INTEGER_CLASSES
    has_class_name = any(word in column.key for word in CLASS_WORDS)
    are_plain = any(reading.rank <= WEAK and not reading.doubt for reading in numbers)
    if has_many and not has_class_name and are_plain:
        classes = []
    if not classes and any(reading.doubt for reading in numbers):
        classes = _of_many_classes(column, named=True)
    return [*classes, *numbers, *sets] or _of_many_classes(column, named=bool(choices.label))


def _classes(column: Column) -> list[LabelReading]:
    """Return how the column is a label of classes: not at all if it has one value, or too many."""
    classes = _names(column)
    are_numbers = all(map(NUMBER.fullmatch, classes))
    has_fractions = are_numbers and not all(float(name).is_integer() for name in classes)
    if column.many or len(classes) < 2 or (has_fractions and not written_as_names(classes)):
        return []
    if len(classes) > min(MOST_CLASSES, max(MOST_DISTINCT * column.filled, 2)):
        return []
    is_rare = len(classes) > max(column.filled / 2, 2)
    is_long = max(map(len, classes)) > LONGEST_LABEL or column.mean_words >= WORDS_OF_SENTENCE
    has_ids = are_numbers and not has_fractions and len(classes) >= MANY_NUMBERS
    if has_ids:
        has_ids = max(map(float, classes)) > SPARSE * len(classes)
    reading = _class_reading(column, classes)
    return [replace(reading, rank=WEAK if is_rare or is_long or has_ids else PLAIN)]


def _of_many_classes(column: Column, *, named: bool) -> list[LabelReading]:
    """Return the reading as classes of a column that does not look like it, if the user named it."""
    classes = _names(column)
    if not named or not classes or (column.many and not column.is_numeric):
        return []
    doubt = f"{len(classes):,} different values do not look like classes"
    return [replace(_class_reading(column, classes), rank=IF_NAMED, doubt=doubt)]


def _class_reading(column: Column, classes: Counter[str]) -> LabelReading:
    """Return the reading as these classes, with the number of their cells."""
    missing = Counter(column.values)
    is_read = True
    for cell, name in _class_of_cells(column).items():
        if name is not None:
            del missing[cell]
        is_read = is_read and class_name(cell) == name
    unclear = [name for name in classes if name.lower() in MISSING_WORDS]
    doubt = ""
    if unclear:
        rows = sum(classes[name] for name in unclear)
        doubt = (
            f"{listed(unclear)} ({rows:,} rows) can be a class, or a missing label: then empty these cells"
        )
    elif len(classes) > MOST_INTEGER_CLASSES and all(map(SEVERAL_NUMBERS.fullmatch, classes)):
        doubt = f"{len(classes)} different values of several numbers can be dates, scores or versions"
    # A fraction of JSON or Parquet is a class only if it is listed.
    has_fractions = any("." in name and NUMBER.fullmatch(name) for name in classes)
    is_listed = bool(unclear) or has_fractions or not is_read
    return LabelReading(
        (column.name,),
        column.name,
        "classification",
        PLAIN,
        f"{len(classes)} classes: {listed(dict(classes.most_common()), MOST_ASKED)}{missing_where(missing)}",
        coverage=classes.total() / max(column.counted, 1) * column.coverage,
        names=tuple(sorted_names(classes)) if is_listed else (),
        doubt=doubt,
    )


def _names(column: Column) -> Counter[str]:
    """Return the number of cells by class; nothing if these are lists of several, or objects."""
    classes: Counter[str] = Counter()
    for cell, name in _class_of_cells(column).items():
        if name is not None:
            classes[name] += column.values[cell]
    return classes


def _class_of_cells(column: Column) -> dict[str, str | None]:
    """Return the class that each cell has; ``None`` for a missing label.

    Words for a missing label are classes among other signs, and where only one other class would be left.
    Names stay as they are written, unless all are whole numbers written as floats are.
    """
    names: dict[str, str | None] = {}
    for cell in column.values:
        element = unwrapped(cell)
        if column.nested and element == cell and cell.startswith(("[", NESTED)):
            return {}
        names[cell] = plain_text(element)
    written = {name for name in names.values() if name is not None}

    # among numbers, each word says that one is missing
    others = {name for name in written if name.lower() not in MISSING_WORDS}
    if not all(map(NUMBER.fullmatch, others)):
        others = {name for name in written if name.lower() not in NO_NAMES}
    if sum(any(map(str.isalnum, name)) for name in others) < 2:
        others = written
    are_whole = all(map(WHOLE_NUMBER.fullmatch, others))
    for cell, name in names.items():
        if name not in others:
            names[cell] = None
        elif are_whole:
            names[cell] = class_name(name)
    return names


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


def _no_label(choices: UserChoices) -> DataError:
    """Return the error for a file without a column that looks like a label."""
    if choices.task == SET_TASK:
        hint = (
            "Name the column of the labels (--label COLUMN) and what separates them (--separator ';'), or a"
            " column of 0 and 1 for each label (--label A --label B)"
        )
        return DataError("No column has several labels per row.", hint)
    return DataError("No column looks like a label: few distinct values, or numbers.", NAME_IT)
