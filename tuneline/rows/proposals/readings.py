"""Ways to read the label, what the user said about columns, and the questions that are left.

``number_readings`` reads a column as numbers, ``sets`` as several labels, ``labels`` as classes.
"""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuneline.core.params.data import LabelSetsParams, TaskKind
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import listed
from tuneline.model.tasks.task import MISSING_WORDS
from tuneline.rows.proposals.profiles import Column
from tuneline.rows.reading.label_values import MINUS

SET_TASK: TaskKind = "multilabel"
LEAST_FIT = 0.85
"""Share of the cells that fit a reading, from which the others are mistakes."""
LEAST_COVERAGE = 0.5
"""Share of the rows that have a label, below which the reading explains too little."""
BY_NAME, KNOWN_NAME, PLAIN, WEAK, IF_NAMED = range(5)
"""Ranks of readings. The best rank decides if it is at most ``PLAIN`` and one reading alone has it.

The name says that the column is the label; it is a known name of labels, or a column for each label; the
values can be labels; something speaks against it; it is read so only if the user says it.
"""


@dataclass(frozen=True)
class LabelReading:
    """One way to read the label.

    Attributes:
        columns: The columns that are read.
        name: The label column, or what the labels of several columns are called.
        task: What is trained.
        rank: How plain it is.
        trains: What would be trained, in words.
        sets: How several labels per row are written; ``None`` for one label.
        coverage: Share of the rows that have a label.
        is_clear: True if the values leave no other way to read the column.
        exceptions: Cells that do not fit.
        names: The classes, where ``data.label_names`` has to list them so that they are read as written.
        doubt: Why it is asked about, even if it is the best reading; empty if it is not.
        refused: What to do where this is what the column holds, but it cannot be read so.
    """

    columns: tuple[str, ...]
    name: str
    task: TaskKind
    rank: int
    trains: str
    sets: LabelSetsParams | None = None
    coverage: float = 1.0
    is_clear: bool = False
    exceptions: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    doubt: str = ""
    refused: str = ""

    @property
    def place(self) -> str:
        """The columns in words."""
        if len(self.columns) == 1:
            return f"Column {self.columns[0]!r}"
        return f"Columns {listed(self.columns, 4)}"

    @property
    def answer(self) -> "ReadingAnswer":
        """The answer that chooses it."""
        choices: dict[str, Any] = {"label": self.columns, "task": self.task}
        if self.sets is not None and self.sets.separator is not None:
            choices = {"label": self.columns, "separator": self.sets.separator}
        return ReadingAnswer(self.trains, choices)


@dataclass(frozen=True)
class ReadingAnswer:
    """One answer to a question: what it would train, and the values of ``UserChoices`` that choose it."""

    trains: str
    choices: Mapping[str, Any]

    @property
    def options(self) -> str:
        """The options of ``tuneline init``."""
        words = []
        for name, value in self.choices.items():
            for word in value if isinstance(value, tuple) else (value,):
                words += [f"--{name}", word.replace("\n", "\\n").replace("\t", "\\t")]
        return shlex.join(words)


@dataclass(frozen=True, kw_only=True)
class UserChoices:
    """What the user said; ``None`` or empty is left to ``tuneline init``.

    Attributes:
        command: The command with its files, to which an answer is added.
        label: The label column, or several columns that have the labels.
        separator: What separates the labels of a row.
    """

    command: str = "tuneline init"
    text: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    task: TaskKind | None = None
    separator: str | None = None
    by: str | None = None
    by_time: str | None = None
    name: str | None = None

    def allow(self, reading: LabelReading) -> bool:
        """Return True if a reading is what the user said."""
        return self.task in (None, reading.task)

    def confirm(self, reading: LabelReading) -> bool:
        """Return True if the user said where the label is, and how it is read: no doubt is left."""
        return self.label == reading.columns and (self.task is not None or self.separator is not None)


class OpenQuestionError(DataError):
    """The columns can be read in several ways: a person has to choose.

    Attributes:
        question: What can be read in several ways, as a sentence without its full stop.
        answers: The answers, the likeliest first.
    """

    status = 3
    """No guess was made, and nothing was written."""

    def __init__(self, question: str, answers: Sequence[ReadingAnswer], choices: UserChoices) -> None:
        lines = []
        for answer in answers:
            lines.append(f"{choices.command} {answer.options}\n      {answer.trains}")
        super().__init__(f"{question}. Choose:", "\n  ".join(lines))
        self.question = question
        self.answers = answers


# Numbers, and what is written where one is missing. Decimal commas, thousands and units are refused.

SIGN = rf"[+\-{MINUS}]?"
PLAIN_NUMBER = re.compile(rf"{SIGN}(?!0\d)(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
"""Numbers with leading zeros are codes."""
GROUPED = re.compile(rf"{SIGN}[1-9]\d{{0,2}}(?:\.\d{{3}})+")
"""A number that can have thousands."""
DECIMAL_COMMA = re.compile(rf"{SIGN}(?!0\d)(?:\d+,?\d*|,\d+)")
"""A number that can have a decimal comma."""
VERSION = r"\d+\.(?!\d{3}\.)\d+\.\d"
WRITTEN = re.compile(
    rf"(?!{VERSION})(?:[$€£¥~]|[A-Za-z]{{2,4}}\s)?{SIGN}[$€£¥]?\s?(?!0\d)"
    r"\d[\d.,' \u00a0\u202f]*\s?[^\d.,;|/\s-]{0,12}"
)
"""A number with a unit, a comma, or marks between thousands; no version such as 2.0.1."""
MOST_INTEGER_CLASSES = 20
"""Distinct whole numbers; more are rather numbers to predict."""
RARE = 0.08
"""Share of the numbers whose point cannot be between thousands, up to which these are mistakes."""
WRITE_PLAIN = (
    "Write plain numbers, with a point before decimals, without a unit or marks between thousands: 1234.5,"
    " and 2.000 beside 1.234"
)


def numbers_of(column: Column) -> Counter[str]:
    """Return the number of cells by value, of those that are plain numbers."""
    numbers: Counter[str] = Counter()
    for text, cells in column.values.items():
        if PLAIN_NUMBER.fullmatch(text):
            numbers[text] = cells
    return numbers


def nearly_all(column: Column, form: re.Pattern[str]) -> bool:
    """Return True if nearly all cells that say something have this form."""
    fitting = sum(cells for text, cells in column.values.items() if form.fullmatch(text))
    return fitting >= LEAST_FIT * (column.counted - _missing(column).total())


def _missing(column: Column) -> Counter[str]:
    missing: Counter[str] = Counter()
    for text, cells in column.values.items():
        if text.lower() in MISSING_WORDS:
            missing[text] = cells
    return missing


def missing_where(words: Counter[str]) -> str:
    """Return what cells say whose value is missing, with their number, to end a phrase; else nothing."""
    if not words:
        return ""
    return f"; missing where it says {listed(dict(words.most_common()), 3)} ({words.total():,} rows)"


def written_as_names(texts: Collection[str]) -> bool:
    """Return True if numbers are written as codes, sections and versions are: 250.00, 250.0, 1.10 and 1.9.

    They have different decimals, or zeros at the end: if they are few, one of these suffices.
    """
    decimals = [text.partition(".")[2] for text in texts]
    is_varied = len(set(map(len, decimals))) > 1
    has_zeros = any(len(digits) > 1 and digits.endswith("0") for digits in decimals)
    has_equal = len({float(text.replace(MINUS, "-")) for text in texts}) < len(texts)
    if len(texts) <= MOST_INTEGER_CLASSES:
        return is_varied or has_zeros
    return is_varied and (has_zeros or has_equal)


def number_readings(column: Column) -> list[LabelReading]:
    """Return how the column is a label of numbers: at most one reading."""
    missing = _missing(column)
    numbers = numbers_of(column)
    if numbers.total() < max(LEAST_FIT * (column.counted - missing.total()), 2):
        if len(column.values) < 2 or not nearly_all(column, WRITTEN):
            return []
        return [_reading(column, PLAIN, "numbers with commas, units or thousands", refused=WRITE_PLAIN)]

    values = {float(text.replace(MINUS, "-")) for text in numbers}
    if len(values) < 2:
        return []
    rank = IF_NAMED
    doubt = ""
    if written_as_names(numbers):
        examples = listed(sorted(numbers, key=len, reverse=True)[:3])
        doubt = f"numbers such as {examples} can be codes, sections or versions, and names then"
    if doubt or not all(map(float.is_integer, values)):
        rank = PLAIN
    elif len(values) > MOST_INTEGER_CLASSES:
        rank = WEAK
    words = f"numbers from {min(values):g} to {max(values):g}{missing_where(missing)}"
    others = Counter(column.values) - missing - numbers
    reading = _reading(column, rank, words, refused="" if _is_decimal(numbers) else WRITE_PLAIN)
    return [
        replace(
            reading,
            coverage=numbers.total() / max(column.counted, 1) * column.coverage,
            exceptions=tuple(dict(others.most_common(3))),
            doubt=doubt,
        )
    ]


def _is_decimal(numbers: Counter[str]) -> bool:
    """Return False if the point can be between thousands: before three digits, where small numbers have none.

    Three digits behind a point in every cell are decimals.
    """
    marked = {text: cells for text, cells in numbers.items() if "." in text}
    grouped = sum(cells for text, cells in marked.items() if GROUPED.fullmatch(text))
    return grouped < (1 - RARE) * sum(marked.values()) or len(marked) in (0, len(numbers))


def _reading(column: Column, rank: int, trains: str, refused: str) -> LabelReading:
    return LabelReading((column.name,), column.name, "regression", rank, trains, refused=refused)
