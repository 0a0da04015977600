"""Statistics of the columns of a file, and from them the decision which columns hold the text and the label, and on the task."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tuneline.cli.init.rows import NESTED, Row
from tuneline.errors import DataError
from tuneline.readers.rows import listed

Task = Literal["classification", "regression"]

LABEL_NAMES = (
    *("label", "labels", "gold_label", "class", "category", "target", "queue", "intent", "topic", "sentiment", "emotion"),
    *("is_duplicate", "quality", "stance", "polarity", "rating", "stars", "score", "similarity", "y", "tag"),
)
TEXT_NAMES = (
    *("text", "sentence", "body", "content", "message", "review", "comment", "tweet", "document", "description"),
    *("utterance", "question", "query", "title", "subject"),
)
PAIRS = (
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"),
    ("text1", "text2"),
    ("text_1", "text_2"),
    ("text_a", "text_b"),
    ("question1", "question2"),
    ("#1 string", "#2 string"),
    ("premise", "hypothesis"),
    ("question", "answer"),
    ("question", "sentence"),
    ("query", "document"),
    ("query", "passage"),
    ("subject", "body"),
    ("title", "body"),
    ("title", "text"),
    ("title", "content"),
    ("title", "description"),
    ("headline", "body"),
)
MOST_CLASSES = 200
MOST_INTEGER_CLASSES = 20
"""Distinct whole numbers; a label column with more is a regression."""
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


@dataclass(frozen=True)
class Decision:
    """The columns to learn from, and the reasons.

    Attributes:
        text_columns: One or two names.
        label_column: Its name.
        task: Classification or regression.
        reasons: One phrase per decision, for the user.
    """

    text_columns: tuple[str, ...]
    label_column: str
    task: Task
    reasons: tuple[str, ...]


def decide(profiles: Sequence[Profile], text: Sequence[str] = (), label: str | None = None, task: Task | None = None) -> Decision:
    """Decide on text columns, label column and task, by known names first, then by the values.

    Args:
        profiles: Statistics of the columns.
        text: Text columns, if the user named them.
        label: Label column, if the user named it.
        task: Task, if the user named it.

    Raises:
        DataError: A named column is missing, or no column looks like text or like a label.
    """
    known = {one.name: one for one in profiles}
    for name in (*text, *([label] if label else [])):
        if name not in known:
            raise DataError(f"There is no column {name!r}.", f"Columns: {listed(known)}.")
    labelled, why_label = (known[label], "named by you") if label else label_of([one for one in profiles if one.name not in text])
    others = [one for one in profiles if one is not labelled]
    texts, why_text = (tuple(text), "named by you") if text else text_of(others)
    chosen, why_task = (task, "named by you") if task else task_of(labelled)
    named = " and ".join(repr(name) for name in texts)
    reasons = (f"text: {named} ({why_text})", f"label: {labelled.name!r} ({why_label})", f"task: {chosen} ({why_task})")
    return Decision(texts, labelled.name, chosen, reasons)


def label_of(profiles: Sequence[Profile]) -> tuple[Profile, str]:
    """Return the label column: one with a known name, else the one with the fewest classes, else the one with fractions.

    Raises:
        DataError: No column looks like a label.
    """
    candidates = [one for one in profiles if one.filled and not one.nested and (one.is_numeric or not one.many)]
    for name in LABEL_NAMES:
        for one in candidates:
            if one.name.strip().lower() == name:
                return one, "by its name"
    categorical = [one for one in candidates if 2 <= len(one.classes) <= min(MOST_CLASSES, one.filled // 2) and one.fractions == 0]
    if categorical:
        fewest = min(categorical, key=lambda one: len(one.classes))
        return fewest, f"the column with the fewest distinct values, {len(fewest.classes)}"
    if fractions := [one for one in candidates if one.fractions]:
        return fractions[-1], "the last column of numbers with fractions"
    raise DataError("No column looks like a label: few distinct values, or numbers.", "Name it: --label COLUMN")


def text_of(profiles: Sequence[Profile]) -> tuple[tuple[str, ...], str]:
    """Return the text columns: a pair with known names, else the one with the most words.

    Raises:
        DataError: No column looks like text.
    """
    candidates = {one.name.strip().lower(): one for one in profiles if one.filled and not one.nested and not one.is_numeric}
    for one, other in PAIRS:
        if one in candidates and other in candidates:
            return (candidates[one].name, candidates[other].name), "a pair, by their names"
    if not candidates:
        raise DataError("No column looks like text.", "Name it: --text COLUMN (twice for a pair)")
    wordy = sorted(candidates.values(), key=lambda one: (one.mean_words >= 2, one.name.strip().lower() in TEXT_NAMES, one.mean_words))
    return (wordy[-1].name,), f"{wordy[-1].mean_words:.0f} words per row"


def task_of(label: Profile) -> tuple[Task, str]:
    """Return regression for labels that are fractions or many whole numbers, else classification.

    Raises:
        DataError: The column has too many distinct values to be a label.
    """
    classes = len(label.classes)
    if label.is_numeric and label.fractions:
        return "regression", "its labels are numbers with fractions"
    if label.is_numeric and (label.many or classes > MOST_INTEGER_CLASSES):
        return "regression", f"its labels are more than {MOST_INTEGER_CLASSES} distinct numbers"
    if label.many:
        raise DataError(f"Column {label.name!r} has too many distinct values to be a label.", "Name another: --label COLUMN")
    return "classification", f"{classes} classes"
