"""Which columns hold the text and the label, and what the task is: by name where names are telling, else by what is in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tuneline.cli.init.profiling import Profile
from tuneline.errors import DataError

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
WHOLE_NUMBERS_AS_CLASSES = 20


@dataclass(frozen=True)
class Decision:
    """What the columns are taken for, and why.

    Attributes:
        text_columns: One or two names.
        label_column: Its name.
        task: What is learned.
        reasons: One sentence per decision.
    """

    text_columns: tuple[str, ...]
    label_column: str
    task: Task
    reasons: tuple[str, ...]


def decide(profiles: Sequence[Profile], text: Sequence[str] = (), label: str | None = None, task: Task | None = None) -> Decision:
    """Decides what was not given.

    Args:
        profiles: The columns.
        text: Text columns, if a person named them.
        label: Label column, if a person named it.
        task: Task, if a person named it.

    Raises:
        DataError: A name that was given is not there, or nothing looks like a text or a label.
    """
    known = {one.name: one for one in profiles}
    for name in (*text, *([label] if label else [])):
        if name not in known:
            raise DataError(f"There is no column {name!r}.", f"Columns: {', '.join(map(repr, known))}")
    labelled, why_label = (known[label], "as you said") if label else label_of([one for one in profiles if one.name not in text])
    others = [one for one in profiles if one is not labelled]
    texts, why_text = (tuple(text), "as you said") if text else text_of(others)
    chosen, why_task = (task, "as you said") if task else task_of(labelled)
    named = " and ".join(repr(name) for name in texts)
    reasons = (f"text: {named} ({why_text})", f"label: {labelled.name!r} ({why_label})", f"task: {chosen} ({why_task})")
    return Decision(texts, labelled.name, chosen, reasons)


def label_of(profiles: Sequence[Profile]) -> tuple[Profile, str]:
    """The label column: one with a telling name, else the one with the fewest classes, else the one with fractions."""
    able = [one for one in profiles if one.filled and not one.nested and (one.is_numeric or not one.many)]
    for name in LABEL_NAMES:
        for one in able:
            if one.name.strip().lower() == name:
                return one, "by its name"
    lists = [one for one in able if 2 <= len(one.classes) <= min(MOST_CLASSES, one.filled // 2) and one.fractions == 0]
    if lists:
        fewest = min(lists, key=lambda one: len(one.classes))
        return fewest, f"the column with the fewest different values, {len(fewest.classes)}"
    if fractions := [one for one in able if one.fractions]:
        return fractions[-1], "the last column of numbers with fractions"
    raise DataError("No column looks like a label: few different values, or numbers.", "Name it: --label COLUMN")


def text_of(profiles: Sequence[Profile]) -> tuple[tuple[str, ...], str]:
    """The text columns: a pair with telling names, else the one with the most words."""
    able = {one.name.strip().lower(): one for one in profiles if one.filled and not one.nested and not one.is_numeric}
    for one, other in PAIRS:
        if one in able and other in able:
            return (able[one].name, able[other].name), "a pair, by their names"
    if not able:
        raise DataError("No column looks like text.", "Name it: --text COLUMN (twice for a pair)")
    wordy = sorted(able.values(), key=lambda one: (one.mean_words >= 2, one.name.strip().lower() in TEXT_NAMES, one.mean_words))
    return (wordy[-1].name,), f"{wordy[-1].mean_words:.0f} words a row"


def task_of(label: Profile) -> tuple[Task, str]:
    """Regression for numbers with fractions or many whole ones, else classification.

    Raises:
        DataError: There are too many classes to be classes.
    """
    classes = len(label.classes)
    if label.is_numeric and label.fractions:
        return "regression", "its labels are numbers with fractions"
    if label.is_numeric and (label.many or classes > WHOLE_NUMBERS_AS_CLASSES):
        return "regression", f"its labels are more than {WHOLE_NUMBERS_AS_CLASSES} different numbers"
    if label.many:
        raise DataError(f"Column {label.name!r} has too many different values to be a label.", "Name another: --label COLUMN")
    return "classification", f"{classes} classes"
