"""Regression: one number for each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tuneline.core.task_kinds import MetricKind
from tuneline.tasks.task import UNLABELLED, Labels, Logits, Task

INTERVAL_LEVEL = 0.9
"""Share of new rows whose number is within the interval around its prediction."""


@dataclass(frozen=True)
class Regression(Task):
    """Labels are numbers, float32; a model has one output, which is the predicted number.

    Attributes:
        half_width: By how much the ends of the interval around a prediction differ from it; ``None`` if that
            is not known.
    """

    names: None = field(default=None, init=False)
    half_width: float | None = field(default=None, compare=False)
    kind: ClassVar[str] = "regression"
    metric_kind: ClassVar[MetricKind] = "regression"
    has_classes: ClassVar[bool] = False
    prediction_column: ClassVar[str] = "prediction"
    one_class: ClassVar[bool] = False
    label_dtype: ClassVar[np.dtype[Any]] = np.dtype(np.float32)

    @property
    def outputs(self) -> int:
        """The number."""
        return 1

    @property
    def output_names(self) -> tuple[str, ...]:
        """One name, because transformers requires it."""
        return ("score",)

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

    def translated(self, labels: Labels, other: Task) -> Labels:  # noqa: ARG002
        """Return the numbers."""
        return labels

    def label_value(self, label: Any) -> str | float:
        """Return the number."""
        return float(label)

    # What a model predicts.

    def predictions(self, logits: Logits) -> Labels:
        """Return the number."""
        return logits[:, 0]

    def scores(self, logits: Logits) -> NDArray[np.float64]:
        """Return the numbers."""
        return logits.astype(np.float64)

    def errors(self, predictions: Labels, labels: Labels) -> NDArray[np.bool_]:  # noqa: ARG002
        """Return all: hardly a number is predicted exactly."""
        return np.ones(len(predictions), bool)
