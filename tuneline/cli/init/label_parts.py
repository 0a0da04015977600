"""Counts of the parts of cells: what a column would have as labels if its cells had several."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tuneline.readers.label_sets import EMPTY_SET, parse_list
from tuneline.readers.label_values import ValueProblemError, plain_text

LABEL_SEPARATORS = (";", "|", ",", "\t", " ")
"""What may be between two labels of a cell; the first that divides a column well is taken."""
MOST_LABELS = 1000
"""Distinct parts that are counted: more are no labels."""
LONGEST_LABEL = 100
"""Characters of a part that can be a label."""

LONGEST_LIST = 10_000
"""Characters of a list of labels."""


@dataclass
class PartCounts:
    """The parts of the cells of one column, over the whole file.

    Attributes:
        cells: Cells with a part.
        several: Cells with several parts.
        labels: Number of cells by part.
        alone_or_first, later: Parts that occur alone or as the first of several; and as another one.
        combinations: Distinct sets of several parts, up to ``MOST_LABELS``.
        refused: The parts are too many or too long to be labels; they are not counted any more.
    """

    cells: int = 0
    several: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    alone_or_first: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    combinations: set[frozenset[str]] = field(default_factory=set)
    refused: bool = False

    def add(self, parts: Sequence[str]) -> None:
        """Count the parts of one cell."""
        if self.refused or not parts:
            return
        self.cells += 1
        self.labels.update(set(parts))
        self.alone_or_first.add(parts[0])
        if len(parts) > 1:
            self.several += 1
            self.later.update(parts[1:])
            if len(self.combinations) < MOST_LABELS:
                self.combinations.add(frozenset(parts))

        is_long = max(map(len, parts)) > LONGEST_LABEL
        if is_long or len(self.labels) > MOST_LABELS:
            # A column of texts would take the memory of the whole file.
            self.refused = True
            self.labels.clear()
            self.alone_or_first.clear()
            self.later.clear()
            self.combinations.clear()

    @property
    def recurrence(self) -> float:
        """Mean number of cells of a part: labels recur, the words of a text do not."""
        return self.labels.total() / max(len(self.labels), 1)

    @property
    def mixing(self) -> float:
        """Share of the later parts that also occur alone or first.

        Labels do. In "Oslo, Norway" and "Books, used", the second part never is a first one.
        """
        return len(self.later & self.alone_or_first) / max(len(self.later), 1)


@dataclass
class CellParts:
    """The parts of the cells of one column, by each way in which they can be written.

    Attributes:
        separated: Counts by separator.
        listed: Counts where cells are lists.
        lists: Number of cells that are lists.
    """

    separated: dict[str, PartCounts] = field(
        default_factory=lambda: {separator: PartCounts() for separator in LABEL_SEPARATORS}
    )
    listed: PartCounts = field(default_factory=PartCounts)
    lists: int = 0

    def add(self, text: str) -> None:
        """Count a cell that is not empty."""
        for separator, counts in self.separated.items():
            if not counts.refused:
                counts.add(names_in(text, separator))
        if (text[0] in "[({" or text == EMPTY_SET) and len(text) <= LONGEST_LIST:
            self._add_list(text)

    def _add_list(self, text: str) -> None:
        try:
            elements = parse_list(text)
        except ValueProblemError:
            return
        names = []
        for element in elements:
            if isinstance(element, (list, dict)):
                return
            name = plain_text(element)
            if name is not None:
                names.append(name)
        self.lists += 1
        self.listed.add(names)


def names_in(text: str, separator: str) -> list[str]:
    """Return the parts of a cell, without white space and without empty ones."""
    if separator not in text:
        return [text]
    return [part.strip() for part in text.split(separator) if part.strip()]
