"""Losses that say how much a model knows, whatever its confidence: by kind of task."""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.calibration.temperature import best_temperature
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.probabilities import SMALLEST, entropies, probabilities, sigmoid
from tuneline.tasks.task import Labels, Logits

RowLosses = NDArray[np.float64]
"""Loss of each row, of shape ``(rows,)``."""


def temperature_of(
    logits: NDArray[np.float32],
    labels: NDArray[Any],
    losses: Callable[[NDArray[Any], NDArray[Any]], RowLosses],
) -> float:
    """Return the number by which logits are divided for the smallest mean of their ``losses``."""
    return best_temperature(lambda temperature: float(losses(logits / temperature, labels).mean()))


def log_losses(logits: NDArray[Any], labels: NDArray[np.int64]) -> RowLosses:
    """Return the log loss of each row, shape ``(rows,)``."""
    likelihood = probabilities(logits)[np.arange(len(labels)), labels]
    return np.asarray(-np.log(np.maximum(likelihood, SMALLEST)))


def _logit_entropies(logits: NDArray[Any], labels: Labels) -> RowLosses:
    """Return the binary cross-entropy of each row, from logits."""
    return entropies(sigmoid(logits), labels)


@singledispatch
def calibrated_losses(task: Task, logits: Logits, labels: Labels) -> RowLosses:
    """Return the loss of each row once the confidence of the model is corrected."""
    raise NotImplementedError(task.kind)


@calibrated_losses.register(Classification)
def _(_task: Classification, logits: Logits, labels: Labels) -> RowLosses:
    """Return the log losses of logits that are divided by the temperature that suits these rows best.

    The source is Guo et al. 2017, "On Calibration of Modern Neural Networks". A fine-tuned model is too
    sure of itself, which costs it a log loss that says nothing about its predictions.
    """
    return log_losses(logits / temperature_of(logits, labels, log_losses), labels)


@calibrated_losses.register(Multilabel)
def _(_task: Multilabel, logits: Logits, labels: Labels) -> RowLosses:
    """Return the losses of logits that are divided by the temperature that suits these rows best.

    The source is Guo et al. 2017, "On Calibration of Modern Neural Networks".
    """
    temperature = temperature_of(logits, labels, _logit_entropies)
    return _logit_entropies(logits / temperature, labels)


@calibrated_losses.register(Regression)
def _(_task: Regression, logits: Logits, labels: Labels) -> RowLosses:
    """Return the squared errors: a number has no confidence."""
    errors: RowLosses = logits[:, 0].astype(np.float64) - labels
    return np.asarray(np.square(errors))


@singledispatch
def uninformed_losses(task: Task, labels: Labels) -> RowLosses:
    """Return the loss of each row of the best predictions without the text."""
    raise NotImplementedError(task.kind)


@uninformed_losses.register(Classification)
def _(_task: Classification, labels: Labels) -> RowLosses:
    """Return the log losses of the class frequencies."""
    frequencies = np.bincount(labels) / len(labels)
    return np.asarray(-np.log(frequencies[labels]))


@uninformed_losses.register(Multilabel)
def _(_task: Multilabel, labels: Labels) -> RowLosses:
    """Return the losses of the frequencies of the labels."""
    frequencies = np.broadcast_to(labels.mean(axis=0), labels.shape)
    return entropies(frequencies, labels)


@uninformed_losses.register(Regression)
def _(task: Regression, labels: Labels) -> RowLosses:
    """Return the squared errors of the mean."""
    return calibrated_losses(task, np.full((len(labels), 1), labels.mean(), dtype=np.float32), labels)
