"""Classification: one class of several for each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tuneline.core.tables import UNLABELLED
from tuneline.core.task_kinds import MetricKind
from tuneline.tasks.named_classes import NamedClasses
from tuneline.tasks.probabilities import probabilities
from tuneline.tasks.task import Labels, Logits, Task

UNKNOWN = -2
"""Id of a class that a person wrote and that the task does not have; -1 is the id of a missing label."""


@dataclass(frozen=True)
class Classification(NamedClasses):
    """Labels are class ids, int64; a model has one logit for each class.

    Attributes:
        names: Class names in the order of their ids.
    """

    names: tuple[str, ...]

    kind: ClassVar[str] = "classification"
    metric_kind: ClassVar[MetricKind] = "classification"
    prediction_column: ClassVar[str] = "label"
    staged_type: ClassVar[pa.DataType] = pa.string()
    one_class: ClassVar[bool] = True

    # How labels are read and stored.

    @classmethod
    def observed(cls, labels: pa.Array) -> set[Any]:
        """Return the classes that occur in a column."""
        return set(pc.unique(labels.drop_null()).to_pylist())

    @property
    def label_type(self) -> pa.DataType:
        """Class ids."""
        return pa.int64()

    @property
    def label_feature(self) -> dict[str, Any]:
        """A class label with its names."""
        return {"names": list(self.names), "_type": "ClassLabel"}

    def stored(self, labels: pa.Array, written: Sequence[str]) -> pa.Array:
        """Return the ids of the classes."""
        ids = pc.index_in(labels, value_set=pa.array(written, pa.string()))
        return pc.if_else(pc.is_null(labels), None, pc.fill_null(ids, UNLABELLED)).cast(self.label_type)

    def parsed(self, texts: pa.ChunkedArray) -> Labels:
        """Return the ids of class names, -2 for an unknown one."""
        # An invalid class has its own id, because -1 is a missing label.
        ids = pc.fill_null(pc.index_in(texts, value_set=pa.array(self.names, pa.string())), UNKNOWN)
        return np.asarray(ids.to_numpy().astype(np.int64))

    def valid(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which labels are ids of classes."""
        return np.asarray((labels >= 0) & (labels < self.outputs))

    def unlabelled(self, labels: Labels) -> NDArray[np.bool_]:
        """Return which rows have no class."""
        return np.asarray(labels == UNLABELLED)

    def translated(self, labels: Labels, other: Task) -> Labels:
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

    def encoded(self, predicted: pa.ChunkedArray) -> Labels:
        """Return the ids of class names."""
        # A file of another model may have other classes.
        ids = pc.fill_null(pc.index_in(predicted, pa.array(self.names)), -1)
        return np.asarray(ids.to_numpy().astype(np.int64))

    def decoded(self, predictions: Labels) -> pa.Array:
        """Return the names of class ids."""
        return pa.array([self.names[index] for index in predictions.tolist()], pa.string())

    def label_value(self, label: Any) -> str | float:
        """Return the name of a class id."""
        return self.names[int(label)]

    # What a model predicts.

    def predictions(self, logits: Logits) -> Labels:
        """Return the class of the highest logit, the lowest id in a tie."""
        return np.asarray(logits.argmax(axis=1))

    def scores(self, logits: Logits) -> NDArray[np.float64]:
        """Return the probabilities of the classes."""
        return probabilities(logits)

    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:
        """Return which predictions are another class."""
        return np.asarray(predictions != labels)
