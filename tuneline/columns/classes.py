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
        2.0 if len(classes) <= FEW_CLASSES else 1.2,
        f"{len(classes)} classes: {shown}",
        f"{len(classes)} classes",
        coverage=column.coverage,
    )
    if len(classes) > profile.filled / 2 and len(classes) > 2:
        reading = reading.better_by(-1.5)
    if max(map(len, classes)) > LONGEST_CLASS:
        reading = reading.better_by(-1.0)
    if profile.mean_words >= WORDS_OF_SENTENCE:
        reading = reading.better_by(-1.5)
    if _are_ids(column):
        reading = reading.better_by(-1.5)
    if any(value.lower() in MISSING_NUMBERS for value in classes):
        reading = reading.better_by(-0.5)
    return reading


def _are_ids(column: Column) -> bool:
    """Return True if the values are many whole numbers that do not count from a small one."""
    if not column.profile.is_numeric or len(column.values) < MANY_NUMBERS:
        return False
    return max(map(float, column.values)) > SPARSE * len(column.values)


def is_date(column: Column) -> bool:
    """Return True if nearly all cells look like dates."""
    return column.count(DATE.fullmatch) >= 0.9 * max(column.rows, 1)


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
