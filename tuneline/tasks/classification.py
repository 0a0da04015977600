"""Classification: one class of several for each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.core.task_kinds import MetricKind
from tuneline.tasks.probabilities import probabilities
from tuneline.tasks.task import UNLABELLED, Labels, Logits, Task


class NamedClasses(Task):
    """A kind of task in which a model has one logit for each of several names.

    It is constructed from the names alone.
    """

    names: tuple[str, ...]

    class_term: ClassVar[str] = "class"
    """What messages call a name."""
    class_terms: ClassVar[str] = "classes"
    """What messages call several names."""
    has_classes: ClassVar[bool] = True

    @property
    def outputs(self) -> int:
        """One for each name."""
        return len(self.names)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names."""
        return self.names

    @classmethod
    def of_outputs(cls, names: Sequence[str]) -> Self:
        """Return the task with these names."""
        construct: Any = cls
        task: Self = construct(tuple(names))
        return task


@dataclass(frozen=True)
class Classification(NamedClasses):
    """Labels are class ids, int64; a model has one logit for each class.

    Attributes:
        names: Class names in the order of their ids.
        temperature: What logits are divided by before they become probabilities.
    """

    names: tuple[str, ...]
    temperature: float = field(default=1.0, compare=False)

    kind: ClassVar[str] = "classification"
    metric_kind: ClassVar[MetricKind] = "classification"
    prediction_column: ClassVar[str] = "label"
    one_class: ClassVar[bool] = True
    label_dtype: ClassVar[np.dtype[Any]] = np.dtype(np.int64)

    # How outputs become predictions.

    @property
    def decisions(self) -> dict[str, Any]:
        """The temperature, if one was fitted."""
        if self.temperature == 1.0:
            return {}
        return {"temperature": self.temperature}

    def with_decisions(self, decisions: Mapping[str, Any]) -> Self:
        """Return the task with this temperature."""
        if "temperature" not in decisions:
            return self
        return replace(self, temperature=float(decisions["temperature"]))

    # What labels mean.

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

    def label_value(self, label: Any) -> str | float:
        """Return the name of a class id."""
        return self.names[int(label)]

    # What a model predicts.

    def predictions(self, logits: Logits) -> Labels:
        """Return the class of the highest logit, the lowest id in a tie."""
        return np.asarray(logits.argmax(axis=1))

    def scores(self, logits: Logits) -> NDArray[np.float64]:
        """Return the probabilities of the classes."""
        return probabilities(logits, self.temperature)

    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:
        """Return which predictions are another class."""
        return np.asarray(predictions != labels)
