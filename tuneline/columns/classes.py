"""Columns whose values are classes, and columns that are something else than a label."""

import re

from tuneline.columns.annotators import names_person
from tuneline.columns.reading import Column, LabelReading
from tuneline.readers.label_values import MISSING_NUMBERS
from tuneline.runtime.wording import listed

MOST_CLASSES = 200
MOST_DISTINCT = 0.9
"""Largest number of classes per row: with more, nearly each row has a value of its own."""
FEW_CLASSES = 20
LONGEST_CLASS = 100
WORDS_OF_TEXT = 4
"""Mean words from which a column of mostly distinct values holds texts."""
WORDS_OF_SENTENCE = 5
"""Mean words from which values are rather texts, although few of them are different."""
MANY_NUMBERS = 8
SPARSE = 5
"""Largest number per distinct value, above which numbers are ids or measurements and not classes."""
SHOWN_CLASSES = 4
OF_FEW_CLASSES = 2.0
"""Points of at most ``FEW_CLASSES``.

One of the objections below leaves enough for a label; after two, only the name of the column can help.
"""
OF_MANY_CLASSES = 1.2
"""Points of more of them: less than ``CLOSE`` behind few classes, so that a person chooses."""
RARELY_REPEATED = -1.5
"""Points if more than half of the rows have a value of their own, as names and texts have."""
LONG_VALUE = -1.0
"""Points if a value is longer than ``LONGEST_CLASS``: one of them may be a mistake, so it weighs less."""
LIKE_SENTENCES = -1.5
"""Points if the values have as many words as sentences: templates and titles repeat, too."""
LIKE_IDS = -1.5
"""Points of numbers that are rather ids or measurements."""
NUMBER_IS_MISSING = -0.5
"""Points if a value is how numbers are left out: not more, because a class may be called ``none``."""
MOSTLY_DATES = 0.9
"""Share of the cells that look like dates, from which the others are mistakes."""
ID_NAME = re.compile(
    r"(.*[_ .-])?(id|ids|uuid|guid|key|hash|url|uri|index|idx|row|no|nr|number|file|path|name)"
)
"""Names of columns that name something."""
DATE = re.compile(r"\d{4}-\d\d?-\d\d?.*|\d\d?[./-]\d\d?[./-]\d{2,4}.*")


def class_reading(column: Column) -> LabelReading | None:
    """Return how the column is a label of classes; ``None`` if it has one value, or too many."""
    profile = column.profile
    classes = column.values
    if profile.nested or profile.many or len(classes) < 2 or profile.fractions:
        return None
    if len(classes) > min(MOST_CLASSES, max(MOST_DISTINCT * profile.filled, 2)):
        return None
    shown = listed(dict(classes.most_common()), SHOWN_CLASSES)
    reading = LabelReading(
        (column.name,),
        column.name,
        "classification",
        OF_FEW_CLASSES if len(classes) <= FEW_CLASSES else OF_MANY_CLASSES,
        f"{len(classes)} classes: {shown}",
        f"{len(classes)} classes",
        coverage=column.coverage,
    )
    if len(classes) > profile.filled / 2 and len(classes) > 2:
        reading = reading.better_by(RARELY_REPEATED)
    if max(map(len, classes)) > LONGEST_CLASS:
        reading = reading.better_by(LONG_VALUE)
    if profile.mean_words >= WORDS_OF_SENTENCE:
        reading = reading.better_by(LIKE_SENTENCES)
    if _are_ids(column):
        reading = reading.better_by(LIKE_IDS)
    if any(value.lower() in MISSING_NUMBERS for value in classes):
        reading = reading.better_by(NUMBER_IS_MISSING)
    return reading


def _are_ids(column: Column) -> bool:
    """Return True if the values are many whole numbers that do not count from a small one."""
    if not column.profile.is_numeric or len(column.values) < MANY_NUMBERS:
        return False
    return max(map(float, column.values)) > SPARSE * len(column.values)


def is_date(column: Column) -> bool:
    """Return True if nearly all cells look like dates."""
    return column.count(DATE.fullmatch) >= MOSTLY_DATES * max(column.rows, 1)


def is_id(column: Column) -> bool:
    """Return True if a column numbers the rows, or its name says that it names them, or who labelled them."""
    if column.profile.numbered and column.profile.filled > 1:
        return True
    return ID_NAME.fullmatch(column.key) is not None or names_person(column.key)


def holds_texts(column: Column) -> bool:
    """Return True if the values are mostly distinct and of several words."""
    distinct = len(column.values)
    has_words = column.profile.mean_words >= WORDS_OF_TEXT
    return has_words and (column.profile.many or distinct > column.profile.filled // 2)
