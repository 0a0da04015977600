"""The columns of a file: statistics of all rows, and a random sample of these, in one pass."""

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tuneline.model.tasks.task import MISSING_WORDS
from tuneline.rows.reading.limits import KEPT_CHARACTERS, MOST_VALUES, SAMPLE_ROWS

NESTED = "\x00nested"
"""Beginning of a cell that holds a list or an object, which is not a text. A list follows it, as JSON."""
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Chinese and Japanese characters: each counts as a word, because no spaces separate words.

A letter of Thai or Khmer is less than a word: with these, names of classes would look like sentences.
"""
WORD_PATTERN = re.compile(f"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\\W_])+")
NUMBER = re.compile(r"(?=.{1,40}$)[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
FIRST_ROWS = 5
"""Rows that the user is shown."""
SPREADSHEET_ERROR = re.compile(r"#[¡¿]?[A-ZÀ-Ü]+(?:/0)?[!?]|#N/?[ADV]")
"""What a spreadsheet shows in place of a value, in several languages, such as ``#NAME?`` and ``#WERT!``."""
EMPTY_LABELS = MISSING_WORDS | {"", "-1", "[]"}


def count_words(text: str) -> int:
    """Return the number of words."""
    if text.isascii():
        return len(text.split())
    return len(WORD_PATTERN.findall(text))


@dataclass
class Column:
    """Statistics of one column.

    Attributes:
        rows: Number of rows.
        filled: Rows with a value.
        nested: Cells that are lists or objects.
        many: There are more than ``MOST_VALUES`` values.
        values: Number of cells by value: of all rows, or of the sample where there are ``many`` values.
        cells: The cells of the sample, in the same order of rows in all columns.
        first: The cells of the first rows.
        spreadsheet_errors: Cells that are ``SPREADSHEET_ERROR``.
        longest, longest_cells: Characters of the longest cells, and how many there are.
    """

    name: str
    rows: int = 0
    filled: int = 0
    nested: int = 0
    many: bool = False
    values: Counter[str] = field(default_factory=Counter)
    cells: list[str | None] = field(default_factory=list)
    first: list[str | None] = field(default_factory=list)
    spreadsheet_errors: int = 0
    longest: int = 0
    longest_cells: int = 0

    def add(self, cell: str | None, place: int) -> None:
        """Count one cell, and keep it in this place of the sample, if that is below ``SAMPLE_ROWS``."""
        if self.rows < FIRST_ROWS:
            self.first.append(cell)
        if place < SAMPLE_ROWS:
            self.cells[place : place + 1] = [cell and cell[:KEPT_CHARACTERS]]
        self.rows += 1
        text = (cell or "").strip()
        if not text:
            return
        self.filled += 1
        self.spreadsheet_errors += SPREADSHEET_ERROR.fullmatch(text) is not None
        if cell is not None and len(cell) > self.longest:
            self.longest = len(cell)
            self.longest_cells = 0
        self.longest_cells += len(cell or "") == self.longest
        if text.startswith(NESTED):
            self.nested += 1
            text = text.removeprefix(NESTED) or text

        # Values beyond MOST_VALUES are not kept: a column of texts would take the memory of the whole file.
        if text in self.values or len(self.values) < MOST_VALUES:
            self.values[text] += 1
        else:
            self.many = True

    @property
    def key(self) -> str:
        """Its name to compare with known names."""
        return self.name.strip().lower()

    @property
    def coverage(self) -> float:
        """Share of the rows that have a value."""
        return self.filled / max(self.rows, 1)

    @property
    def counted(self) -> int:
        """Number of cells in ``values``."""
        return self.values.total()

    @cached_property
    def mean_words(self) -> float:
        """Mean number of words of a cell in ``values``."""
        words = sum(cells * count_words(value) for value, cells in self.values.items())
        return words / max(self.counted, 1)

    @cached_property
    def is_numeric(self) -> bool:
        """True if every value is a number."""
        return bool(self.values) and all(map(NUMBER.fullmatch, self.values))

    @property
    def numbers_rows(self) -> bool:
        """True if it numbers the rows: all values differ, and the first ones are whole numbers in order."""
        if len(self.values) < max(self.counted, 3):
            return False
        numbers = []
        for cell in self.first:
            if not cell or not cell.isdecimal():
                return False
            numbers.append(int(cell))
        return numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    @property
    def is_unlabelled(self) -> bool:
        """True if all cells are empty, -1, an empty list, or words for a missing label."""
        return not self.many and not set(map(str.lower, self.values)) - EMPTY_LABELS


def count_columns(
    names: Iterable[str], batches: Iterable[Mapping[str, Sequence[str | None]]]
) -> dict[str, Column]:
    """Return the columns of a file by name.

    The sample is drawn by algorithm R (reservoir sampling); it is in no order, and the same for the same
    file.

    Args:
        names: The columns.
        batches: The cells of some rows, by column.
    """
    generator = random.Random(0)  # noqa: S311 - no secret depends on it
    columns = {name: Column(name) for name in names}
    rows = 0
    for batch in batches:
        size = len(next(iter(batch.values())))
        places = []
        for row in range(rows, rows + size):
            places.append(row if row < SAMPLE_ROWS else generator.randrange(row + 1))
        for name, column in columns.items():
            for cell, place in zip(batch[name], places, strict=True):
                column.add(cell, place)
        rows += size

    for column in columns.values():
        if column.many:
            filled = [cell.strip() for cell in column.cells if cell and cell.strip()]
            column.values = Counter(cell.removeprefix(NESTED) or cell for cell in filled)
    return columns
