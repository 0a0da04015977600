"""Columns that say which rows belong together, such as a customer, a document or the text that was rewritten.

Rows with one value of such a column must not be divided: their texts are alike, so a test would ask what the
model was trained on. A column is one if most of its values have several rows, and the texts of one value have
clearly more words in common than texts of different values. Equal texts do not count: they are in one split
anyway.

A sample of the values is followed through the whole file: all rows of a value are in it, or none, as in
``repeated_texts``.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tuneline.analysis.similarity import WordSets
from tuneline.analysis.text import EncodedWords, normalized, words
from tuneline.cli.init.row_file import RowFile
from tuneline.columns.choice import ColumnChoice
from tuneline.columns.profiles import ColumnProfile

FEWEST_VALUES = 5
MOST_VALUES = 1_000
"""Values in the sample of a column."""
MOST_ROWS = 50
"""Mean rows of a value, above which a column is rather a category."""
SEVERAL = 0.5
"""Smallest share of the rows whose value has other rows, too."""
KEPT_ROWS = 4
"""Texts of a value that are compared, drawn at random: neighbours in a file may be alike anyway."""
ALIKE = 0.2
"""Smallest difference between the similarity of texts of one value and of different values."""
LEAST_T = 4.0
"""Smallest t statistic of that difference."""
NAMES = ("id", "user", "author", "customer", "account", "document", "group", "session", "thread", "patient")
"""Parts of the names of columns whose numbers are names; other numbers are rather measurements."""


@dataclass(frozen=True)
class GroupColumn:
    """A column whose values have a few rows each.

    Attributes:
        rows: Mean number of rows of a value.
        within: Mean similarity of two different texts of one value, from 0 to 1.
        across: Mean similarity of texts of different values.
        is_alike: True if the texts of one value are clearly more alike.
    """

    name: str
    values: int
    rows: float
    within: float
    across: float
    is_alike: bool


@dataclass
class _ValueSample:
    """The rows of a sample of the values of one column.

    Attributes:
        texts: A few different texts of each value.
        rows: Number of its rows.
        step: Values whose hash is a multiple of it are in the sample.
    """

    texts: dict[int, list[tuple[str, ...]]] = field(default_factory=dict)
    rows: Counter[int] = field(default_factory=Counter)
    step: int = 1
    generator: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - no secret

    def add(self, value: str, texts: tuple[str, ...]) -> None:
        """Add a row."""
        key = int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest())
        if key % self.step:
            return
        self.rows[key] += 1
        kept = self.texts.setdefault(key, [])
        if texts not in kept:
            self._keep(kept, texts, self.rows[key])
        if len(self.texts) > MOST_VALUES:
            self.step *= 2
            self.texts = {key: texts for key, texts in self.texts.items() if key % self.step == 0}
            self.rows = Counter({key: rows for key, rows in self.rows.items() if key in self.texts})

    def _keep(self, kept: list[tuple[str, ...]], texts: tuple[str, ...], number: int) -> None:
        """Keep a sample of the rows of a value (reservoir sampling), given the number of the row."""
        if len(kept) < KEPT_ROWS:
            kept.append(texts)
            return
        position = self.generator.randrange(number)
        if position < KEPT_ROWS:
            kept[position] = texts

    @property
    def has_groups(self) -> bool:
        """True if most rows have a value with a few other rows."""
        several = sum(rows for rows in self.rows.values() if rows > 1)
        total = self.rows.total()
        return (
            len(self.rows) >= FEWEST_VALUES
            and several >= SEVERAL * total
            and total <= MOST_ROWS * len(self.rows)
        )


def find_groups(
    file: RowFile, profiles: Sequence[ColumnProfile], decision: ColumnChoice, others: Sequence[str]
) -> list[GroupColumn]:
    """Return the columns whose values have a few rows each: first those with alike texts, the coarsest first.

    Args:
        file: The train file.
        profiles: Its columns.
        decision: The columns of texts and labels, which are no groups.
        others: Columns that are none either, such as those of times.
    """
    read = (*decision.text_columns, *decision.label_columns, *others)
    positions = {}
    for position, profile in enumerate(profiles):
        if profile.name not in read and _can_be_group(profile):
            positions[profile.name] = position
    if not positions:
        return []

    # the texts of some values of each column
    samples = {name: _ValueSample() for name in positions}
    count = len(decision.text_columns)
    for row in file.rows([*decision.text_columns, *positions]):
        texts = tuple(cell or "" for cell in row[:count])
        for sample, cell in zip(samples.values(), row[count:], strict=True):
            value = (cell or "").strip()
            if value:
                sample.add(value, texts)

    groups = []
    for name, sample in samples.items():
        if not sample.has_groups:
            continue
        group = _compared(name, sample)
        if group is None:
            continue
        is_named = any(part in name.lower() for part in NAMES)
        if group.is_alike or is_named or not profiles[positions[name]].is_numeric:
            groups.append(group)
    return sorted(groups, key=lambda group: (not group.is_alike, -group.rows))


def _can_be_group(profile: ColumnProfile) -> bool:
    """Return True if a column has neither a value of its own in each row, nor few values, nor fractions."""
    if profile.numbered or profile.nested or profile.fractions or not profile.filled:
        return False
    values = len(profile.values)
    return profile.many or FEWEST_VALUES <= values <= profile.filled * (1 - SEVERAL / 2)


def _compared(name: str, sample: _ValueSample) -> GroupColumn | None:
    """Compare the neighbouring texts of each value, and the texts of neighbouring values.

    Returns:
        The column; ``None`` if its values have equal texts only, which are in one split anyway.
    """
    values = [texts for key, texts in sorted(sample.texts.items()) if len(texts) > 1]
    rows = sample.rows.total() / len(sample.rows)
    number = len(sample.rows) * sample.step
    if len(values) < 2:
        return None

    texts: list[tuple[str, ...]] = []
    left = []
    right = []
    other = []
    for group, following in zip(values, values[1:] + values[:1], strict=True):
        first = len(texts)
        texts += group
        for index in range(len(group) - 1):
            left.append(first + index)
            right.append(first + index + 1)
            other.append(first + len(group) + index % len(following))

    columns = [normalized(pa.array(column, pa.string())) for column in zip(*texts, strict=True)]
    sets = WordSets.of([EncodedWords.of(words(columns))])
    own = sets.similarity(np.array(left), np.array(right))
    foreign = sets.similarity(np.array(left), np.array(other) % len(texts))
    gains = own - foreign
    t = gains.mean() / max(gains.std(ddof=1) / len(gains) ** 0.5, 1e-9)
    within = float(own.mean())
    across = float(foreign.mean())
    is_alike = within - across >= ALIKE and bool(t >= LEAST_T)
    return GroupColumn(name, number, rows, within, across, is_alike)


def group_notes(groups: Sequence[GroupColumn], by: str | None) -> list[str]:
    """Return what the columns say about the division, given the column ``by`` that decides it."""
    notes = []
    for group in groups:
        figures = f"{group.rows:.1f} rows per value"
        likeness = (
            f"texts of one value have a similarity of {group.within:.2f}, of different values"
            f" {group.across:.2f}"
        )
        if group.name == by and group.is_alike:
            notes.append(
                f"by {group.name!r}: {figures}, and {likeness}. With such rows in train and in test, the test"
                " would be of what the model has seen, and the metric too good. --no-by divides them by"
                " text instead."
            )
        elif group.is_alike:
            notes.append(
                f"! {group.name!r} has {figures}, and {likeness}: the test is too good if they are in train,"
                f" too. --by {group.name!r} keeps them in one split."
            )
        elif group.name != by:
            notes.append(
                f"{group.name!r} has {figures}. If these belong together, as those of a customer or an author"
                f" do, --by {group.name!r} keeps them in one split; their texts are not alike ({likeness})."
            )
    return notes
