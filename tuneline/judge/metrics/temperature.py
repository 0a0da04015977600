"""The temperature by which logits are divided, so that probabilities are as high as predictions are right.

The source is Guo et al. 2017, "On Calibration of Modern Neural Networks". One number corrects how sure a
model is of itself and changes no prediction. It is fitted to rows of validation, whose number limits what it
can claim: rows without an error do not show that there are none, and the best temperature for them is zero,
with probabilities of 1. So the rows count as if one more of them were wrong, in favour of its second class
(Platt 1999, "Probabilistic Outputs for Support Vector Machines", section 2.2, for two classes). With several
labels, it is wrong in one of them. A temperature that is no better on rows that have not fitted it is not
taken.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.judge.metrics.predictions import Predictions
from tuneline.model.tasks import Classification, Multilabel, Task
from tuneline.model.tasks.task import Logits

LOWEST = 0.05
HIGHEST = 20.0
"""Bounds of a temperature."""
DIGITS = 6
"""Digits of a temperature, so that it does not depend on the last bits of the processor's exponentials."""
MOST_ROWS = 20_000
"""Rows by which a temperature is fitted at most, so that it takes seconds."""
FEWEST_OF_LABEL = 100
"""Rows that must have a label, and rows that must not, for a temperature of its own."""
FOLDS = 3
"""Parts of the rows; what each of them loses is measured with the temperature of the others."""


def calibrated(predictions: Predictions) -> Task:
    """Return the task with the temperatures that suit rows best, and the same predictions.

    All classes have one temperature. Of several labels, each has its own where that is better than a shared
    one.

    A number has no probability: its task stays as it is.

    Args:
        predictions: Logits of a model for rows that it was not trained on.
    """
    task = predictions.task
    rows, folds, independent = _fitting(predictions)
    if not len(rows):
        return task
    logits = predictions.logits[rows]
    labels = predictions.labels[rows]
    if isinstance(task, Multilabel):
        has_label = (labels == 1).astype(np.int64)
        temperatures = _label_temperatures(logits, has_label, folds, independent)
        return replace(task, temperatures=tuple(temperatures.tolist()))
    if isinstance(task, Classification):
        temperature = _chosen_temperature(logits, labels, folds, _surplus(independent))
        return replace(task, temperature=temperature)
    return task


def _label_temperatures(
    logits: Logits, has_label: NDArray[np.int64], folds: NDArray[np.int64], independent: int
) -> NDArray[np.float64]:
    """Return a temperature for each label; arrays have the shape ``(rows, labels)``, folds ``(rows,)``."""
    rows, outputs = has_label.shape

    # one temperature of all labels
    decisions = spaced_rows(np.arange(has_label.size))
    shared = _chosen_temperature(
        _two_classes(logits.ravel()[decisions]),
        has_label.ravel()[decisions],
        folds.repeat(outputs)[decisions],
        _surplus(independent * outputs),
    )

    # one of each label with enough rows
    temperatures = np.full(outputs, shared)
    surplus = _surplus(independent)
    with_label = has_label.sum(axis=0)
    for label in np.flatnonzero(np.minimum(with_label, rows - with_label) >= FEWEST_OF_LABEL):
        of_label = _two_classes(logits[:, label])
        temperatures[label] = _chosen_temperature(of_label, has_label[:, label], folds, surplus, shared)
    return temperatures


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


def _fitting(
    predictions: Predictions,
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Choose the rows that fit a temperature: with a label, and with finite outputs.

    Returns:
        Their numbers; the fold of each, the same for rows of one cluster; and how many are independent of
        all that could have been chosen.
    """
    clusters = predictions.clusters
    is_labelled = predictions.task.valid(predictions.labels)
    labelled = np.flatnonzero(is_labelled & np.isfinite(predictions.logits).all(axis=1))
    rows = spaced_rows(labelled)
    numbers = np.arange(len(rows))
    if clusters is not None:
        _, numbers = np.unique(clusters[rows], return_inverse=True)
    return rows, np.asarray(numbers % FOLDS), independent_rows(clusters, labelled)


def _surplus(independent: int) -> float:
    """Return the share of the one decision that counts as wrong in addition, among two more (Laplace)."""
    return 1 / (independent + 2)


def _two_classes(logits: NDArray[np.float32]) -> Logits:
    """Return the logits of one label as those of two classes, without it and with it; ``(rows, 2)``."""
    return np.stack([np.zeros_like(logits), logits], axis=1)


def _chosen_temperature(
    logits: Logits,
    labels: NDArray[np.int64],
    folds: NDArray[np.int64],
    surplus: float,
    default: float = 1.0,
) -> float:
    """Return the temperature with the smallest log loss, or the default if the folds lose less with it."""
    lost = 0.0
    for fold in range(FOLDS):
        held_out = folds == fold
        if held_out.all() or not held_out.any():
            continue
        temperature = best_temperature(_log_loss(logits[~held_out], labels[~held_out], surplus))
        loss = _log_loss(logits[held_out], labels[held_out], surplus)
        lost += float(held_out.sum()) * (loss(temperature) - loss(default))
    if lost > 0:
        return default
    return round(best_temperature(_log_loss(logits, labels, surplus)), DIGITS)


def _log_loss(logits: Logits, labels: NDArray[np.int64], surplus: float) -> Callable[[float], float]:
    """Return the log loss by temperature, where a share of each row counts as wrong."""
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

    return loss
