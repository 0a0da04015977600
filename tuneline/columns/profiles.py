"""Statistics of the columns of a file, over all of its rows, and a random sample of these."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Cells = tuple[str | None, ...]
"""Cells in the order of the columns; ``None`` for a missing one."""
NESTED = "\x00nested"
"""Beginning of a cell that holds a list or an object, which is no text. A list follows it, as JSON."""
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Chinese and Japanese characters: each counts as a word, because no spaces separate words."""
WORD_PATTERN = re.compile(f"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\\W_])+")


def count_words(text: str) -> int:
    """Return the number of words."""
    if text.isascii():
        return len(text.split())
    return len(WORD_PATTERN.findall(text))


NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
MOST_VALUES = 1000
"""Distinct values that are counted; a column with more does not hold classes."""
EMPTY_LABELS = {"", "-1", "[]"}


@dataclass
class ColumnProfile:
    """Statistics of one column, over the whole file.

    A file may be sorted, so its first rows are not representative.

    Attributes:
        filled: Rows with a value.
        numbers, fractions: Cells that are numbers, and cells that are numbers but not whole.
        lengths: Number of cells by number of words.
        nested: Cells that are lists or objects.
        values: Number of cells by value, for the first ``MOST_VALUES`` values.
        many: There are more values.
        numbered: Each cell is the whole number after the number of the cell before.
    """

    name: str
    rows: int = 0
    filled: int = 0
    numbers: int = 0
    fractions: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    nested: int = 0
    values: Counter[str] = field(default_factory=Counter)
    many: bool = False
    numbered: bool = True
    _last: float | None = None

    def add(self, cell: str | None) -> None:
        """Count one cell."""
        self.rows += 1
        text = (cell or "").strip()
        if not text:
            return
        self.filled += 1
        if text.startswith(NESTED):
            self.nested += 1
            text = text.removeprefix(NESTED) or text
        self.lengths[count_words(text)] += 1

        number = None
        if len(text) < 40 and NUMBER.fullmatch(text):
            number = float(text)
            self.numbers += 1
            if not number.is_integer():
                self.fractions += 1
        self._follow(number)

        # Values beyond MOST_VALUES are not kept: a column of texts would take the memory of the whole file.
        if text in self.values or len(self.values) < MOST_VALUES:
            self.values[text] += 1
        else:
            self.many = True

    def _follow(self, number: float | None) -> None:
        """Note whether the next cell, a number or ``None``, follows the one before."""
        if number is None or (self._last is not None and number != self._last + 1):
            self.numbered = False
        self._last = number

    @property
    def mean_words(self) -> float:
        """Mean number of words of a filled cell."""
        total = 0
        for words, cells in self.lengths.items():
            total += words * cells
        return total / max(self.filled, 1)

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
        """True if all cells are empty, -1 or an empty list: the values of a missing label."""
        return not self.many and not set(self.values) - EMPTY_LABELS


def profile(columns: Sequence[str], rows: Iterable[Cells]) -> list[ColumnProfile]:
    """Return the statistics of each column."""
    profiles = [ColumnProfile(name) for name in columns]
    for row in rows:
        for column, cell in zip(profiles, row, strict=True):
            column.add(cell)
    return profiles


SAMPLE_ROWS = 5000
LONGEST = 1 << 15
"""Characters that are kept of a cell: more than any encoder reads."""


def sampling(rows: Iterable[Cells], sample: list[Cells]) -> Iterator[Cells]:
    """Yield rows, and draw a random sample of them (reservoir sampling, algorithm R).

    The sample is in no order, and the same for the same file.
    """
    generator = random.Random(0)  # noqa: S311 - no secret depends on it
    for number, row in enumerate(rows):
        if number < SAMPLE_ROWS:
            sample.append(_shortened_cells(row))
        else:
            position = generator.randrange(number + 1)
            if position < SAMPLE_ROWS:
                sample[position] = _shortened_cells(row)
        yield row


def _shortened_cells(row: Cells) -> Cells:
    return tuple(cell and cell[:LONGEST] for cell in row)
