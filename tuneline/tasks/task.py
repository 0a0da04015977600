"""What everybody needs to know of a kind of task.

A package that needs more has a module of its own with the answers of all kinds (docs/architecture.md).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.core.tables import UNLABELLED, numpy_values
from tuneline.core.task_kinds import MetricKind

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
    staged_type: ClassVar[pa.DataType]
    """Arrow type of a label column as it is read from the user's data: names of classes, or numbers."""
    one_class: ClassVar[bool]
    """True if a label is one class."""

    names: tuple[str, ...] | None
    """Class names in the order of their ids; ``None`` where labels are no classes."""

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
        """The class names; empty where labels are no classes."""
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

    # How labels are read and stored.

    @classmethod
    @abstractmethod
    def observed(cls, labels: pa.Array) -> set[Any]:
        """Return the classes that occur in a column, of names or of ids; none where labels are no classes."""

    @classmethod
    def label_texts(cls, labels: pa.Array) -> pa.Array:
        """Return labels of ``staged_type`` as text, the same for equal labels; null for a missing one."""
        return labels.cast(pa.string())

    @abstractmethod
    def stored(self, labels: pa.Array, written: Sequence[str]) -> pa.Array:
        """Return labels of ``staged_type`` as ``label_type``; -1 for an unknown class.

        ``written`` is how each class is written there.
        """

    @abstractmethod
    def parsed(self, texts: pa.ChunkedArray) -> Labels:
        """Return labels that a person wrote, in ``label_type``.

        A text that is no label gives a label that is not ``valid``.
        """

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
    @abstractmethod
    def label_type(self) -> pa.DataType:
        """Arrow type of a column of labels or predictions."""

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of the label of one row: a single value, unless a row has several labels."""
        return ()

    @property
    def label_dtype(self) -> np.dtype[Any]:
        """Type of labels in memory."""
        dtype: np.dtype[Any] = np.dtype(self.label_type.to_pandas_dtype())
        return dtype

    def array_of(self, column: pa.Array | pa.ChunkedArray) -> Labels:
        """Return a column of labels or predictions, without nulls, as an array, which may be read-only."""
        return numpy_values(column)

    def labels_of(self, column: pa.Array | pa.ChunkedArray) -> Labels:
        """Return a column of labels as an array, which may be read-only; a null is a missing label."""
        if not column.null_count:
            return self.array_of(column)
        labels = np.full((len(column), *self.label_shape), UNLABELLED, self.label_dtype)
        labels[column.is_valid().to_numpy(zero_copy_only=False)] = self.array_of(column.drop_null())
        return labels

    def column_of(self, labels: Labels) -> pa.Array:
        """Return an array of labels or predictions as a column of ``label_type``."""
        return pa.array(labels, self.label_type)

    @property
    @abstractmethod
    def label_feature(self) -> dict[str, Any]:
        """What the datasets library stores in a table's metadata about a column of labels or predictions.

        A kind of task other than classification and regression adds its ``kind`` as ``task``.
        """

    @abstractmethod
    def unlabelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows, shape ``(rows,)``, have no label although the split has some."""

    @abstractmethod
    def translated(self, labels: Labels, other: "Task") -> Labels:
        """Return labels or predictions of another task of this kind as this one has them.

        A class that this task does not have is -1.
        """

    @abstractmethod
    def encoded(self, predicted: pa.ChunkedArray) -> Labels:
        """Return the column ``prediction_column`` of a file as predictions of this task.

        A class that this task does not have is -1.
        """

    @abstractmethod
    def decoded(self, predictions: Labels) -> pa.Array:
        """Return predictions as the column ``prediction_column`` of a file has them."""

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

    # How predictions are judged.
