"""Columns with several labels in a cell: by a separator, as lists, as vectors of 0 and 1, as objects."""

import json
import operator
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tuneline.columns.annotators import LEAST_REPEATED, MOST_VOTED, names_person, votes_in_a_cell
from tuneline.columns.numbers import numbers_of
from tuneline.columns.parts import PartCounts, separators_of
from tuneline.columns.profiles import NESTED
from tuneline.columns.reading import LEAST_FIT, Column, LabelReading, unusual
from tuneline.core.task_kinds import SET_KINDS
from tuneline.params.data import LabelSetsParams
from tuneline.readers.label_sets import EMPTY_SET, parse_list, vector
from tuneline.readers.label_values import ValueProblemError, plain_text
from tuneline.runtime.wording import listed

SET_TASK = SET_KINDS[0]
PROVED = 4.0
"""Points of a layout that the values prove."""
UNLIKELY = -5.0
"""Points of one whose parts are no labels."""
ALLOWED = 2.5
"""Points of one that they allow: near those of classes."""
WORDS_OF_NAMES = 2.1
"""Points of words with spaces between them: near those of classes, of which there are many, too."""
CLEAR_MIXING = 0.5
"""Share of later parts that occur at several positions, from which a separator is clear."""
POSSIBLE_MIXING = 0.2
STRONG_SEPARATORS = (";", "|", "><", "\t")
"""Separators that names of classes seldom contain."""
LEAST_OBJECTS = 0.02
"""Share of the cells that are objects, above which they are no mistakes: others can be plain names."""
ONE_EACH = (
    "each row has exactly one label: if a text cannot have several, write its name alone into one column, and"
    " --task classification learns it"
)
LEAST_SEVERAL = 0.05
"""Share of the cells with several parts, below which a separator that names can contain is a part of one."""
LEAST_COMBINATIONS = 3
"""Distinct sets of several parts from which another separator is clear: one or two can be names."""
RICH = 3
"""Distinct cells per word from which words can be labels, separated by spaces."""
RICH_MIXING = 0.8
FEWEST_DIGITS = 3
"""Elements of a vector of 0 and 1: with fewer it may be a number."""
ALWAYS_TWO = 0.95
"""Share of the cells with two parts, from which they are a number and its decimals."""
MOST_REPEATED = 0.02
"""Largest share of the cells that have an element twice: a set has none."""
FEWEST_PAIRS = 10
"""Different pairs from which their order says something."""
ALMOST_ALL = 0.97
SHUFFLES = 20
MOST_BY_CHANCE = 0.9
"""Share of shuffled pairs in ascending order, from which the order of the real ones says nothing."""


def set_readings(column: Column) -> list[LabelReading]:
    """Return how a column has several labels in a cell."""
    for read in (_objects, _vectors, _lists):
        reading = read(column)
        if reading is not None:
            return [reading]
    reading = _best_separated(column)
    return [reading] if reading is not None else []


def separated_by(column: Column, separator: str) -> LabelReading:
    """Return how a column has several labels with a separator that the user named.

    He may have named no column: then it is that whose parts can be labels.
    """
    counts = PartCounts.of(column.values, separator)
    points = UNLIKELY
    if counts.can_be_labels:
        points = PROVED
    return _reading(column, counts, points)


def _objects(column: Column) -> LabelReading | None:
    """Return a refusal for cells that are objects of JSON, or lists of them."""
    objects = 0
    example = ""
    for value, cells in column.values.items():
        text = value.removeprefix(NESTED)
        is_object = (
            text.startswith("{") and text.endswith("}") and '":' in text.replace(" ", "").replace("'", '"')
        )
        if is_object or text.replace(" ", "").startswith(('[{"', "[{'")):
            objects += cells
            example = example or text
    if objects <= LEAST_OBJECTS * column.rows:
        return None
    keys = _names_of_objects(example)
    hint = f"Write the names alone into the column, such as ['a', 'b']; the objects have {keys}."
    return LabelReading(
        (column.name,),
        column.name,
        SET_TASK,
        ALLOWED,
        "labels in JSON objects",
        f"its cells are JSON objects, such as {example[:60]!r}",
        coverage=column.coverage,
        refused=hint,
    )


def _names_of_objects(example: str) -> str:
    try:
        value = json.loads(example.replace("'", '"'))
    except ValueError:
        return "several keys"
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, dict):
        return listed(first, 4)
    return "several keys"


def _vectors(column: Column) -> LabelReading | None:
    """Return the reading as a 0 or 1 for each label, of one length."""
    lengths: Counter[int] = Counter()
    fitting: dict[str, str] = {}
    for value, cells in column.values.items():
        digits = vector(value.removeprefix(NESTED))
        if digits is not None:
            fitting[value] = digits
            lengths[len(digits)] += cells
    if not lengths:
        return None
    length, cells = lengths.most_common(1)[0]
    usual = {value for value, digits in fitting.items() if len(digits) == length}
    is_number = all(value.startswith("1") and value.isdecimal() for value in usual)
    if length < FEWEST_DIGITS or is_number or cells < LEAST_FIT * column.rows:
        return None
    if names_person(column.key):
        return votes_in_a_cell(column)
    ones = sum(fitting[value].count("1") * column.values[value] for value in usual)
    return LabelReading(
        (column.name,),
        column.name,
        SET_TASK,
        PROVED,
        f"{length} labels, {ones / cells:.1f} per row, called 0 to {length - 1}: data.label_names names them",
        f"a 0 or 1 for each of {length} labels",
        LabelSetsParams(layout="vectors"),
        coverage=column.coverage,
        exceptions=unusual(column.values, usual),
    )


def _lists(column: Column) -> LabelReading | None:
    """Return the reading as lists of names."""
    lists = 0
    several = 0
    repeated = 0
    labels: Counter[str] = Counter()
    fitting = set()
    for value, cells in column.values.items():
        names = _list_of(value.removeprefix(NESTED))
        if names is None:
            continue
        lists += cells
        fitting.add(value)
        if len(names) > 1:
            several += cells
        if len(set(names)) < len(names):
            repeated += cells
        for name in set(names):
            labels[name] += cells
    if lists < LEAST_FIT * column.rows or not labels:
        return None
    recurs = labels.total() >= 2 * len(labels) or len(labels) < column.rows
    if not recurs or max(map(len, labels)) > 100 or all(map(_is_fraction, labels)):
        return None
    if repeated > LEAST_REPEATED * several:
        return votes_in_a_cell(column)
    return LabelReading(
        (column.name,),
        column.name,
        SET_TASK,
        PROVED,
        f"{len(labels)} labels, {labels.total() / lists:.1f} per row, in lists",
        "in lists",
        LabelSetsParams(layout="lists"),
        coverage=column.coverage,
        hint=ONE_EACH if labels.total() == lists and not several else "",
        exceptions=unusual(column.values, fitting),
    )


def _list_of(text: str) -> list[str] | None:
    """Return the names in a list; ``None`` if it is none, or not flat."""
    if not (text[:1] in "[({" or text == EMPTY_SET):
        return None
    try:
        elements = parse_list(text)
    except ValueProblemError:
        return None
    names = []
    for element in elements:
        if isinstance(element, (list, dict)):
            return None
        name = plain_text(element)
        if name is not None:
            names.append(name)
    return names


def _is_fraction(name: str) -> bool:
    try:
        return not float(name).is_integer()
    except (ValueError, OverflowError):
        return False


def _best_separated(column: Column) -> LabelReading | None:
    """Return the reading with the separator that gives the fewest labels; ``None`` if none is possible.

    Any other one leaves several labels in a part, and has their combinations as labels. Of ":" and ":::",
    which give the same, the longer is meant.
    """
    possible = []
    for separator in separators_of(column.values.items()):
        counts = PartCounts.of(column.values, separator)
        is_frequent = separator in STRONG_SEPARATORS or counts.several >= LEAST_SEVERAL * counts.cells
        is_possible = counts.can_be_labels and counts.mixing >= POSSIBLE_MIXING and is_frequent
        if is_possible and (separator != " " or _is_rich(column, counts)):
            possible.append(counts)
    for counts in sorted(possible, key=lambda counts: (len(counts.labels), -len(counts.separator))):
        if _are_votes(column, counts):
            return votes_in_a_cell(column)
        points = _points(column, counts)
        if points is not None:
            return _reading(column, counts, points)
    return None


def _are_votes(column: Column, counts: PartCounts) -> bool:
    """Return True if cells have a label several times; not in 4,4, which is a number."""
    if counts.separator == " " or len(counts.labels) > MOST_VOTED:
        return False
    can_be_decimals = all(value.count(counts.separator) <= 1 for value in column.values)
    if can_be_decimals and numbers_of(column):
        return False
    return counts.repeated > LEAST_REPEATED * counts.several


def _points(column: Column, counts: PartCounts) -> float | None:
    """Return the evidence of a separator; ``None`` if the parts are those of numbers."""
    if counts.separator in ",." and numbers_of(column):
        return _points_against_decimals(column, counts)
    if all(map(_is_fraction, counts.labels)):
        return None
    has_many_sets = column.profile.many or len(column.values) > len(counts.labels)
    if counts.separator == " ":
        return WORDS_OF_NAMES
    is_strong = counts.separator in STRONG_SEPARATORS
    has_combinations = has_many_sets and len(counts.combinations) >= LEAST_COMBINATIONS
    if counts.mixing >= CLEAR_MIXING and (is_strong or has_combinations):
        return PROVED
    return ALLOWED


def _points_against_decimals(column: Column, counts: PartCounts) -> float | None:
    """Return the evidence that ``4,27`` is two ids and not a number; ``None`` if it is a number.

    Ids of a set are different, and the same ids are first and later ones. Digits after a decimal comma are
    neither, can begin with 0, and nearly all cells have some.
    """
    pairs = IdPairs()
    for value, cells in column.values.items():
        if counts.separator in value and not pairs.add(value.split(counts.separator), cells):
            return None
    is_number = pairs.cells == 0 or pairs.cells > ALWAYS_TWO * column.rows
    is_repeated = counts.repeated > MOST_REPEATED * pairs.cells
    if is_number or is_repeated or counts.mixing < CLEAR_MIXING or not pairs.have_one_vocabulary:
        return None
    if pairs.of_three > MOST_REPEATED / 2 * pairs.cells or pairs.are_ascending:
        return PROVED
    return ALLOWED - 0.5


@dataclass
class IdPairs:
    """Cells with several whole numbers.

    Attributes:
        cells: Number of cells.
        of_three: Number of cells with more than two.
        ascending: Number of cells whose numbers are in order.
        first, later: First and last number of each value.
    """

    cells: int = 0
    of_three: int = 0
    ascending: int = 0
    first: list[int] = field(default_factory=list)
    later: list[int] = field(default_factory=list)

    def add(self, texts: Sequence[str], cells: int) -> bool:
        """Count some equal cells; return False if a part is no whole number, or a later one begins with 0."""
        parts = []
        for position, text in enumerate(map(str.strip, texts)):
            has_zero = position > 0 and len(text) > 1 and text.startswith("0")
            if has_zero or not text.isdecimal():
                return False
            parts.append(int(text))
        self.cells += cells
        self.first.append(parts[0])
        self.later.append(parts[-1])
        if len(parts) > 2:
            self.of_three += cells
        if parts == sorted(parts):
            self.ascending += cells
        return True

    @property
    def have_one_vocabulary(self) -> bool:
        """True if first numbers are later ones, too, or all are in order."""
        first = set(self.first)
        return self.ascending == self.cells or len(first & set(self.later)) >= CLEAR_MIXING * len(first)

    @property
    def are_ascending(self) -> bool:
        """True if the numbers are in order, and would not be by chance."""
        if len(self.first) < FEWEST_PAIRS or self.ascending <= ALMOST_ALL * self.cells:
            return False
        generator = random.Random(0)  # noqa: S311 - no secret depends on it
        later = list(self.later)
        by_chance = 0
        for _ in range(SHUFFLES):
            generator.shuffle(later)
            by_chance += sum(map(operator.lt, self.first, later))
        return by_chance < MOST_BY_CHANCE * SHUFFLES * len(later)


def _is_rich(column: Column, counts: PartCounts) -> bool:
    """Return True if there are far more combinations of words than names of several words would be."""
    has_many_sets = column.profile.many or len(column.values) >= RICH * len(counts.labels)
    return has_many_sets and counts.mixing >= RICH_MIXING


def _reading(column: Column, counts: PartCounts, points: float) -> LabelReading:
    sets = LabelSetsParams(layout="separated", separator=counts.separator)
    exceptions = [text for text in counts.too_long if text][:3]
    return LabelReading(
        (column.name,),
        column.name,
        SET_TASK,
        points,
        f"{len(counts.labels)} labels, {counts.mean:.1f} per row, separated by {counts.separator!r}",
        f"separated by {counts.separator!r}",
        sets,
        coverage=column.coverage,
        exceptions=tuple(exceptions),
    )
