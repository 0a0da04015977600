"""Ways to read the label, what the user said about columns, and the questions that are left."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuneline.core.params.data import LabelSetsParams, TaskKind
from tuneline.core.runtime.errors import DataError
from tuneline.core.runtime.terminal import listed

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
