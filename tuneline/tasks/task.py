"""What everybody needs to know of a kind of task.

A package that needs more has a module of its own with the answers of all kinds (docs/architecture.md).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.core.task_kinds import MetricKind

UNLABELLED = -1
"""Label of a row without one; all rows of a split can be so, as GLUE's test splits."""
UNKNOWN = -2
"""Label of a row with a class that a person wrote and that the task does not have."""

Labels = NDArray[Any]
"""Labels of rows, or predictions of the same type, of shape ``(rows, *Task.label_shape)``."""
Logits = NDArray[np.float32]
"""Outputs of a model, of shape ``(rows, outputs)``."""

DECISIONS = "decisions"
"""Key of ``Task.decisions`` in the configuration of a model, and in the metadata of a table."""


class Task(ABC):
    """A kind of task, with the class names where it has classes."""

    kind: ClassVar[str]
    """Value of ``data.task``."""
    metric_kind: ClassVar[MetricKind]
    """Which metrics of the metric table apply."""
    has_classes: ClassVar[bool]
    """True if labels are classes, False if they are numbers, which have an order."""
    prediction_column: ClassVar[str]
    """Name of the prediction in the output of ``tuneline predict``."""
    one_class: ClassVar[bool]
    """True if a label is one class."""
    label_dtype: ClassVar[np.dtype[Any]]
    """Type of labels in memory."""

    names: tuple[str, ...] | None
    """Class names in the order of their ids; ``None`` where labels are not classes."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of logits of a row."""

    @property
    @abstractmethod
    def output_names(self) -> tuple[str, ...]:
        """Name of each output of the model's head."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """The class names; empty where labels are not classes."""
        return self.names or ()

    @classmethod
    @abstractmethod
    def of_outputs(cls, names: Sequence[str]) -> Self:
        """Return the task of this kind of a model whose outputs have these names."""

    # How outputs become predictions.

    @property
    def decisions(self) -> dict[str, Any]:
        """How outputs become predictions, as the files of a model store it; empty if nothing was chosen."""
        return {}

    def with_decisions(self, decisions: Mapping[str, Any]) -> Self:  # noqa: ARG002
        """Return the task with ``decisions`` that a file has stored."""
        return self

    # What labels mean. How they are read and stored is in ``tuneline/tasks/columns.py``.

    @abstractmethod
    def valid(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which labels are classes of the task, or numbers, shape ``(rows,)``; False if missing."""

    def codes(self, labels: Labels) -> NDArray[Any]:
        """Return one number for each row, shape ``(rows,)``: equal for equal labels, -1 for a missing label.

        A data check compares columns of numbers.
        """
        return labels

    def members(self, labels: Labels, label: int) -> NDArray[np.bool_]:
        """Return which rows have the class of this id, shape ``(rows,)``."""
        return np.asarray(labels == label)

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of the label of one row: a single value, unless a row has several labels."""
        return ()

    @abstractmethod
    def unlabelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows, shape ``(rows,)``, have no label although the split has some."""

    @abstractmethod
    def translated(self, labels: Labels, other: "Task") -> Labels:
        """Return labels or predictions of another task of this kind as this one has them.

        A class that this task does not have is -1.
        """

    @abstractmethod
    def label_value(self, label: Any) -> str | float:
        """Return a label or a prediction as a value of JSON."""

    # What a model predicts.

    @abstractmethod
    def predictions(self, logits: Logits) -> Labels:
        """Return the prediction of each row, shape ``(rows,)``."""

    @abstractmethod
    def scores(self, logits: Logits) -> NDArray[np.float64]:
        """Return what people see of outputs, shape ``(rows, outputs)``: probabilities or numbers."""

    @abstractmethod
    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:
        """Return which predictions are errors, shape ``(rows,)``."""
