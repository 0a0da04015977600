"""How far an exported model predicts the same as the trained one, by kind of task."""

from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.task import Labels, Logits

SET_AGREEMENT = "set_agreement"
"""Key of the share of rows that get the same set of labels from an exported model as from the trained one."""
LABEL_AGREEMENT = "label_agreement"
"""Key of the share of decisions on single labels that an exported model shares with the trained one."""
LOWEST_LABEL_AGREEMENT = "lowest_label_agreement"
"""Key of the same share for the label where it is the lowest."""
LEAST_CLOSE = 1e-3
"""Difference that agrees in any case, in standard deviations of the labels.

A trained model without any error still rounds.
"""


def agreeing_difference(predictions: NDArray[np.float32], labels: NDArray[Any], close_rmse: float) -> float:
    """Return the largest difference of two predictions of a regression that agree.

    It is ``close_rmse`` root mean squared errors of the model.

    The error of the trained model says how exact a prediction can be meant. If all predictions differed by
    this much, and at random, the error would be ``sqrt(1 + close_rmse**2)`` times as large: 3 % larger with
    0.25. A part of the labels' deviation, the usual choice, says nothing of this: it is strict for a model
    with a large error, and lenient for an exact one.
    """
    rmse = float(np.sqrt(np.mean((predictions.astype(np.float64) - labels) ** 2)))
    return max(close_rmse * rmse, LEAST_CLOSE * float(labels.std()))


@singledispatch
def agreement(
    task: Task, trained: Logits, exported: Logits, labels: Labels, close_rmse: float
) -> NDArray[np.float64]:
    """Return how far an exported model predicts the same as the trained one, shape ``(rows,)``.

    It is 1 for a row with the same prediction, and less for any other row: 0, unless predictions can
    agree in part.
    """
    raise NotImplementedError(task.kind)


@agreement.register(Classification)
def _(
    task: Classification,
    trained: Logits,
    exported: Logits,
    _labels: Labels,
    _close_rmse: float,
) -> NDArray[np.float64]:
    """Return 1 for the rows with the same prediction, else 0."""
    same = task.predictions(trained) == task.predictions(exported)
    return np.asarray(same, np.float64)


@agreement.register(Multilabel)
def _(
    task: Multilabel,
    trained: Logits,
    exported: Logits,
    _labels: Labels,
    _close_rmse: float,
) -> NDArray[np.float64]:
    """Return the labels that both models give a row, twice, by all labels that either gives it.

    It is the coefficient of Dice (1945), or the F1 of the exported model's set where the trained model's
    is taken as true. If every row gets one label, its mean is the share of equal predictions, so that
    ``compare.*.min_agreement`` means the same as for one label per row. The share of equal sets falls
    with the number of labels, and the share of equal decisions says little where most labels are rare.
    """
    expected = task.predictions(trained)
    predicted = task.predictions(exported)
    shared = 2.0 * (expected & predicted).sum(axis=1)
    given = expected.sum(axis=1) + predicted.sum(axis=1)
    # two empty sets are equal
    return np.asarray(np.where(given > 0, shared / np.maximum(given, 1), 1.0))


@agreement.register(Regression)
def _(
    task: Regression, trained: Logits, exported: Logits, labels: Labels, close_rmse: float
) -> NDArray[np.float64]:
    """Return 1 for the numbers that differ by at most ``agreeing_difference``, else 0."""
    expected = task.predictions(trained)
    difference = np.abs(expected.astype(np.float64) - task.predictions(exported))
    agrees = difference <= agreeing_difference(expected, labels, close_rmse)
    return agrees.astype(np.float64)


@singledispatch
def agreement_metrics(_task: Task, trained: Logits, exported: Logits) -> dict[str, float]:  # noqa: ARG001
    """Return other shares of what agrees than the mean of ``agreement``, by name of the metric."""
    return {}


@agreement_metrics.register(Multilabel)
def _(task: Multilabel, trained: Logits, exported: Logits) -> dict[str, float]:
    """Return the shares of equal sets and of equal decisions, and the lowest one of a label."""
    same = task.predictions(trained) == task.predictions(exported)
    by_label = same.mean(axis=0)
    return {
        SET_AGREEMENT: float(same.all(axis=1).mean()),
        LABEL_AGREEMENT: float(by_label.mean()),
        LOWEST_LABEL_AGREEMENT: float(by_label.min()),
    }
