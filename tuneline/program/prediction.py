"""What a model says of a row, for a program: label, labels or number, with probabilities and the version."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.decisions.answers import Answers
from tuneline.tasks import Classification, Multilabel, Regression, Task


@dataclass(frozen=True)
class Prediction:
    """The prediction for one row.

    Attributes:
        version: Which model predicted: the name of a version in the registry, else the start of a hash of
            the model and its decisions. ``tuneline show VERSION`` explains it.
        label: The class; ``None`` if the model has several labels or predicts numbers, or gives no answer.
        labels: The labels of a model of several; ``None`` as above.
        number: The number of a regression.
        interval: The ends of its interval of 90 %, if the model has one.
        probability: Probability that the answer is right, as the model says; ``None`` for a number.
        scores: Probability of each class or label by name; empty for a number.
        reason: Why there is no answer; ``None`` if there is one.
        truncated: True if the row is longer than what the model reads.
    """

    version: str
    label: str | None = None
    labels: tuple[str, ...] | None = None
    number: float | None = None
    interval: tuple[float, float] | None = None
    probability: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None
    truncated: bool = False

    @property
    def abstained(self) -> bool:
        """True if there is no answer."""
        return self.reason is not None


@singledispatch
def answer_fields(task: Task, scores: NDArray[np.float64], answers: Answers) -> Iterator[dict[str, Any]]:
    """Yield the fields of ``Prediction`` that depend on the kind of task, for each row of scores."""
    raise NotImplementedError(task.kind)


@answer_fields.register(Classification)
def _(task: Classification, scores: NDArray[np.float64], answers: Answers) -> Iterator[dict[str, Any]]:
    """Yield class, probability and probabilities."""
    rows = zip(answers.labels.tolist(), answers.confidence.tolist(), scores.tolist(), strict=True)
    for position, probability, values in rows:
        yield {
            "label": task.names[position],
            "probability": probability,
            "scores": dict(zip(task.names, values, strict=True)),
        }


@answer_fields.register(Multilabel)
def _(task: Multilabel, scores: NDArray[np.float64], answers: Answers) -> Iterator[dict[str, Any]]:
    """Yield labels and probabilities; a set is as probable as its least sure decision."""
    rows = zip(answers.labels.tolist(), answers.confidence.tolist(), scores.tolist(), strict=True)
    for labels, probability, values in rows:
        yield {
            "labels": tuple(task.names_of(labels)),
            "probability": probability,
            "scores": dict(zip(task.names, values, strict=True)),
        }


@answer_fields.register(Regression)
def _(task: Regression, scores: NDArray[np.float64], _answers: Answers) -> Iterator[dict[str, Any]]:
    """Yield the number and its interval."""
    for (number,) in scores.tolist():
        interval = None
        if task.half_width is not None:
            interval = (number - task.half_width, number + task.half_width)
        yield {"number": number, "interval": interval}
