"""The kinds of task: what a label is, what a model predicts, and how both are compared.

Whatever else depends on the kind asks what labels are: names or numbers (``has_classes``), one or several in
a row (``one_class``, ``label_shape``). How labels are read and stored is in
``tuneline/model/tasks/columns.py``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.model.tasks.probabilities import finite_rows, probabilities

if TYPE_CHECKING:
    from tuneline.core.params.data import TaskKind
    from tuneline.model.tasks import Task

UNLABELLED = -1
"""Label of a row without one; all rows of a split can be so, as GLUE's test splits."""
UNKNOWN = -2
"""Label of a row with a class that a person wrote and that the task does not have."""
SIGNS = frozenset({"-", "--", "---", "\u2013", "\u2014", "?", "."})
"""Dashes, as Excel writes them, too; the question mark; the point of SAS and Stata."""
NO_NAMES = SIGNS | {
    "\\n",
    "null",
    "(null)",
    "<null>",
    "[null]",
    "#null!",
    "#n/a",
    "#nv",
    "#value!",
    "#ref!",
    "#name?",
    "#div/0!",
    "#num!",
    "<na>",
    "nan",
    "-nan",
    "nat",
    "(blank)",
    "(empty)",
    "(missing)",
}
"""What people and programs write where a value is missing, in lower case. Nobody gives a class such a name,
unless other classes are signs, too.
"""
MISSING_WORDS = NO_NAMES | {"na", "n/a", "n.a.", "none", "nil", "undefined"}
"""The same with words that can be either: ``none`` is an answer to a question about an emotion, and NA a
continent. One list for labels and numbers.
"""

Floats = NDArray[np.float64]
"""Numbers in double precision, of any shape."""
ClassIds = NDArray[np.int64]
"""Index of the class of each row, of shape ``(rows,)``."""
Labels = NDArray[Any]
"""Labels of rows, or predictions of the same type, of shape ``(rows, *label_shape)`` of the task."""
Logits = NDArray[np.float32]
"""Outputs of a model, of shape ``(rows, outputs)``."""

DECISIONS = "decisions"
"""Key of ``decisions`` of a task in the configuration of a model, and in the metadata of a table."""
INTERVAL_LEVEL = 0.9
"""Share of new rows whose number is within the interval around its prediction."""


class NamedClasses:
    """A kind of task in which a model has one logit for each of several names.

    It is constructed from the names alone.
    """

    names: tuple[str, ...]
    """The names in the order of their ids."""

    has_classes: ClassVar[bool] = True
    """True if labels are classes, False if they are numbers, which have an order."""

    @property
    def outputs(self) -> int:
        """Number of logits of a row."""
        return len(self.names)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Name of each output of the model's head."""
        return self.names

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names."""
        return self.names

    @classmethod
    def of_outputs(cls, names: Sequence[str]) -> Self:
        """Return the task of a model whose outputs have these names."""
        construct: Any = cls
        task: Self = construct(tuple(names))
        return task


class SingleLabel:
    """A kind of task in which the label of a row is one value."""

    label_shape: ClassVar[tuple[int, ...]] = ()
    """Shape of the label of one row."""

    def codes(self, labels: Labels) -> NDArray[Any]:
        """Return one number for each row, shape ``(rows,)``: equal for equal labels, -1 for a missing label.

        A data check compares columns of numbers.
        """
        return labels

    def members(self, labels: Labels, label: int) -> NDArray[np.bool_]:
        """Return which rows have the class of this id, shape ``(rows,)``."""
        return np.asarray(labels == label)


@dataclass(frozen=True)
class Classification(NamedClasses, SingleLabel):
    """Labels are class ids, int64; a model has one logit for each class.

    Attributes:
        names: Class names in the order of their ids.
        temperature: What logits are divided by before they become probabilities.
        positive: Id of the class that F1 and the curves of two classes are of: the rarer one in train.
    """

    names: tuple[str, ...]
    temperature: float = field(default=1.0, compare=False)
    positive: int = field(default=1, compare=False)

    kind: ClassVar["TaskKind"] = "classification"
    judged_as: ClassVar["TaskKind"] = "classification"
    """Kind in the table of metrics, also of a class that inherits from this one."""
    prediction_column: ClassVar[str] = "label"
    one_class: ClassVar[bool] = True
    label_dtype: ClassVar[np.dtype[Any]] = np.dtype(np.int64)

    # How outputs become predictions.

    @property
    def decisions(self) -> dict[str, Any]:
        """The temperature, if one was fitted, and the positive class, if it is not the second one."""
        decisions: dict[str, Any] = {}
        if self.temperature != 1.0:
            decisions["temperature"] = self.temperature
        if self.positive != 1:
            decisions["positive"] = self.names[self.positive]
        return decisions

    def with_decisions(self, decisions: Mapping[str, Any]) -> Self:
        """Return the task with this temperature and this positive class."""
        task = self
        if "temperature" in decisions:
            task = replace(task, temperature=float(decisions["temperature"]))
        if "positive" in decisions:
            task = replace(task, positive=self.names.index(decisions["positive"]))
        return task

    # What labels mean.

    def valid(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which labels are ids of classes."""
        return np.asarray((labels >= 0) & (labels < self.outputs))

    def unlabelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows have no class."""
        return np.asarray(labels == UNLABELLED)

    def translated(self, labels: Labels, other: "Task") -> Labels:
        """Translate class ids by class name."""
        if other.names == self.names:
            return labels
        # own id of each class of the other task
        ids = []
        for name in other.output_names:
            if name in self.names:
                ids.append(self.names.index(name))
            else:
                ids.append(-1)
        return np.asarray(np.array(ids, dtype=np.int64)[labels])

    def value(self, label: Any) -> str:
        """Return the name of a class id."""
        return self.names[int(label)]

    def text(self, value: Any) -> str:
        """Return the name."""
        return str(value)

    def parse(self, text: str) -> str:
        """Return the text, which is the name of a class if the task has it."""
        return text

    # What a model predicts.

    def predictions(self, logits: Logits) -> Labels:
        """Return the class of the highest logit, the lowest id in a tie."""
        return np.asarray(logits.argmax(axis=1))

    def decide(self, scores: Floats) -> Labels:
        """Return the most probable class of each row, the lowest id in a tie."""
        return np.asarray(scores.argmax(axis=1))

    def confidence(self, scores: Floats, answers: Labels) -> Floats:
        """Return the probability of each answer."""
        return np.asarray(scores[np.arange(len(scores)), answers])

    def scores(self, logits: Logits) -> Floats:
        """Return the probabilities of the classes."""
        return probabilities(logits, self.temperature)

    def losses(self, logits: Logits, labels: Labels) -> Floats:
        """Return the cross-entropy of each row, without the temperature."""
        wide = logits.astype(np.float64)
        wide -= wide.max(axis=1, keepdims=True)  # so that exponentials of logits of any size are finite
        return np.asarray(np.log(np.exp(wide).sum(axis=1)) - wide[np.arange(len(wide)), labels])

    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:
        """Return which predictions are another class."""
        return np.asarray(predictions != labels)


@dataclass(frozen=True)
class Regression(SingleLabel):
    """Labels are numbers, float32; a model has one output, which is the predicted number.

    Attributes:
        half_width: By how much the ends of the interval around a prediction differ from it; ``None`` if that
            is not known.
    """

    names: None = field(default=None, init=False)
    half_width: float | None = field(default=None, compare=False)
    kind: ClassVar["TaskKind"] = "regression"
    judged_as: ClassVar["TaskKind"] = "regression"
    has_classes: ClassVar[bool] = False
    prediction_column: ClassVar[str] = "prediction"
    one_class: ClassVar[bool] = False
    label_dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)

    outputs: ClassVar[int] = 1
    output_names: ClassVar[tuple[str, ...]] = ("score",)
    """One name, because transformers requires it."""
    class_names: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of_outputs(cls, names: Sequence[str]) -> Self:  # noqa: ARG003
        """Return the task: the name of the only output means nothing."""
        return cls()

    # How outputs become predictions.

    @property
    def decisions(self) -> dict[str, Any]:
        """The interval, if it is known."""
        if self.half_width is None:
            return {}
        return {"interval": {"level": INTERVAL_LEVEL, "half_width": self.half_width}}

    def with_decisions(self, decisions: Mapping[str, Any]) -> Self:
        """Return the task with this interval."""
        if "interval" not in decisions:
            return self
        return replace(self, half_width=float(decisions["interval"]["half_width"]))

    # What labels mean.

    def valid(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which numbers are finite."""
        return np.asarray(np.isfinite(labels))

    def unlabelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return all rows of a split whose labels all are -1, else none: -1 can be a number to predict."""
        # One row that is -1 among other numbers has the label -1.
        return np.full(len(labels), bool((labels == UNLABELLED).all()))

    def translated(self, labels: Labels, other: "Task") -> Labels:  # noqa: ARG002
        """Return the numbers."""
        return labels

    def value(self, label: Any) -> float:
        """Return the number."""
        return float(label)

    def text(self, value: Any) -> str:
        """Return a number with the digits of a 32-bit float.

        Raises:
            ValueError: It is not finite.
        """
        number = np.float32(value)  # its text has as few digits as tell it from its neighbours
        if not np.isfinite(number):
            raise ValueError("not finite")
        return str(number)

    def parse(self, text: str) -> float:
        """Return the number, NaN for a text that is not numeric."""
        try:
            return float(text)
        except ValueError:
            return math.nan

    # What a model predicts.

    def predictions(self, logits: Logits) -> Labels:
        """Return the number."""
        return logits[:, 0]

    def decide(self, scores: Floats) -> Labels:
        """Return the number."""
        return scores[:, 0]

    def confidence(self, scores: Floats, answers: Labels) -> Floats:  # noqa: ARG002
        """Return NaN: a number has no probability."""
        return np.full(len(scores), np.nan)

    def scores(self, logits: Logits) -> Floats:
        """Return the numbers."""
        return finite_rows(logits)

    def losses(self, logits: Logits, labels: Labels) -> Floats:
        """Return the squared error of each row."""
        return np.asarray(np.square(logits[:, 0].astype(np.float64) - labels))

    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:  # noqa: ARG002
        """Return all: hardly a number is predicted exactly."""
        return np.ones(len(predictions), bool)
