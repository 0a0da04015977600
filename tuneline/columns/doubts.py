"""What the user said about columns, and the questions that the values do not answer."""

from dataclasses import dataclass

from tuneline.columns.reading import LabelReading
from tuneline.core.task_kinds import SET_KINDS
from tuneline.params.data import TaskKind


@dataclass(frozen=True)
class NamedColumns:
    """What the user said about columns and labels; ``None`` or empty is left to ``tuneline init``.

    Attributes:
        label: The label column, or several columns that have the labels.
        separator: What separates the labels of a row.
        decimal: The character before the decimals of a label.
    """

    text: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    task: TaskKind | None = None
    separator: str | None = None
    decimal: str | None = None

    @property
    def one_label(self) -> bool:
        """True if a row has one label."""
        return self.task is not None and self.task not in SET_KINDS

    def allow(self, reading: LabelReading) -> bool:
        """Return True if a reading is what the user said."""
        if self.task is not None and reading.task != self.task:
            return False
        if self.separator is not None and reading.sets is None:
            return False
        if self.decimal is None:
            return True
        return reading.task == "regression" and reading.numbers.decimal == self.decimal


NOTHING_NAMED = NamedColumns()


@dataclass(frozen=True)
class Alternative:
    """One answer to a doubt.

    Attributes:
        trains: What it would train, in words.
        options: The options that choose it.
        choice: The same as what the user named.
    """

    trains: str
    options: str
    choice: NamedColumns


@dataclass(frozen=True)
class ColumnDoubt:
    """A question that the values do not answer.

    Attributes:
        problem: What can be read in several ways, as a sentence.
        alternatives: The answers, the likeliest first.
    """

    problem: str
    alternatives: tuple[Alternative, ...]
