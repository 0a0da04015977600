"""The choice of all columns: texts, label and task, with the reasons, and the doubts that stop it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from tuneline.columns.doubts import NOTHING_NAMED, ColumnDoubt, NamedColumns
from tuneline.columns.labels import NAMED_BY_USER, choose_label
from tuneline.columns.profiles import Cells, ColumnProfile
from tuneline.columns.reading import Column, LabelReading, columns_of
from tuneline.columns.texts import choose_texts
from tuneline.core.task_kinds import SET_KINDS
from tuneline.params.data import LabelSetsParams, TaskKind
from tuneline.runtime.errors import DataError
from tuneline.runtime.wording import listed


@dataclass(frozen=True)
class ColumnChoice:
    """The columns to learn from, the task, and a phrase with the reason of each decision, for the user.

    Attributes:
        reading: How the label is read.
        doubt: A question that the values do not answer.
    """

    text_columns: tuple[str, ...]
    reading: LabelReading
    reasons: tuple[str, ...]
    doubt: ColumnDoubt | None = None

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

    def with_reading(self, reading: LabelReading) -> Self:
        """Return the choice of the same columns, with several labels per text."""
        reasons = []
        for reason in self.reasons:
            if reason.startswith("task: "):
                reason = f"task: {SET_KINDS[0]} (a text has several labels)"  # noqa: PLW2901
            reasons.append(reason)
        return replace(self, reading=reading, reasons=tuple(reasons), doubt=None)


def decide_columns(
    profiles: Sequence[ColumnProfile],
    sample: Sequence[Cells] = (),
    named: NamedColumns = NOTHING_NAMED,
) -> ColumnChoice:
    """Decide on text columns, label column and task: what the user named, else the best joint reading.

    Without a sample of the rows, a pair of texts is recognised by its names only.

    Raises:
        DataError: A named column is missing, or no column looks like text or like a label.
    """
    names = [profile.name for profile in profiles]
    for name in (*named.text, *named.label):
        if name not in names:
            raise DataError(f"There is no column {name!r}.", f"Columns: {listed(names)}.")
    columns = columns_of(profiles, sample)
    label = choose_label(columns, named)
    doubt = label.doubt

    # texts, among the columns that are not labels
    texts = named.text
    why_text = NAMED_BY_USER
    if not texts:
        others = [column for column in columns if column.name not in label.reading.columns]
        chosen = choose_texts(others, sample, names)
        texts = chosen.columns
        why_text = chosen.why
        doubt = doubt or _with_label(chosen.doubt, named)

    reasons = [f"text: {' and '.join(map(repr, texts))} ({why_text})"]
    reading = label.reading
    if reading.columns == (reading.name,):
        reasons.append(f"label: {reading.name!r} ({label.why})")
    why_task = NAMED_BY_USER if named.task else _why_task(reading)
    reasons.append(f"task: {reading.task} ({why_task})")
    reasons += _unread(columns, (*texts, *reading.columns))
    if reading.hint:
        reasons.append(f"! {reading.hint}")
    if reading.exceptions:
        reasons.append(f"! some labels do not fit that: {listed(reading.exceptions)}")
    return ColumnChoice(texts, reading, tuple(reasons), doubt)


def _with_label(doubt: ColumnDoubt | None, named: NamedColumns) -> ColumnDoubt | None:
    """Return a doubt about texts whose answers keep what the user named."""
    if doubt is None:
        return None
    answers = []
    for answer in doubt.alternatives:
        answers.append(replace(answer, choice=replace(named, text=answer.choice.text)))
    return replace(doubt, alternatives=tuple(answers))


def _why_task(reading: LabelReading) -> str:
    if reading.sets is not None:
        return "a row can have several labels"
    if reading.task == "regression":
        return f"its labels are {reading.trains}"
    return reading.why


def _unread(columns: Sequence[Column], read: Sequence[str]) -> list[str]:
    """Return a line with the columns that are not read, those without any value last."""
    filled = []
    empty = []
    for column in columns:
        if column.name in read:
            continue
        if column.profile.filled:
            filled.append(column.name)
        else:
            empty.append(column.name)
    parts = []
    if filled:
        parts.append(listed(filled))
    if empty:
        parts.append(f"{listed(empty)} (empty in all rows)")
    if not parts:
        return []
    return [f"not read: {'; '.join(parts)}"]
