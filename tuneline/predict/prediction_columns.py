"""The columns of a prediction in the output of ``tuneline predict``, by kind of task."""

from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tuneline.decisions.answers import Answers
from tuneline.tasks import Classification, Multilabel, Regression, Task


@singledispatch
def prediction_columns(task: Task) -> tuple[str, ...]:
    """Columns of the prediction in the output of ``tuneline predict``; all but ``label`` are numbers."""
    raise NotImplementedError(task.kind)


@prediction_columns.register(Classification)
def _(task: Classification) -> tuple[str, ...]:
    """The class, its probability, and the probability of each class."""
    return ("label", "probability", *(f"probability_{name}" for name in task.names))


@prediction_columns.register(Multilabel)
def _(task: Multilabel) -> tuple[str, ...]:
    """The labels, and the probability of each label."""
    return ("labels", *(f"probability_{name}" for name in task.names))


@prediction_columns.register(Regression)
def _(task: Regression) -> tuple[str, ...]:
    """The number, and the ends of its interval, if it has one."""
    if task.half_width is None:
        return ("prediction",)
    return ("prediction", "prediction_low", "prediction_high")


@singledispatch
def prediction_types(task: Task) -> tuple[pa.DataType, ...]:
    """Arrow types of ``prediction_columns``."""
    types = []
    for name in prediction_columns(task):
        types.append(pa.string() if name == "label" else pa.float32())
    return tuple(types)


@prediction_types.register(Multilabel)
def _(task: Multilabel) -> tuple[pa.DataType, ...]:
    """A list of names, and numbers."""
    return (pa.list_(pa.string()), *[pa.float32()] * task.outputs)


@singledispatch
def cell_text(_task: Task, value: Any) -> Any:
    """Return a value of ``prediction_columns`` as a CSV file has it."""
    return value


@cell_text.register(Multilabel)
def _(task: Multilabel, value: Any) -> Any:
    """Return the labels of a row joined, as a CSV file has them."""
    if isinstance(value, list):
        return task.separator.join(value)
    return value


@singledispatch
def prediction_rows(
    task: Task, scores: NDArray[np.float64], answers: Answers, digits: int
) -> Iterator[list[Any]]:
    """Yield the values of ``prediction_columns`` for each row of scores, rounded, with its answer."""
    raise NotImplementedError(task.kind)


@prediction_rows.register(Classification)
def _(
    task: Classification, scores: NDArray[np.float64], answers: Answers, digits: int
) -> Iterator[list[Any]]:
    """Yield class name and probabilities."""
    for position, values in zip(answers.labels.tolist(), scores.round(digits).tolist(), strict=True):
        yield [task.names[position], values[position], *values]


@prediction_rows.register(Multilabel)
def _(task: Multilabel, scores: NDArray[np.float64], answers: Answers, digits: int) -> Iterator[list[Any]]:
    """Yield lists of names, and probabilities."""
    for labels, values in zip(answers.labels.tolist(), scores.round(digits).tolist(), strict=True):
        yield [task.names_of(labels), *values]


@prediction_rows.register(Regression)
def _(task: Regression, scores: NDArray[np.float64], _answers: Answers, digits: int) -> Iterator[list[Any]]:
    """Yield the number, and the ends of its interval."""
    if task.half_width is not None:
        scores = np.hstack([scores, scores - task.half_width, scores + task.half_width])
    yield from scores.round(digits).tolist()


@singledispatch
def json_prediction(task: Task, values: Sequence[Any]) -> dict[str, Any]:
    """Return the values of ``prediction_columns`` for one row as an object of JSON Lines has them."""
    raise NotImplementedError(task.kind)


@json_prediction.register(Classification)
def _(task: Classification, values: Sequence[Any]) -> dict[str, Any]:
    """Return them with the probabilities by class name."""
    label, probability, *others = values
    return {
        "label": label,
        "probability": probability,
        "probabilities": dict(zip(task.names, others, strict=True)),
    }


@json_prediction.register(Multilabel)
def _(task: Multilabel, values: Sequence[Any]) -> dict[str, Any]:
    """Return the labels with the probabilities by name."""
    labels, *shares = values
    return {"labels": labels, "probabilities": dict(zip(task.names, shares, strict=True))}


@json_prediction.register(Regression)
def _(task: Regression, values: Sequence[Any]) -> dict[str, Any]:
    """Return the number, and the ends of its interval."""
    return dict(zip(prediction_columns(task), values, strict=True))
