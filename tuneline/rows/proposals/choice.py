"""The choice of all columns: texts, label and task, with the reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuneline.core.params.data import LabelSetsParams, TaskKind
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import listed
from tuneline.rows.proposals.labels import choose_label, is_date
from tuneline.rows.proposals.profiles import Column
from tuneline.rows.proposals.readings import (
    LEAST_COVERAGE,
    LabelReading,
    OpenQuestionError,
    ReadingAnswer,
    UserChoices,
)
from tuneline.rows.proposals.sets import NO_TAGS, has_tags
from tuneline.rows.proposals.tables import PAIRS, TEXT_NAMES

WORDS_OF_TEXT = 5
"""Mean words of a column that can be the second text of a pair: names and cities have two."""
LEAST_DISTINCT = 0.05
"""Smallest share of distinct values in a column of texts: questions are repeated, categories more often."""
WORDS_OF_TOKEN = 2
"""Mean words of a column beside tags, up to which a row has one token: more are sentences with their tags."""
ANSWERS = {"accept": {"reject", "ignore"}, "submitted": {"discarded", "draft", "pending"}}
"""What Prodigy and Argilla note of a label that stands, and of others."""
MOST_ASKED = 4
BY_USER = "named by you"
NOTHING_SAID = UserChoices()
JOIN = "Write the file again with the parts of each text joined, such as by a newline."


@dataclass(frozen=True)
class ColumnChoice:
    """The columns to learn from, the task, and a phrase with the reason of each decision, for the user.

    Attributes:
        reading: How the label is read.
    """

    text_columns: tuple[str, ...]
    reading: LabelReading
    reasons: tuple[str, ...]

    @property
    def label_column(self) -> str:
        """The label column, or what the labels of several columns are called."""
        return self.reading.name

    @property
    def task(self) -> TaskKind:
        """What is trained."""
        return self.reading.task

    @property
    def sets(self) -> LabelSetsParams | None:
        """How several labels per row are written, as ``data.label_sets``."""
        return self.reading.sets

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The columns that have the labels."""
        return self.reading.columns


def decide_columns(columns: Mapping[str, Column], choices: UserChoices = NOTHING_SAID) -> ColumnChoice:
    """Decide on text columns, label column and task: what the user named, else what is plain.

    Raises:
        OpenQuestionError: The columns can be read in several ways.
        DataError: A named column is missing, or no column looks like text or like a label.
    """
    for name in (*choices.text, *choices.label):
        if name not in columns:
            raise DataError(f"There is no column {name!r}.", f"Columns: {listed(columns)}.")
    _refuse_tokens(columns, choices)
    reading = choose_label(list(columns.values()), choices)
    for column in columns.values():
        if column.name not in reading.columns:
            _refuse_rejected(column)
    texts = choices.text
    why = BY_USER
    if not texts:
        others = [column for column in columns.values() if column.name not in reading.columns]
        texts, why = choose_texts(others, choices)

    why_label = reading.trains
    if choices.label:
        why_label = f"{BY_USER}; {reading.trains}"
    reasons = [
        f"text: {' and '.join(map(repr, texts))} ({why})",
        f"label: {listed(reading.columns, 4)} ({why_label})",
        f"task: {reading.task}{f' ({BY_USER})' if choices.task else ''}",
    ]
    unread = []
    for column in columns.values():
        if column.name not in (*texts, *reading.columns):
            unread.append(repr(column.name) if column.filled else f"{column.name!r} (empty)")
    if unread:
        reasons.append(f"not read: {', '.join(unread)}")
    if reading.exceptions:
        reasons.append(f"! some labels do not fit that: {listed(reading.exceptions)}")
    return ColumnChoice(texts, reading, tuple(reasons))


def _refuse_tokens(columns: Mapping[str, Column], choices: UserChoices) -> None:
    """Refuse rows of one token with its tag."""
    tags = [name for name, column in columns.items() if has_tags(column)]
    others = [column for name, column in columns.items() if name not in tags]
    is_token = all(column.mean_words <= WORDS_OF_TOKEN for column in others)
    if tags and is_token and set(choices.label) <= set(tags):
        raise DataError(f"Each row is one token, and column {tags[0]!r} has its tag.", NO_TAGS)


def _refuse_rejected(column: Column) -> None:
    """Refuse labels that nobody stands for: those that an annotator rejected, ignored or discarded."""
    for accepted, others in ANSWERS.items():
        rejected = column.counted - column.values[accepted]
        if not (column.filled and rejected and set(column.values) <= {accepted, *others}):
            continue
        jq = f"""jq -c 'select(."{column.name}" == "{accepted}")' FILE > accepted.jsonl"""
        raise DataError(
            f"Column {column.name!r}: {rejected:,} of {column.rows:,} labels are not marked {accepted!r}.",
            f"Keep the others: {jq}. If the column says something else, leave it out of the file.",
        )


def choose_texts(columns: Sequence[Column], choices: UserChoices) -> tuple[tuple[str, ...], str]:
    """Return a pair with known names, else the only column with texts, and the reason.

    Raises:
        OpenQuestionError: Several columns have texts.
        DataError: No column looks like text.
    """
    candidates = {}
    for column in columns:
        is_filled = column.coverage >= LEAST_COVERAGE
        if is_filled and not column.nested and not column.is_numeric:
            candidates[column.key] = column
    for first, second in PAIRS:
        if first in candidates and second in candidates:
            return (candidates[first].name, candidates[second].name), "a pair, by their names"
    if not candidates:
        nested = [column.name for column in columns if column.nested]
        if nested:
            raise DataError(f"No column looks like text; {listed(nested)} has lists or objects.", JOIN)
        raise DataError("No column looks like text.", "Name it: --text COLUMN (twice for a pair)")

    longest = max(candidates.values(), key=_likeness_to_text)
    texts = [column for column in candidates.values() if column is longest or _has_texts(column)]
    if len(texts) == 1:
        return (longest.name,), f"{longest.mean_words:.0f} words per row"
    names = [column.name for column in texts]
    answers = [ReadingAnswer(f"a model of {longest.name!r}", {"text": (longest.name,)})]
    answers.append(ReadingAnswer(f"a model of {names[0]!r} and {names[1]!r}", {"text": (names[0], names[1])}))
    question = f"{len(names)} columns have texts: {listed(names, MOST_ASKED)}; a model reads one or two"
    raise OpenQuestionError(question, answers, choices)


def _has_texts(column: Column) -> bool:
    """Return True if a column has various texts of several words, that are not dates."""
    is_various = column.many or len(column.values) >= LEAST_DISTINCT * column.filled
    return column.mean_words >= WORDS_OF_TEXT and is_various and not is_date(column)


def _likeness_to_text(column: Column) -> tuple[bool, bool, float]:
    """Return a sort key: columns of several words last, then known names of texts, then the most words."""
    return column.mean_words >= 2, column.key in TEXT_NAMES, column.mean_words
