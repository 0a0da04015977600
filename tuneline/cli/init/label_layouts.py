"""Several labels per text: which columns have them, and how they are written.

A layout that the values do not prove is doubtful: then the user is asked.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tuneline.cli.init.label_parts import LABEL_SEPARATORS, PartCounts
from tuneline.cli.init.profiles import ColumnProfile
from tuneline.params.data import LABELS_OF_COLUMNS, LabelSetsParams
from tuneline.readers.label_sets import INDICATORS
from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import listed

LEAST_RECURRENCE = 2.0
"""Mean cells of a part from which parts can be labels."""
LEAST_LISTS = 0.9
"""Share of cells that are lists, from which the others are broken ones."""
CLEAR_MIXING = 0.5
"""Share of later parts that also occur alone or first, from which a separator is clear."""
POSSIBLE_MIXING = 0.2
"""The same, from which a separator is possible."""
LEAST_COMBINATIONS = 3
"""Distinct sets of several parts from which a comma is clear: one or two can be names with a comma."""
RICH = 3
"""Distinct cells per word from which words can be labels, separated by spaces; the user is asked."""
RICH_MIXING = 0.8
"""The share of later parts that also occur alone or first, from which words can be labels."""
LEAST_INDICATORS = 0.99
"""Share of cells that are 0 or 1, from which the others are mistakes."""
STRONG_SEPARATORS = (";", "|")
"""Separators that names of classes seldom contain."""
CLEAR_COLUMNS = 3
"""Columns of 0 and 1 from which they are labels: two can be a label and a property of the text."""
SHOWN_LABELS = 5
ONE_LABEL = "--task classification"


@dataclass(frozen=True)
class LabelLayout:
    """How several labels per text are written.

    Attributes:
        label: The label column, or what the labels of several columns are called.
        sets: The layout.
        how: The layout in words.
        doubt: Why it may be wrong, for a question; empty if it is clear.
    """

    label: str
    sets: LabelSetsParams
    how: str
    doubt: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(self.sets.columns or [self.label])

    def taken(self, several: bool) -> str:
        """Return what was decided although it is in doubt, and the option for the other decision."""
        if several:
            return f"Taken as several labels per row; if each row has one: {ONE_LABEL}"
        options = "--task multilabel"
        if self.sets.separator is not None:
            options = f"--separator {self.sets.separator!r}"
        elif self.sets.columns is not None:
            options = " ".join(f"--label {name!r}" for name in self.sets.columns)
        return f"Taken as one label per row; if there are several: {options}"


def layout_of_column(profile: ColumnProfile, separator: str | None = None) -> LabelLayout | None:
    """Return how a column has several labels per row; ``None`` if it has one.

    Args:
        profile: The column.
        separator: What separates the labels, if the user said it.
    """
    if separator is not None:
        return _separated(profile.name, separator)
    parts = profile.parts
    if parts.lists >= LEAST_LISTS * profile.filled > 0 and not parts.listed.refused:
        recur = parts.listed.recurrence >= LEAST_RECURRENCE or len(parts.listed.labels) < profile.filled
        if recur and not all(_is_fraction(name) for name in parts.listed.labels):
            return LabelLayout(profile.name, LabelSetsParams(layout="lists"), "in lists")
        return None
    if profile.nested or profile.is_numeric or profile.has_decimal_commas:
        return None

    doubtful = None
    for character in LABEL_SEPARATORS:
        counts = parts.separated[character]
        if not _is_possible(counts):
            continue
        if character == " " and not _is_rich(counts, profile):
            continue
        if _is_clear(character, counts, profile):
            return _separated(profile.name, character)
        doubtful = doubtful or _separated(profile.name, character, _doubt(profile, character, counts))
    return doubtful


def _separated(name: str, separator: str, doubt: str = "") -> LabelLayout:
    sets = LabelSetsParams(layout="separated", separator=separator)
    return LabelLayout(name, sets, f"separated by {separator!r}", doubt)


def _is_fraction(name: str) -> bool:
    try:
        return not float(name).is_integer()
    except (ValueError, OverflowError):
        return False


def _is_possible(counts: PartCounts) -> bool:
    """Return True if the parts can be labels: a few, which recur, some of them in several places."""
    return (
        not counts.refused
        and counts.several > 0
        and len(counts.labels) > 1
        and counts.recurrence >= LEAST_RECURRENCE
        and counts.mixing >= POSSIBLE_MIXING
    )


def _is_rich(counts: PartCounts, profile: ColumnProfile) -> bool:
    """Return True if there are far more combinations of words than names of several words would be."""
    has_many_sets = profile.many or len(profile.values) >= RICH * len(counts.labels)
    return has_many_sets and counts.mixing >= RICH_MIXING


def _is_clear(separator: str, counts: PartCounts, profile: ColumnProfile) -> bool:
    """Return True if the parts are labels: there are more combinations of them than names with a comma."""
    if counts.mixing < CLEAR_MIXING or separator == " ":
        return False
    if separator in STRONG_SEPARATORS:
        return True
    has_many_sets = profile.many or len(profile.values) > len(counts.labels)
    return has_many_sets and len(counts.combinations) >= LEAST_COMBINATIONS


def _doubt(profile: ColumnProfile, separator: str, counts: PartCounts) -> str:
    divided = [value for value in profile.classes if separator in value]
    return (
        f"{profile.name!r} has {separator!r} in {counts.several:,} of {profile.filled:,} labels, such as"
        f" {divided[0]!r}: it can separate several labels of a row, or be part of one name"
    )


def layout_of_columns(profiles: Sequence[ColumnProfile], named: bool = False) -> LabelLayout | None:
    """Return the layout of a column of 0 and 1 for each label; ``None`` if fewer than two are such columns.

    Columns with other words for 0 and 1 than most of them have are something else.

    Args:
        profiles: The columns that can be labels.
        named: True if the user named them: then all are labels.

    Raises:
        DataError: A column that the user named has something else than 0 and 1.
    """
    if named:
        for profile in profiles:
            if _words(profile) is None:
                raise DataError(
                    f"Column {profile.name!r} has more values than 0 and 1:"
                    f" {listed(profile.classes, SHOWN_LABELS)}.",
                    "Several --label name a column of 0 and 1 for each label.",
                )
        return _in_columns([profile.name for profile in profiles])

    words = {}
    for profile in profiles:
        of_column = _words(profile)
        if of_column is not None and _varies(profile):
            words[profile.name] = of_column
    if not words:
        return None
    usual, _ = Counter(words.values()).most_common(1)[0]
    columns = [name for name, of_column in words.items() if of_column == usual]
    if len(columns) < 2:
        return None
    doubt = ""
    if len(columns) < CLEAR_COLUMNS:
        doubt = f"{listed(columns)} have 0 and 1: each can be a label, or only one of them is the label"
    return _in_columns(columns, doubt)


def _in_columns(columns: list[str], doubt: str = "") -> LabelLayout:
    sets = LabelSetsParams(layout="columns", columns=columns)
    shown = listed(columns, SHOWN_LABELS)
    return LabelLayout(LABELS_OF_COLUMNS, sets, f"in a column of 0 and 1 for each: {shown}", doubt)


def _varies(profile: ColumnProfile) -> bool:
    """Return True if a column of 0 and 1 has both, or if some cells are empty, which is 0."""
    return len(profile.values) > 1 or profile.filled < profile.rows


NUMBERS = {"0": "0", "1": "1", "0.0": "0", "1.0": "1"}
"""Words for 0 and 1 of the columns that are numbers."""


def _words(profile: ColumnProfile) -> frozenset[str] | None:
    """Return which words for 0 and 1 a column has; ``None`` if it has anything else."""
    if profile.many or profile.nested or not profile.filled:
        return None
    values = set()
    cells = 0
    for value, count in profile.values.items():
        word = NUMBERS.get(value.lower(), value.lower())
        if word in INDICATORS:
            values.add(word)
            cells += count
    if not values or cells < LEAST_INDICATORS * profile.filled:
        return None
    # A column of one value has the words of all columns with that value.
    for words in (("0", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"), ("", "x")):
        if values <= set(words):
            return frozenset(words)
    return None
