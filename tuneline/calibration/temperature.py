"""The temperature by which logits are divided, so that probabilities are as high as predictions are right.

The source is Guo et al. 2017, "On Calibration of Modern Neural Networks". One number corrects how sure a
model is of itself and changes no prediction. It is fitted to rows of validation, whose number limits what it
can claim: rows without an error do not show that there are none, and the best temperature for them is zero,
with probabilities of 1. So the rows count as if one more of them were wrong, in favour of its second class
(Platt 1999, "Probabilistic Outputs for Support Vector Machines", section 2.2, for two classes).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.tasks import Classification, Multilabel, Task
from tuneline.tasks.task import Labels, Logits

LOWEST = 0.05
HIGHEST = 20.0
"""Bounds of a temperature."""
DIGITS = 6
"""Digits of a temperature, so that it does not depend on the last bits of the processor's exponentials."""
MOST_ROWS = 20_000
"""Rows by which a temperature is fitted at most, so that it takes seconds."""
FEWEST_OF_LABEL = 20
"""Rows that must have a label, and rows that must not, for a temperature of its own."""


@singledispatch
def calibrated(task: Task, logits: Logits, labels: Labels, clusters: NDArray[Any] | None) -> Task:  # noqa: ARG001
    """Return the task with the temperatures that suit rows best, and the same predictions.

    Args:
        task: The task; a number has no probability, and stays as it is.
        logits: Outputs of a model for rows that it was not trained on, ``(rows, outputs)``.
        labels: Labels of the rows.
        clusters: Cluster of each row, ``(rows,)``; ``None``: each row is on its own.
    """
    return task


@calibrated.register(Classification)
def _(task: Classification, logits: Logits, labels: Labels, clusters: NDArray[Any] | None) -> Classification:
    """Return the task with one temperature for all classes."""
    labelled = np.flatnonzero(task.valid(labels))
    if not len(labelled):
        return task
    surplus = _surplus(independent_rows(clusters, labelled))
    rows = spaced_rows(labelled)
    return replace(task, temperature=_fitted_temperature(logits[rows], labels[rows], surplus))


@calibrated.register(Multilabel)
def _(task: Multilabel, logits: Logits, labels: Labels, clusters: NDArray[Any] | None) -> Multilabel:
    """Return the task with a temperature for each label, the one of all labels where few rows have it."""
    labelled = np.flatnonzero(task.valid(labels))
    if not len(labelled):
        return task
    surplus = _surplus(independent_rows(clusters, labelled))
    rows = spaced_rows(labelled)
    logits = logits[rows]
    has_label = (labels[rows] == 1).astype(np.int64)

    # one temperature of all labels, and one of each label with enough rows
    decisions = spaced_rows(np.arange(has_label.size))
    shared = _fitted_temperature(
        _two_classes(logits.ravel()[decisions]), has_label.ravel()[decisions], surplus
    )
    temperatures = np.full(task.outputs, shared)
    with_label = has_label.sum(axis=0)
    without_label = len(rows) - with_label
    for label in np.flatnonzero(np.minimum(with_label, without_label) >= FEWEST_OF_LABEL):
        own = _fitted_temperature(_two_classes(logits[:, label]), has_label[:, label], surplus)
        temperatures[label] = own
    return replace(task, temperatures=tuple(temperatures.tolist()))


def spaced_rows(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ``MOST_ROWS`` of some row numbers at most, evenly spaced."""
    if len(rows) <= MOST_ROWS:
        return rows
    return rows[np.linspace(0, len(rows) - 1, MOST_ROWS).astype(np.int64)]


def independent_rows(clusters: NDArray[Any] | None, rows: NDArray[np.int64]) -> int:
    """Return the number of clusters of some rows: copies of a text are one."""
    if clusters is None:
        return len(rows)
    return len(np.unique(clusters[rows]))


def best_temperature(loss: Callable[[float], float]) -> float:
    """Return the temperature with the smallest loss."""
    from scipy.optimize import minimize_scalar

    def loss_at(logarithm: float) -> float:
        return loss(float(np.exp(logarithm)))

    minimum = minimize_scalar(loss_at, bounds=(np.log(LOWEST), np.log(HIGHEST)), method="bounded")
    return float(np.exp(minimum.x))


def _surplus(independent: int) -> float:
    """Return the share of the one row that counts as wrong in addition, among two more (Laplace)."""
    return 1 / (independent + 2)


def _two_classes(logits: NDArray[np.float32]) -> Logits:
    """Return the logits of one label as those of two classes, without it and with it; ``(rows, 2)``."""
    return np.stack([np.zeros_like(logits), logits], axis=1)


def _fitted_temperature(logits: Logits, labels: NDArray[np.int64], surplus: float) -> float:
    """Return the temperature with the smallest log loss, where a share of each row counts as wrong."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    of_label = wide[np.arange(len(wide)), labels]
    others = wide.copy()
    others[np.arange(len(wide)), labels] = -np.inf
    of_best_other = others.max(axis=1)
    expected = (1 - surplus) * of_label + surplus * of_best_other

    def loss(temperature: float) -> float:
        total = np.exp(wide / temperature).sum(axis=1)
        return float(np.mean(np.log(total) - expected / temperature))

    return round(best_temperature(loss), DIGITS)
