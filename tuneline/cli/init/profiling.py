"""What stands in each column, counted over the whole file: a file may be sorted, so its first rows prove little."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tuneline.cli.init.rows import NESTED, Row

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
MOST_VALUES = 1000
"""Different values that are counted one by one; a column with more is no list of classes."""
UNLABELLED = {"", "-1"}


@dataclass
class Profile:
    """One column.

    Attributes:
        name: Its name.
        rows: Rows seen.
        filled: Rows with something in them.
        numbers, fractions: Cells that are numbers, and those of them that are not whole.
        words: Words in all cells.
        lengths: How many cells have so many words.
        nested: Cells that are lists or objects.
        values: How often each value occurs; at most ``MOST_VALUES`` of them.
        many: Whether there are more.
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
        """Counts one cell."""
        self.rows += 1
        text = (cell or "").strip()
        if not text:
            return
        self.filled += 1
        self.nested += cell == NESTED
        words = len(text.split())
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
        """Words in a filled cell."""
        return self.words / self.filled if self.filled else 0.0

    def words_at(self, share: float) -> int:
        """The number of words that this share of the filled cells does not exceed."""
        seen = 0
        for words in sorted(self.lengths):
            seen += self.lengths[words]
            if seen >= share * self.filled:
                return words
        return 0

    @property
    def is_numeric(self) -> bool:
        """Whether every filled cell is a number."""
        return 0 < self.filled == self.numbers

    @property
    def classes(self) -> list[str]:
        """The different values but for ``-1`` among numbers, the most frequent first."""
        return [value for value, _ in self.values.most_common() if not (self.is_numeric and value in UNLABELLED)]

    @property
    def is_unlabelled(self) -> bool:
        """Whether, as a label, it says nothing: empty or -1 everywhere."""
        return not self.many and not set(self.values) - UNLABELLED


def profile(columns: Sequence[str], rows: Iterable[Row]) -> list[Profile]:
    """Reads a file through and counts."""
    profiles = [Profile(name) for name in columns]
    for row in rows:
        for one, cell in zip(profiles, row, strict=True):
            one.add(cell)
    return profiles
