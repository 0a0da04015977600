"""The decision which columns hold the text and the label, and on the task, by the names and the statistics of the columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tuneline.cli.init.pairs import ALIKE_WORDS, relation
from tuneline.cli.init.profiles import Profile
from tuneline.cli.init.rows import Row
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


def decide(
    profiles: Sequence[Profile],
    sample: Sequence[Row] = (),
    text: Sequence[str] = (),
    label: str | None = None,
    task: Task | None = None,
) -> Decision:
    """Decide on text columns, label column and task, by known names first, then by the values.

    Args:
        profiles: Statistics of the columns.
        sample: Some of the rows; without them, a pair of texts is recognised by its names only.
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
    texts, why_text = (tuple(text), "named by you") if text else text_of(others, sample, [one.name for one in profiles])
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


def text_of(profiles: Sequence[Profile], sample: Sequence[Row], columns: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the text columns: a pair with known names, else the one with the most words and the one that makes a pair with it.

    Args:
        profiles: Statistics of the columns that may be text.
        sample: Some of the rows.
        columns: Names of the columns of the rows.

    Raises:
        DataError: No column looks like text.
    """
    candidates = {one.name.strip().lower(): one for one in profiles if one.filled and not one.nested and not one.is_numeric}
    for one, other in PAIRS:
        if one in candidates and other in candidates:
            return (candidates[one].name, candidates[other].name), "a pair, by their names"
    if not candidates:
        raise DataError("No column looks like text.", "Name it: --text COLUMN (twice for a pair)")
    *others, most = sorted(
        candidates.values(), key=lambda one: (one.mean_words >= 2, one.name.strip().lower() in TEXT_NAMES, one.mean_words)
    )
    if second := second_text([one.name for one in others], most.name, sample, columns):
        return tuple(sorted((most.name, second[0]), key=list(columns).index)), second[1]
    unused = [f"{one.name!r} ({one.mean_words:.0f} words)" for one in others if one.mean_words >= ALIKE_WORDS]
    more = f"; not used: {', '.join(unused)}; --text COLUMN --text COLUMN makes a pair" if unused else ""
    return (most.name,), f"{most.mean_words:.0f} words per row{more}"


def second_text(names: Sequence[str], first: str, sample: Sequence[Row], columns: Sequence[str]) -> tuple[str, str] | None:
    """Return the column that makes a pair with the first, and the reason; ``None`` if there is none.

    Args:
        names: The columns that may be text.
        first: The column of text with the most words.
        sample: Some of the rows.
        columns: Names of the columns of the rows.
    """
    position = list(columns).index
    found = {name: relation(sample, position(first), position(name)) for name in names}
    pairs = {name: one for name, one in found.items() if one is not None and one.is_pair}
    if not pairs:
        return None
    name = max(pairs, key=lambda name: pairs[name].within - pairs[name].across)
    return name, f"a pair: {pairs[name].reason}"


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
