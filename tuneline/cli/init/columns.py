"""The decision on text columns, label column and task, by the names and the statistics of the columns.

The second text of a pair is searched for by the values where the names do not tell: two texts of one row
share more words than texts of different rows, or are at least of one length and one vocabulary. Neither is
true of a text and the name, city or address in its row.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa

from tuneline.cli.init.label_layouts import LabelLayout, layout_of_column, layout_of_columns
from tuneline.cli.init.profiles import WORD_PATTERN, Cells, ColumnProfile
from tuneline.core.task_kinds import SET_KINDS
from tuneline.params.data import LabelSetsParams, TaskKind
from tuneline.readers.rows import listed
from tuneline.runtime.errors import DataError
from tuneline.sniffing.names import LABEL_NAMES, ONLY_LABEL_NAMES, PAIRS, SET_NAMES, TEXT_NAMES
from tuneline.tasks import unnamed_task
from tuneline.tasks.columns import staged_type

LEAST_WORDS = 3
"""Mean words of a text that can be one of a pair: names and cities have two."""
LEAST_DISTINCT = 0.05
"""Smallest share of distinct values in a column of texts.

A question may be repeated for each answer, a category more often.
"""
LEAST_GAIN = 0.05
"""Smallest difference between the share of words in common within rows and across rows."""
LEAST_T = 4.0
"""Smallest t statistic of that difference."""
ALIKE_WORDS = 5
"""Mean words of texts that are a pair because they are alike."""
ALIKE_LENGTH = 0.5
"""Smallest ratio of their mean lengths."""
ALIKE_VOCABULARY = 0.8
"""Smallest share of the words of one column that occur in the other."""
MOST_COPIES = 0.5
"""Share of rows with the same words in the same order, from which a column is a cleaned copy of another."""
PROFILED_ROWS = 1000
"""Rows that are compared."""


def pair(rows: Sequence[Cells], first: int, second: int) -> tuple[float, str] | None:
    """Compare two columns of a sample of rows, by their positions.

    Returns:
        How much larger the share of words that two texts have in common is within rows than across rows, and
        why the columns are a pair; ``None`` if they are none: one does not consist of various texts of
        several words, or is a copy of the other, or they have too little in common.
    """
    # words of both texts of each row that has both
    left: list[list[str]] = []
    right: list[list[str]] = []
    for row in rows[:PROFILED_ROWS]:
        first_text = row[first]
        second_text = row[second]
        if first_text and second_text:
            left.append(WORD_PATTERN.findall(first_text.casefold()))
            right.append(WORD_PATTERN.findall(second_text.casefold()))
    if len(left) < 3:
        return None
    if not _are_texts(left) or not _are_texts(right):
        return None
    copies = list(map(_is_copy, left, right))
    if np.mean(copies) >= MOST_COPIES:
        return None

    # words in common, within rows and with the text of the next row
    next_right = right[1:] + right[:1]
    within = np.array(list(map(_in_common, left, right)))
    across = np.array(list(map(_in_common, left, next_right)))
    gains = within - across
    gain = float(gains.mean())
    standard_error = gains.std(ddof=1) / len(gains) ** 0.5
    t = gains.mean() / max(standard_error, 1e-9)
    if gain >= LEAST_GAIN and t >= LEAST_T:
        reason = (
            f"{within.mean():.0%} of the words are in both texts of a row, {across.mean():.0%} in texts of"
            " different rows"
        )
        return gain, reason
    if _are_alike(left, right):
        return gain, "texts of similar length with the same words"
    return None


def _are_texts(texts: Sequence[Sequence[str]]) -> bool:
    """Return True if a column has various texts of several words; numbers, as in dates, are no words."""
    words = _count_words(texts).total()
    distinct = len(set(map(tuple, texts)))
    return words >= LEAST_WORDS * len(texts) and distinct >= LEAST_DISTINCT * len(texts)


def _are_alike(left: Sequence[Sequence[str]], right: Sequence[Sequence[str]]) -> bool:
    """Return True if two columns have texts of one length and one vocabulary."""
    left_words = _count_words(left)
    right_words = _count_words(right)
    shorter, longer = sorted([left_words.total() / len(left), right_words.total() / len(left)])
    shared = min(_share_in(left_words, right_words), _share_in(right_words, left_words))
    return shorter >= ALIKE_WORDS and shorter / longer >= ALIKE_LENGTH and shared >= ALIKE_VOCABULARY


def _count_words(texts: Sequence[Sequence[str]]) -> Counter[str]:
    """Return how often each word occurs in all texts; numbers are no words."""
    counts: Counter[str] = Counter()
    for text in texts:
        for word in text:
            if not word.isdecimal():
                counts[word] += 1
    return counts


def _share_in(words: Counter[str], vocabulary: Counter[str]) -> float:
    """Return the share of words that occur in a vocabulary, too."""
    shared = words.keys() & vocabulary.keys()
    return sum(words[word] for word in shared) / words.total()


def _in_common(left: Sequence[str], right: Sequence[str]) -> float:
    """Return the share of the distinct words of the shorter text that the other text has, too."""
    left_words = set(left)
    right_words = set(right)
    shorter = min(len(left_words), len(right_words))
    return len(left_words & right_words) / max(1, shorter)


def _is_copy(left: Sequence[str], right: Sequence[str]) -> bool:
    """Return True if the longer text has the words of the shorter one in the same order."""
    shorter, longer = sorted((left, right), key=len)
    remaining = iter(longer)
    # `in` consumes the iterator up to the word: the next word is searched for behind it
    return len(shorter) > 0 and all(word in remaining for word in shorter)


MOST_CLASSES = 200
MOST_INTEGER_CLASSES = 20
"""Distinct whole numbers; a label column with more is a regression."""


@dataclass(frozen=True)
class NamedColumns:
    """What the user said about columns and labels; ``None`` or empty is left to ``tuneline init``.

    Attributes:
        label: The label column, or a column of 0 and 1 for each label.
        separator: What separates the labels of a row.
    """

    text: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    task: TaskKind | None = None
    separator: str | None = None

    @property
    def one_label(self) -> bool:
        """True if a row has one label."""
        return self.task is not None and self.task not in SET_KINDS


@dataclass(frozen=True)
class LabelDecision:
    """The label column, and how rows have several labels.

    Attributes:
        column: The label column; one of them if each label has a column.
        why: The reason.
        layout: How several labels per row are written; ``None`` for one label.
        doubt: How several labels would be written, where the values do not tell whether there are several.
    """

    column: ColumnProfile
    why: str
    layout: LabelLayout | None = None
    doubt: LabelLayout | None = None

    @property
    def name(self) -> str:
        """The label column, or what the labels of several columns are called."""
        return self.layout.label if self.layout else self.column.name

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that have the labels."""
        return self.layout.columns if self.layout else (self.column.name,)


@dataclass(frozen=True)
class ColumnChoice:
    """The columns to learn from, the task, and a phrase with the reason of each decision, for the user.

    Attributes:
        decimal: The character before the decimals of labels that are numbers.
        layout: How several labels per row are written; ``None`` for one label.
        doubt: How several labels would be written, where the values do not tell whether there are several.
    """

    text_columns: tuple[str, ...]
    label_column: str
    task: TaskKind
    reasons: tuple[str, ...]
    decimal: str = "."
    layout: LabelLayout | None = None
    doubt: LabelLayout | None = None

    @property
    def sets(self) -> LabelSetsParams | None:
        """How several labels per row are written, as ``data.label_sets``."""
        return self.layout.sets if self.layout else None

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that have the labels."""
        return self.layout.columns if self.layout else (self.label_column,)

    def with_layout(self, layout: LabelLayout) -> Self:
        """Return the choice of the same columns, with several labels per text."""
        reasons = []
        for reason in self.reasons:
            if reason.startswith("task: "):
                reason = f"task: {SET_KINDS[0]} (a text has several labels)"  # noqa: PLW2901
            reasons.append(reason)
        return replace(self, task=SET_KINDS[0], reasons=tuple(reasons), layout=layout, doubt=None)


def decide_columns(
    profiles: Sequence[ColumnProfile],
    sample: Sequence[Cells] = (),
    named: NamedColumns = NamedColumns(),
) -> ColumnChoice:
    """Decide on text columns, label column and task: what the user named, else by names, else by values.

    Without a sample of the rows, a pair of texts is recognised by its names only.

    Raises:
        DataError: A named column is missing, or no column looks like text or like a label.
    """
    columns = [profile.name for profile in profiles]
    for name in (*named.text, *named.label):
        if name not in columns:
            raise DataError(f"There is no column {name!r}.", f"Columns: {listed(columns)}.")

    # texts, among the columns that are not labels
    labels = decide_labels(profiles, named)
    if named.text:
        texts = named.text
        why_text = NAMED_BY_USER
    else:
        candidates = [profile for profile in profiles if profile.name not in labels.columns]
        texts, why_text = text_of(candidates, sample, columns)

    # task
    if named.task:
        task = named.task
        why_task = NAMED_BY_USER
    elif labels.layout:
        task = SET_KINDS[0]
        why_task = "a row can have several labels"
    else:
        task, why_task = task_by_labels(labels.column)
    has_decimals = pa.types.is_floating(staged_type(unnamed_task(task)))
    decimal = "," if has_decimals and labels.column.has_decimal_commas else "."

    # what the user is told
    reasons = [f"text: {' and '.join(map(repr, texts))} ({why_text})"]
    if labels.name == labels.column.name:
        reasons.append(f"label: {labels.name!r} ({labels.why})")
    reasons.append(f"task: {task} ({why_task})")
    read = (*texts, *labels.columns)
    unread = []
    for profile in profiles:
        if profile.filled and profile.name not in read:
            unread.append(profile.name)
    if unread:
        reasons.append(f"not read: {listed(unread)}")
    return ColumnChoice(texts, labels.name, task, tuple(reasons), decimal, labels.layout, labels.doubt)


NAMED_BY_USER = "named by you"


def decide_labels(profiles: Sequence[ColumnProfile], named: NamedColumns) -> LabelDecision:
    """Decide on the label column, and on whether a row has several labels.

    Raises:
        DataError: No column looks like a label, or a column that the user named is none.
    """
    candidates = [profile for profile in profiles if profile.name not in named.text]
    named_labels = [profile for name in named.label for profile in profiles if profile.name == name]
    if named_labels:
        column = named_labels[0]
        why = NAMED_BY_USER
    else:
        try:
            column, why = label_of(candidates, named.one_label)
        except DataError:
            # Columns of 1 and empty cells have one value each.
            columns = layout_of_columns(candidates)
            if columns is None or named.one_label:
                raise
            column = next(profile for profile in candidates if profile.name in columns.columns)
            return LabelDecision(column, "", columns)

    layout = None
    if not named.one_label:
        layout = find_layout(candidates, column, named_labels, named.separator)
    if layout is not None and named.task is not None:
        layout = replace(layout, doubt="")
    # Of a column with too many values, only the parts can be labels.
    is_needed = layout is not None and layout.label == column.name and not _can_be_label(column)
    if layout is not None and layout.doubt and not is_needed:
        check_label(column, named=bool(named.label))
        return LabelDecision(column, why, doubt=layout)

    if layout is None or layout.label == column.name:
        check_label(column, named=layout is not None or bool(named.label))
    return LabelDecision(column, why, layout)


def find_layout(
    candidates: Sequence[ColumnProfile],
    labels: ColumnProfile,
    named: Sequence[ColumnProfile],
    separator: str | None,
) -> LabelLayout | None:
    """Return how rows have several labels; ``None`` if they have one.

    Args:
        candidates: The columns that can be labels.
        labels: The column that is the label, if there is only one.
        named: The label columns that the user named.
        separator: What separates the labels, as the user says.
    """
    if len(named) > 1:
        return layout_of_columns(named, named=True)
    layout = layout_of_column(labels, separator)
    if layout is not None or named:
        return layout
    columns = layout_of_columns(candidates)
    if columns is None or labels.name not in columns.columns or _is_called_label(labels):
        return None
    return columns


def check_label(label: ColumnProfile, named: bool) -> None:
    """Refuse a column from which nothing can be learned.

    A column that holds no labels is refused unless the user ``named`` it.

    Raises:
        DataError: It has one value only; or it numbers the rows, or holds texts.
    """
    place = f"Column {label.name!r}"
    if len(label.classes) == 1 and not label.many:
        value = label.classes[0]
        raise DataError(
            f"{place} has the value {value!r} in all {label.filled:,} rows: there is nothing to learn.",
            OTHER_LABEL,
        )
    if named:
        return
    if label.numbered and label.filled > 1:
        raise DataError(
            f"{place} numbers the rows: it is no label.",
            f"{OTHER_LABEL}; or --label {label.name!r} to learn it all the same",
        )
    distinct = len(label.classes)
    if label.mean_words >= WORDS_OF_TEXT and (label.many or distinct > label.filled // 2):
        words = f"{label.mean_words:.0f} words"
        problem = (
            f"{place} has {distinct:,} distinct values of {words} in {label.filled:,} rows: it looks like the"
            " text, not the label."
        )
        raise DataError(problem, f"{OTHER_LABEL} --text COLUMN")


OTHER_LABEL = "Name the column of the label: --label COLUMN"
WORDS_OF_TEXT = 4
"""Mean words from which a column of mostly distinct values holds texts."""


def label_of(profiles: Sequence[ColumnProfile], one_label: bool = False) -> tuple[ColumnProfile, str]:
    """Return the label column and the reason.

    It is one with a known name, else one with several labels per row, else the one with the fewest classes,
    else the one with fractions.

    Args:
        profiles: The columns.
        one_label: True if a row has one label, as the user says.
    """
    layouts = {}
    if not one_label:
        layouts = layouts_of(profiles)
    candidates = [profile for profile in profiles if _can_be_label(profile) or profile.name in layouts]

    named = _named_as_label(candidates, layouts)
    if named:
        return named[0], f"by its name{_also(named[1:])}"
    several = []
    for profile in candidates:
        if profile.name in layouts and not layouts[profile.name].doubt:
            several.append(profile)
    if several:
        return several[0], f"it has several labels per row{_also(several[1:])}"

    categorical = []
    for profile in candidates:
        most_classes = min(MOST_CLASSES, profile.filled // 2)
        if 2 <= len(profile.classes) <= most_classes and profile.fractions == 0:
            categorical.append(profile)
    if categorical:
        fewest, *others = sorted(categorical, key=lambda profile: len(profile.classes))
        return fewest, f"the column with the fewest distinct values, {len(fewest.classes)}{_also(others)}"

    fractions = [profile for profile in candidates if profile.fractions]
    if fractions:
        return fractions[-1], "the last column of numbers with fractions"
    hint = "Name it: --label COLUMN"
    nested = [profile.name for profile in profiles if profile.nested]
    if nested:
        hint = f"{listed(nested)}: several labels are a flat list of names, or one text. {hint}"
    raise DataError("No column looks like a label: few distinct values, or numbers.", hint)


def layouts_of(profiles: Iterable[ColumnProfile]) -> dict[str, LabelLayout]:
    """Return the layout of each column that has several labels per row, by its name."""
    layouts = {}
    for profile in profiles:
        layout = layout_of_column(profile)
        if layout is not None:
            layouts[profile.name] = layout
    return layouts


def _named_as_label(
    candidates: Sequence[ColumnProfile], layouts: Mapping[str, LabelLayout]
) -> list[ColumnProfile]:
    """Return the columns with a known name: the first of the known names counts, not the first column."""
    named = []
    for name in LABEL_NAMES:
        for profile in candidates:
            if profile.name.strip().lower() == name:
                named.append(profile)
    for name in SET_NAMES:
        for profile in candidates:
            if profile.name.strip().lower() == name and profile.name in layouts:
                named.append(profile)
    return named


def _can_be_label(profile: ColumnProfile) -> bool:
    if not profile.filled or profile.nested:
        return False
    return profile.is_numeric or profile.has_decimal_commas or not profile.many


def _is_called_label(profile: ColumnProfile) -> bool:
    """Return True if the name of a column says that it is the only label."""
    return profile.name.strip().lower() in ONLY_LABEL_NAMES


def _also(others: Sequence[ColumnProfile]) -> str:
    """Name other columns that look like a label."""
    if not others:
        return ""
    values = []
    for profile in others[:4]:
        values.append(f"{profile.name!r} ({len(profile.classes)} values)")
    return f"; {', '.join(values)} could be the label, too: --label COLUMN"


def text_of(
    profiles: Sequence[ColumnProfile], sample: Sequence[Cells], columns: Sequence[str]
) -> tuple[tuple[str, ...], str]:
    """Return the text columns and the reason.

    They are a pair with known names, else the column with the most words and the one that pairs with it.
    """
    candidates = {}
    for profile in profiles:
        if profile.filled and not profile.nested and not profile.is_numeric:
            candidates[profile.name.strip().lower()] = profile

    # by names
    for first, second in PAIRS:
        if first in candidates and second in candidates:
            return (candidates[first].name, candidates[second].name), "a pair, by their names"
    if not candidates:
        raise DataError("No column looks like text.", "Name it: --text COLUMN (twice for a pair)")

    # by values: the text with the most words, and the one that is most of a pair with it
    *others, longest = sorted(candidates.values(), key=_likeness_to_text)
    position = list(columns).index
    pairs = {}
    for profile in others:
        compared = pair(sample, position(longest.name), position(profile.name))
        if compared is not None:
            pairs[profile.name] = compared
    if pairs:
        second, (_, reason) = max(pairs.items(), key=lambda item: item[1][0])
        return tuple(sorted((longest.name, second), key=position)), f"a pair: {reason}"

    reason = f"{longest.mean_words:.0f} words per row"
    unused = []
    for profile in others:
        if profile.mean_words >= ALIKE_WORDS:
            unused.append(f"{profile.name!r} ({profile.mean_words:.0f} words)")
    if unused:
        reason += f"; not used: {', '.join(unused)}; --text COLUMN --text COLUMN makes a pair"
    return (longest.name,), reason


def _likeness_to_text(profile: ColumnProfile) -> tuple[bool, bool, float]:
    """Return a sort key: columns of several words last, then known names of texts, then the most words."""
    is_known = profile.name.strip().lower() in TEXT_NAMES
    return profile.mean_words >= 2, is_known, profile.mean_words


def task_by_labels(label: ColumnProfile) -> tuple[TaskKind, str]:
    """Return regression for labels that are fractions or many whole numbers, else classification."""
    classes = len(label.classes)
    if label.has_decimal_commas:
        return "regression", "its labels are numbers with decimal commas"
    if label.is_numeric and label.fractions:
        return "regression", "its labels are numbers with fractions"
    if label.is_numeric and (label.many or classes > MOST_INTEGER_CLASSES):
        return "regression", f"its labels are more than {MOST_INTEGER_CLASSES} distinct numbers"
    if label.many:
        raise DataError(
            f"Column {label.name!r} has too many distinct values to be a label.",
            "Name another: --label COLUMN",
        )
    return "classification", f"{classes} classes"
