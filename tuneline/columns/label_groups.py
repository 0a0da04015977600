"""Groups of columns that have the labels together: 0 and 1 for each label, or a name or nothing in each."""

import re
from collections import Counter
from collections.abc import Sequence

from tuneline.columns.annotators import have_one_vocabulary, refused_votes, repeated_names, vote_reading
from tuneline.columns.parts import LONGEST_LABEL, MOST_LABELS
from tuneline.columns.reading import LEAST_FIT, Column, LabelReading
from tuneline.columns.sets import ALLOWED, ONE_EACH, PROVED, SET_TASK
from tuneline.params.data import LABELS_OF_COLUMNS, LabelSetsParams
from tuneline.readers.label_sets import INDICATORS
from tuneline.runtime.wording import listed
from tuneline.tasks.task import UNLABELLED

CLEAR_COLUMNS = 3
"""Columns of 0 and 1 from which they are labels: two can be a label and a property of the text."""
SHOWN_LABELS = 5
NUMBERS = {"0": "0", "1": "1", "0.0": "0", "1.0": "1"}
"""Words for 0 and 1 of the columns that are numbers."""
WORDS = (("0", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"), ("", "x"))
NUMBERED_NAME = re.compile(r"(.*?)[_ .-]?(\d+)")
MOST_EMPTY = 0.999


def group_readings(columns: Sequence[Column]) -> list[LabelReading]:
    """Return how several columns have the labels together, or the labels of several people."""
    readings = []
    votes = vote_reading(columns)
    if votes is not None:
        readings.append(votes)
        columns = [column for column in columns if column.name not in votes.columns]
    for reading in (indicator_reading(columns), name_reading(columns)):
        if reading is not None:
            readings.append(reading)
    return readings


def indicator_reading(columns: Sequence[Column], *, named: bool = False) -> LabelReading | None:
    """Return the reading as a column of 0 and 1 for each label; ``None`` if fewer than two are such columns.

    Columns with other words for 0 and 1 than most of them have are something else.

    Args:
        columns: The columns that can be labels.
        named: True if the user named them: then all are labels.
    """
    words = {}
    for column in columns:
        of_column = indicator_words(column)
        if of_column is not None and (named or _varies(column)):
            words[column.name] = of_column
    if not words:
        return None
    usual, _ = Counter(words.values()).most_common(1)[0]
    members = [column for column in columns if named or words.get(column.name) == usual]
    if len(members) < 2:
        return None
    points = PROVED if named or len(members) >= CLEAR_COLUMNS else ALLOWED
    names = [column.name for column in members]
    shown = listed(names, SHOWN_LABELS)
    coverage = 1 - max(map(_unlabelled, members))
    return LabelReading(
        tuple(names),
        LABELS_OF_COLUMNS,
        SET_TASK,
        points,
        f"{len(names)} labels, {_per_row(members):.1f} per row: {shown}",
        f"in a column of 0 and 1 for each: {shown}",
        LabelSetsParams(layout="columns", columns=names),
        coverage=coverage,
        hint=ONE_EACH if _have_one_each(members) else "",
    )


def _per_row(columns: Sequence[Column]) -> float:
    total = 0.0
    for column in columns:
        ones = column.count(_is_one)
        total += ones / max(column.profile.rows, 1)
    return total


def _have_one_each(columns: Sequence[Column]) -> bool:
    """Return True if each row has exactly one label."""
    rows = 0
    for cells in zip(*(column.cells for column in columns), strict=True):
        rows += 1
        ones = [cell for cell in cells if cell and _is_one(cell.strip())]
        if len(ones) != 1:
            return False
    return rows > 0


def _is_one(value: str) -> bool:
    return INDICATORS.get(value.lower().removesuffix(".0")) is True


def _unlabelled(column: Column) -> float:
    """Return the share of cells with the word for a missing label."""
    return column.values[str(UNLABELLED)] / max(column.profile.rows, 1)


def _varies(column: Column) -> bool:
    """Return True if a column of 0 and 1 has both, or if some cells are empty, which is 0."""
    return len(column.values) > 1 or column.coverage < 1


def indicator_words(column: Column) -> frozenset[str] | None:
    """Return which words for 0 and 1 a column has; ``None`` if it has anything else.

    -1 is the word for a missing label.
    """
    if column.profile.many or column.profile.nested or not column.rows:
        return None
    values = set()
    cells = 0
    for value, count in column.values.items():
        word = NUMBERS.get(value.lower(), value.lower())
        if word in INDICATORS:
            values.add(word)
            cells += count
    labelled = column.rows - column.values[str(UNLABELLED)]
    if not values or cells < labelled / 2:
        return None
    empty = column.profile.rows - column.profile.filled  # an empty cell is 0
    if cells + empty < LEAST_FIT * (labelled + empty):
        return None
    # A column of one value has the words of all columns with that value.
    for words in WORDS:
        if values <= set(words):
            return frozenset(words)
    return None


def name_reading(columns: Sequence[Column]) -> LabelReading | None:
    """Return the reading as columns such as ``label_1`` and ``label_2``, each with a name or nothing."""
    stems: dict[str, list[Column]] = {}
    for column in columns:
        match = NUMBERED_NAME.fullmatch(column.key)
        is_short = column.rows and max(map(len, column.values)) <= LONGEST_LABEL
        if match is not None and is_short and not column.profile.many and not column.profile.is_numeric:
            stems.setdefault(match[1], []).append(column)
    for members in stems.values():
        if len(members) > 1 and have_one_vocabulary(members):
            repeated = repeated_names(members)
            if len(repeated) > 1:
                return refused_votes(members)
            return joined_names(members, repeated)
    return None


def joined_names(columns: Sequence[Column], repeated: Sequence[str] = ()) -> LabelReading | None:
    """Return the reading of some columns with a name or nothing in each; ``None`` with too many names.

    Names that are ``repeated`` in a row can be words for no label.
    """
    labels: Counter[str] = Counter()
    for column in columns:
        labels += column.values
    if not 1 < len(labels) <= MOST_LABELS:
        return None
    rows = max(columns[0].profile.rows, 1)
    filled = max(column.coverage for column in columns)
    emptiest = min(column.coverage for column in columns)
    names = [column.name for column in columns]
    hint = ""
    if repeated:
        hint = f"rows have {listed(repeated)} several times: if it means no label, empty these cells"
    # Columns that are all filled can be the votes of several people.
    points = PROVED if emptiest < MOST_EMPTY * filled else ALLOWED
    return LabelReading(
        tuple(names),
        LABELS_OF_COLUMNS,
        SET_TASK,
        points,
        f"{len(labels)} labels, {labels.total() / rows:.1f} per row, in {listed(names, SHOWN_LABELS)}",
        f"a name or nothing in each of {listed(names, SHOWN_LABELS)}",
        LabelSetsParams(layout="name_columns", columns=names),
        coverage=filled,
        hint=hint,
    )
