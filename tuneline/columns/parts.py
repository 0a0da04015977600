"""Parts of cells: what a column would have as labels if its cells had several, by each separator."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tuneline.readers.label_sets import BRACKETS, separated

LONGEST_LABEL = 100
"""Characters of a part that can be a label."""
MOST_LABELS = 1000
"""Distinct parts; more are no labels."""
NO_SEPARATORS = "'\"`.<>=!~"
"""Characters that separate nothing when alone: quotes, and what is in versions and conditions."""
BETWEEN = re.compile(r"\s*[^\w\s]+\s*|\s+|_{2,}")
"""What can be between two names."""
LEAST_CELLS = 3
LEAST_SEPARATED = 0.01
"""Share of the cells that have a possible separator."""
MOST_SEPARATORS = 12
FEWEST_INDEPENDENT = 2.0
"""Mean cells of a part: labels recur, the words of a text do not."""


@dataclass
class PartCounts:
    """The parts of the cells of one column.

    Attributes:
        separator: What is between two of them.
        cells: Cells with parts that can be labels.
        several: Cells with several parts.
        labels: Number of cells by part.
        positions: Where each part occurs: 0 alone or as the first of several.
        combinations: Distinct sets of several parts.
        repeated: Cells that have a part twice.
        too_long: Cells with a part that is too long for a label.
    """

    separator: str
    cells: int = 0
    several: int = 0
    labels: Counter[str] = field(default_factory=Counter)
    positions: dict[str, set[int]] = field(default_factory=dict)
    combinations: set[frozenset[str]] = field(default_factory=set)
    repeated: int = 0
    too_long: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, values: Counter[str], separator: str) -> "PartCounts":
        """Count the parts of all cells."""
        counts = cls(separator)
        for text, cells in values.items():
            parts = names_in(text, separator)
            if parts:
                counts.add(text, parts, cells)
        return counts

    def add(self, text: str, parts: list[str], cells: int) -> None:
        """Count some equal cells."""
        if max(map(len, parts)) > LONGEST_LABEL:
            self.too_long.append(text)
            return
        self.cells += cells
        distinct = set(parts)
        for part in distinct:
            self.labels[part] += cells
        for position, part in enumerate(parts):
            self.positions.setdefault(part, set()).add(position)
        if len(parts) > 1:
            self.several += cells
            self.combinations.add(frozenset(parts))
        if len(distinct) < len(parts):
            self.repeated += cells

    @property
    def recurrence(self) -> float:
        """Mean number of cells of a part."""
        return self.labels.total() / max(len(self.labels), 1)

    @property
    def mixing(self) -> float:
        """Share of the parts that are not always first, and that occur at several positions.

        Labels do, also where they are sorted. In "Oslo, Norway" and "Books, used", each part has its place.
        """
        later = [places for places in self.positions.values() if places != {0}]
        mixed = [places for places in later if len(places) > 1]
        return len(mixed) / max(len(later), 1)

    @property
    def mean(self) -> float:
        """Mean number of parts of a cell."""
        return self.labels.total() / max(self.cells, 1)

    @property
    def can_be_labels(self) -> bool:
        """True if the parts are a few names that recur."""
        return (
            self.several > 0
            and 1 < len(self.labels) <= MOST_LABELS
            and self.recurrence >= FEWEST_INDEPENDENT
            and len(self.too_long) <= 0.1 * (len(self.too_long) + self.cells)
        )


def names_in(text: str, separator: str) -> list[str]:
    """Return the parts of a cell, without white space and without empty ones."""
    return [part.strip() for part in separated(text, separator) if part.strip()]


def separators_of(values: Iterable[tuple[str, int]]) -> list[str]:
    """Return what can separate labels: what is between words in some of the cells, the most frequent first.

    White space around punctuation is not part of a separator, and white space alone is one character.
    """
    counts: Counter[str] = Counter()
    total = 0
    for text, cells in values:
        total += cells
        found = set()
        for match in BETWEEN.findall(text.strip().strip("|;,/#<>[]{}()")):
            token = match.strip() or _blank(match)
            found.add(token)
            if len(token) > 1 and token not in BRACKETS:
                found.update(token)
        for token in sorted(found):
            counts[token] += cells
    least = max(LEAST_SEPARATED * total, LEAST_CELLS)
    frequent = []
    for token, cells in counts.most_common():
        if cells >= least and token not in NO_SEPARATORS:
            frequent.append(token)
    return frequent[:MOST_SEPARATORS]


def _blank(white: str) -> str:
    """Return the character that separates, of white space alone."""
    for character in "\n\t":
        if character in white:
            return character
    return " "
