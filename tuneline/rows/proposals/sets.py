"""Several labels per row: names in a cell by a separator, lists of names, or a column of 0 and 1 for each."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tuneline.core.params.data import LABELS_OF_COLUMNS, LabelSetsParams
from tuneline.core.runtime.terminal import listed
from tuneline.model.tasks.task import MISSING_WORDS, NO_NAMES
from tuneline.rows.proposals.profiles import NUMBER, Column
from tuneline.rows.proposals.readings import (
    DECIMAL_COMMA,
    IF_NAMED,
    KNOWN_NAME,
    LEAST_FIT,
    PLAIN,
    SET_TASK,
    WEAK,
    LabelReading,
    missing_where,
    nearly_all,
)
from tuneline.rows.reading.label_values import (
    INDICATORS,
    ValueProblemError,
    is_missing_indicator,
    parse_list,
    plain_text,
    separated,
    sorted_names,
)

LONGEST_LABEL = 100
"""Characters of a part that can be a label."""
MOST_LONG = 0.1
"""Share of the cells with a longer part, up to which these are mistakes."""
MOST_LABELS = 1000
"""Distinct parts; more are not labels."""
SEPARATORS = ("><", ";", "|", "\n", "\t", ",", "/", "#", "&", "+", ":::", " ")
"""What is tried between two names; ``--separator`` names any other."""
SEPARATORS_OF_NUMBERS = (",", ";", "|", " ", "\n", "\t")
"""What can be between numbers of labels; others make dates, times, fractions and addresses of them."""
STRONG_SEPARATORS = (";", "|", "><", "\t")
"""Separators that names of classes seldom contain."""
LEAST_SEVERAL = 0.05
"""Share of the cells with several parts, below which a separator that names can contain is a part of one."""
LEAST_MIXING, CLEAR_MIXING, RICH_MIXING = 0.2, 0.5, 0.8
"""Share of later parts at several positions, from which they can be labels, are, and are with spaces."""
RICH = 3
"""Distinct cells per word from which words can be labels, separated by spaces."""
LEAST_COMBINATIONS = 3
"""Distinct sets of several parts from which a separator is clear: one or two can be names."""
ALWAYS_TWO = 0.9
"""Share of the cells with two parts, from which they are a number and its decimals."""
VECTOR = re.compile(r"[\[(]?\s*[01](?:[\s,;]*[01]){2,}\s*[\])]?")
"""A 0 or 1 for each label."""
MOST_OBJECTS = 0.02
"""Share of the cells that are objects of JSON, up to which they are mistakes."""
OBJECT = re.compile(r"\s*\[?\s*\{\s*['\"][^'\"]*['\"]\s*:.*", re.DOTALL)
TAGS = re.compile(r"[\[('\"\s]*(?:(?:[BIESLUM]-[^\s,'\"\])]+|O)(?:[\])'\",\s]+|$))+")
"""The tag of a token, or of each token of a text: the first of a name, a further one, or none."""
NO_TAGS = "That is token classification, which Tuneline does not do: it learns labels of whole texts"
LEAST_REPEATED = 0.1
"""Share of the rows with a name twice, from which the names of a row are not a set: people agree."""
MOST_VOTED = 50
"""Distinct labels of several people; more are rather numbers."""
CLEAR_COLUMNS = 3
"""Columns of 0 and 1 from which they are labels, if no other column is as plain.

Two can be a label and a property of the text.
"""
SHOWN_LABELS = 5
WORDS = (("0", "1"), ("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"), ("", "x"))
"""Words for 0 and 1."""
NO_OBJECTS = 'Write text and label of each row as values of their own: {"text": ..., "label": ...}.'
ONE_CELL = "Write the names of a row into one cell: a; b. Of several people, write the label of most"


def share_of(column: Column, fits: Callable[[str], object]) -> float:
    """Return the share of the counted cells whose value fits."""
    return sum(cells for value, cells in column.values.items() if fits(value)) / max(column.counted, 1)


def set_readings(column: Column) -> list[LabelReading]:
    """Return how a column has several labels in a cell: at most one reading."""
    if share_of(column, OBJECT.fullmatch) > MOST_OBJECTS:
        return [_refused(column, "JSON objects", NO_OBJECTS)]
    if has_tags(column):
        return [_refused(column, "tags of tokens (B-, I-, O)", NO_TAGS)]
    are_numbers = all(value.startswith("1") and value.isdecimal() for value in column.values)
    if share_of(column, VECTOR.fullmatch) >= LEAST_FIT and not are_numbers:
        return [_refused(column, "several 0 and 1 in a cell", ONE_CELL)]
    return _lists(column) or _best_separated(column)


def has_tags(column: Column) -> bool:
    """Return True if nearly all cells have tags of tokens."""
    has_first = any("B-" in value for value in column.values)
    return has_first and share_of(column, TAGS.fullmatch) >= LEAST_FIT


def _refused(column: Column, held: str, hint: str) -> LabelReading:
    return LabelReading((column.name,), column.name, SET_TASK, PLAIN, held, is_clear=True, refused=hint)


def _lists(column: Column) -> list[LabelReading]:
    """Return the reading as lists of names."""
    parts = Parts("")
    for value, cells in column.values.items():
        names = _list_of(value)
        if names is not None:
            parts.add(names, cells)
        elif value.lower() in MISSING_WORDS:
            parts.missing[value] = cells
    labels = parts.labels
    filled = column.counted - parts.missing.total()
    if parts.cells < LEAST_FIT * filled or not labels or all(map(_is_fraction, labels)):
        return []
    recurs = labels.total() >= 2 * len(labels) or len(labels) < column.counted
    if not recurs or max(map(len, labels)) > LONGEST_LABEL:
        return []
    sets = LabelSetsParams(layout="lists")
    # Lists of one name are classes, unless the user says that another row could have several.
    lists = [value for value in column.values if _list_of(value) is not None]
    is_single = not parts.several and all(value.startswith("[") for value in lists)
    rank = IF_NAMED if is_single else PLAIN
    return [parts.reading(column, sets, rank, ", in lists", is_clear=not is_single)]


def _list_of(text: str) -> list[str] | None:
    """Return the names in a list; ``None`` if it is none, or not flat."""
    if not (text[:1] in "[({" or text == "set()"):
        return None
    try:
        elements = parse_list(text)
    except ValueProblemError:
        return None
    if any(isinstance(element, (list, dict)) for element in elements):
        return None
    return list(filter(None, map(plain_text, elements)))


def _is_fraction(name: str) -> bool:
    try:
        return not float(name).is_integer()
    except (ValueError, OverflowError):
        return False


@dataclass
class Parts:
    """The parts of the cells of one column.

    Attributes:
        separator: What is between two of them.
        cells: Cells with parts that can be labels.
        several: Cells with several parts.
        repeated: Cells that have a part twice.
        labels: Number of cells by part.
        positions: Where each part occurs: 0 alone or as the first of several.
        combinations: Distinct sets of several parts.
        too_long: Cells with a part that is too long for a label.
        missing: Cells by their word for a missing label.
        sizes: Cells with nothing but numbers, by how many there are.
    """

    separator: str
    cells: int = 0
    several: int = 0
    repeated: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    positions: dict[str, set[int]] = field(default_factory=dict)
    combinations: set[frozenset[str]] = field(default_factory=set)
    too_long: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    sizes: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, values: Counter[str], separator: str) -> "Parts":
        """Count the parts of all cells."""
        counts = cls(separator)
        for text, cells in values.items():
            parts = [part.strip() for part in separated(text, separator) if part.strip()]
            if text.lower() in NO_NAMES:
                counts.missing[text] = cells
            elif parts and max(map(len, parts)) > LONGEST_LABEL:
                counts.too_long += cells
            elif parts:
                counts.add(parts, cells)
        return counts

    def add(self, parts: list[str], cells: int) -> None:
        """Count some equal cells."""
        self.cells += cells
        if all(map(NUMBER.fullmatch, parts)):
            self.sizes[len(parts)] += cells
        for position, part in enumerate(parts):
            self.positions.setdefault(part, set()).add(position)
        for part in set(parts):
            self.labels[part] += cells
        if len(parts) > 1:
            self.several += cells
            self.combinations.add(frozenset(parts))
        if len(set(parts)) < len(parts):
            self.repeated += cells

    @property
    def mixing(self) -> float:
        """Share of the parts that are not always first, and that occur at several positions.

        Labels do, also where they are sorted. In "Oslo, Norway" and "Books, used", each part has its place.
        """
        later = [places for places in self.positions.values() if places != {0}]
        mixed = [places for places in later if len(places) > 1]
        return len(mixed) / max(len(later), 1)

    @property
    def can_be_labels(self) -> bool:
        """True if the parts are a few names that recur."""
        are_few = 1 < len(self.labels) <= MOST_LABELS and self.labels.total() >= 2 * len(self.labels)
        are_short = self.too_long <= MOST_LONG * (self.too_long + self.cells)
        return self.several > 0 and are_few and are_short

    def reading(
        self, column: Column, sets: LabelSetsParams, rank: int, how: str, *, is_clear: bool
    ) -> LabelReading:
        """Return the reading of the column, or its refusal where people labelled a text several times."""
        size = max(self.sizes, key=lambda size: self.sizes[size], default=0)
        is_tuple = size > 1 and self.sizes[size] >= LEAST_FIT * self.cells
        is_repeated = self.repeated > LEAST_REPEATED * self.several and self.separator != " "
        if is_repeated and not (is_tuple and self.separator) and len(self.labels) <= MOST_VOTED:
            return _refused(column, "labels of several people in a cell, some of them equal", ONE_CELL)
        trains = f"{len(self.labels)} labels, {self.labels.total() / max(self.cells, 1):.1f} per row{how}"
        unclear = [label for label in self.labels if label.lower() in MISSING_WORDS]
        doubt = ""
        if is_tuple:
            rank = max(rank, WEAK)
            doubt = f"{size} numbers in each cell can be a date, a time, a score or a version"
        elif unclear:
            doubt = f"{listed(unclear)} can be a label; else, empty the cell, or write ? where none is known"
        return LabelReading(
            (column.name,),
            column.name,
            SET_TASK,
            rank,
            trains + missing_where(self.missing),
            sets,
            coverage=1 - self.missing.total() / max(column.counted, 1),
            names=tuple(sorted_names(self.labels)) if unclear else (),
            doubt=doubt,
            is_clear=is_clear and not is_tuple,
        )


def _best_separated(column: Column) -> list[LabelReading]:
    """Return the reading with the separator that gives the fewest labels.

    Any other one leaves several labels in a part, and has their combinations as labels.
    """
    best: Parts | None = None
    for separator in SEPARATORS:
        parts = Parts.of(column.values, separator)
        is_possible = parts.can_be_labels and _can_separate(column, parts)
        if is_possible and (best is None or len(parts.labels) < len(best.labels)):
            best = parts
    return [] if best is None else [separated_by(column, best.separator)]


def _can_separate(column: Column, parts: Parts) -> bool:
    """Return True if the parts are at several positions, in enough cells, and no parts of numbers."""
    separator = parts.separator
    if separator == " ":
        is_rich = column.many or len(column.values) >= RICH * len(parts.labels)
        return is_rich and parts.mixing >= RICH_MIXING
    if all(map(str.isdecimal, parts.labels)) and separator not in SEPARATORS_OF_NUMBERS:
        return False
    if separator == "," and nearly_all(column, DECIMAL_COMMA):
        return parts.mixing >= CLEAR_MIXING and parts.several <= ALWAYS_TWO * parts.cells
    is_frequent = separator in STRONG_SEPARATORS or parts.several >= LEAST_SEVERAL * parts.cells
    return is_frequent and parts.mixing >= LEAST_MIXING and not all(map(_is_fraction, parts.labels))


def separated_by(column: Column, separator: str) -> LabelReading:
    """Return how a column has several labels with a separator."""
    parts = Parts.of(column.values, separator)
    has_sets = column.many or len(column.values) > len(parts.labels)
    has_combinations = has_sets and len(parts.combinations) >= LEAST_COMBINATIONS
    is_set = separator in STRONG_SEPARATORS or (has_combinations and separator != " ")
    can_be_decimals = separator == "," and nearly_all(column, DECIMAL_COMMA)
    is_clear = is_set and parts.mixing >= CLEAR_MIXING and not can_be_decimals
    rank = PLAIN if parts.can_be_labels else IF_NAMED
    sets = LabelSetsParams(layout="separated", separator=separator)
    how = f", separated by {separator!r}"
    return parts.reading(column, sets, rank, how, is_clear=is_clear)


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
        if of_column is not None and (named or len(column.values) > 1 or column.coverage < 1):
            words[column.name] = of_column
    usual = max(words.values(), key=list(words.values()).count, default=None)
    members = [column for column in columns if words.get(column.name) == usual or (named and words)]
    if usual is None or len(members) < 2:
        return None
    names = [column.name for column in members]
    ones = sum(share_of(column, _is_one) * column.coverage for column in members)
    return LabelReading(
        tuple(names),
        LABELS_OF_COLUMNS,
        SET_TASK,
        KNOWN_NAME if len(members) >= CLEAR_COLUMNS else PLAIN,
        f"{len(names)} labels, {ones:.1f} per row, a column of 0 and 1 each: {listed(names, SHOWN_LABELS)}",
        LabelSetsParams(layout="columns", columns=names),
        coverage=1 - max(share_of(column, is_missing_indicator) for column in members),
    )


def _is_one(value: str) -> bool:
    return INDICATORS.get(value.lower().removesuffix(".0")) is True


def indicator_words(column: Column) -> tuple[str, str] | None:
    """Return which words for 0 and 1 a column has; ``None`` if it has anything else.

    -1, NA and ? are words for a missing label, and an empty cell is 0.
    """
    labelled = column.counted * (1 - share_of(column, is_missing_indicator))
    fitting: Counter[str] = Counter()
    for value, cells in column.values.items():
        word = value.lower().removesuffix(".0")
        if word in INDICATORS:
            fitting[word] += cells
    empty = column.rows - column.filled
    is_rare = fitting.total() + empty < LEAST_FIT * (labelled + empty) or fitting.total() < labelled / 2
    if column.many or column.nested or not fitting or is_rare:
        return None
    # A column of one value has the words of all columns with that value.
    return next((words for words in WORDS if set(fitting) <= set(words)), None)
