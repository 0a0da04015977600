"""Statistics of the columns of a file."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tuneline.cli.init.pairs import count_words
from tuneline.cli.init.rows import NESTED, Row

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
MOST_VALUES = 1000
"""Distinct values that are counted; a column with more does not hold classes."""
UNLABELLED = {"", "-1"}


@dataclass
class Profile:
    """Statistics of one column, over the whole file: a file may be sorted, so its first rows are not representative.

    Attributes:
        name: Its name.
        rows: Rows read.
        filled: Rows with a value.
        numbers, fractions: Cells that are numbers, and those of them that are not whole.
        words: Words in all cells.
        lengths: Number of cells by number of words.
        nested: Cells that are lists or objects.
        values: Number of cells by value, for the first ``MOST_VALUES`` values.
        many: There are more values.
    """

    name: str
    rows: int = 0
    filled: int = 0
    numbers: int = 0
    fractions: int = 0
    words: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    nested: int = 0
    values: Counter[str] = field(default_factory=Counter)
    many: bool = False

    def add(self, cell: str | None) -> None:
        """Count one cell."""
        self.rows += 1
        text = (cell or "").strip()
        if not text:
            return
        self.filled += 1
        self.nested += cell == NESTED
        words = count_words(text)
        self.words += words
        self.lengths[words] += 1
        if len(text) < 40 and NUMBER.fullmatch(text):
            self.numbers += 1
            self.fractions += not float(text).is_integer()
        if text in self.values or len(self.values) < MOST_VALUES:
            self.values[text] += 1
        else:
            self.many = True

    @property
    def mean_words(self) -> float:
        """Mean number of words of a filled cell."""
        return self.words / self.filled if self.filled else 0.0

    def words_at(self, quantile: float) -> int:
        """Return the number of words that this fraction of the filled cells does not exceed."""
        seen = 0
        for words in sorted(self.lengths):
            seen += self.lengths[words]
            if seen >= quantile * self.filled:
                return words
        return 0

    @property
    def is_numeric(self) -> bool:
        """True if every filled cell is a number."""
        return 0 < self.filled == self.numbers

    @property
    def classes(self) -> list[str]:
        """The distinct values, most frequent first."""
        return [value for value, _ in self.values.most_common()]

    @property
    def is_unlabelled(self) -> bool:
        """True if all cells are empty or -1, the values of a missing label."""
        return not self.many and not set(self.values) - UNLABELLED


def profile(columns: Sequence[str], rows: Iterable[Row]) -> list[Profile]:
    """Return the statistics of each column."""
    profiles = [Profile(name) for name in columns]
    for row in rows:
        for one, cell in zip(profiles, row, strict=True):
            one.add(cell)
    return profiles
