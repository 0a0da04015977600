"""One way to read a column, with its evidence.

Evidence is in points: a difference of ``CLOSE`` or more decides between two readings, less is a doubt. Each
reading says what it was counted on, and lists the cells that do not fit: a counter-example in a thousand does
not end it.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from tuneline.columns.profiles import Cells, ColumnProfile
from tuneline.core.task_kinds import SET_KINDS
from tuneline.params.data import LabelSetsParams, TaskKind
from tuneline.readers.label_values import USUAL_NUMBERS, NumberFormat

CLOSE = 1.0
"""Points between the best reading and the second from which the best one is taken."""
LEAST_FIT = 0.85
"""Share of the cells that fit a reading, from which the others are mistakes."""
SHOWN_EXCEPTIONS = 3


@dataclass(frozen=True)
class Column:
    """A column of a file as its readings see it.

    Attributes:
        profile: Statistics of the whole file.
        values: Number of filled cells by value: of all rows, or of a sample of them where there are very many
            values.
        cells: Its cells in a sample of the rows.
    """

    profile: ColumnProfile
    values: Counter[str]
    cells: Sequence[str | None] = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.profile.name

    @property
    def key(self) -> str:
        """Its name to compare with known names."""
        return self.profile.name.strip().lower()

    @property
    def coverage(self) -> float:
        """Share of the rows that have a value."""
        return self.profile.filled / max(self.profile.rows, 1)

    @property
    def rows(self) -> int:
        """Number of cells in ``values``."""
        return self.values.total()

    def count(self, fits: Callable[[str], object]) -> int:
        """Return the number of cells whose value fits."""
        total = 0
        for value, cells in self.values.items():
            if fits(value):
                total += cells
        return total


def columns_of(profiles: Sequence[ColumnProfile], sample: Sequence[Cells]) -> list[Column]:
    """Return the columns, given a sample of the rows."""
    columns = []
    for position, profile in enumerate(profiles):
        values = profile.values
        cells = [row[position] for row in sample]
        if profile.many and sample:
            values = Counter()
            for cell in cells:
                text = (cell or "").strip()
                if text:
                    values[text] += 1
        columns.append(Column(profile, values, cells))
    return columns


@dataclass(frozen=True)
class LabelReading:
    """One way to read the label.

    Attributes:
        columns: The columns that are read.
        name: The label column, or what the labels of several columns are called.
        task: What is trained.
        points: The evidence.
        trains: What would be trained, in words.
        why: What was counted, in words.
        sets: How several labels per row are written; ``None`` for one label.
        numbers: How numbers are written.
        coverage: Share of the rows that have a label.
        exceptions: Cells that do not fit.
        hint: What may be wrong with the values; empty if nothing is.
        refused: What to do where this is what the column holds, but it cannot be read so.
    """

    columns: tuple[str, ...]
    name: str
    task: TaskKind
    points: float
    trains: str
    why: str
    sets: LabelSetsParams | None = None
    numbers: NumberFormat = USUAL_NUMBERS
    coverage: float = 1.0
    exceptions: tuple[str, ...] = ()
    hint: str = ""
    refused: str = ""

    def better_by(self, points: float) -> Self:
        """Return the reading with more evidence."""
        return replace(self, points=self.points + points)

    @property
    def options(self) -> str:
        """The options of ``tuneline init`` that choose it."""
        words: list[str] = []
        for column in self.columns:
            words += ["--label", column]
        if self.sets is not None and self.sets.separator is not None:
            words += ["--separator", self.sets.separator.replace("\n", "\\n").replace("\t", "\\t")]
        else:
            words += ["--task", self.task]
        if self.task not in SET_KINDS and self.numbers.thousands is not None:
            words += ["--decimal", self.numbers.decimal]
        elif self.numbers.decimal == ",":
            words += ["--decimal", ","]
        return shlex.join(words)


def unusual(values: Counter[str], fitting: Counter[str] | set[str]) -> tuple[str, ...]:
    """Return some values that do not fit, the most frequent first."""
    rest = [value for value, _ in values.most_common() if value not in fitting]
    return tuple(rest[:SHOWN_EXCEPTIONS])
