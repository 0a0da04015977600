"""How well a model knows what it knows: its loss once its confidence is corrected by one number, the temperature."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.metrics.curves import probabilities

Losses = NDArray[np.float64]

LOG_TEMPERATURES = np.log(0.05), np.log(20.0)
"""Bounds of the logarithm of a temperature."""
SMALLEST = 1e-12
"""Smallest probability whose logarithm is taken."""


def calibrated_losses(logits: NDArray[np.float32], labels: NDArray[Any], is_regression: bool) -> Losses:
    """Return the loss of each row, shape ``(rows,)``: of a regression the squared error, of a classifier the log loss.

    A classifier's logits are divided by the temperature that suits these rows best (Guo et al. 2017, "On Calibration of Modern Neural
    Networks"). A fine-tuned model is too sure of itself, which costs it a log loss that says nothing about its predictions.

    Args:
        logits: Of shape ``(rows, outputs)``.
        labels: Class ids or numbers, of shape ``(rows,)``.
        is_regression: True if the labels are numbers.
    """
    if is_regression:
        errors: Losses = logits[:, 0].astype(np.float64) - labels
        return np.square(errors)
    return _log_losses(logits / best_temperature(logits, labels), labels)


def uninformed_losses(labels: NDArray[Any], is_regression: bool) -> Losses:
    """Return the loss of each row, shape ``(rows,)``, of the best predictions without the text: the mean, or the class frequencies."""
    if is_regression:
        return calibrated_losses(np.full((len(labels), 1), labels.mean(), dtype=np.float32), labels, is_regression)
    frequencies = np.bincount(labels) / len(labels)
    return np.asarray(-np.log(frequencies[labels]))


def best_temperature(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Return the number by which logits are divided for the smallest log loss."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(lambda log: _log_losses(logits / np.exp(log), labels).mean(), bounds=LOG_TEMPERATURES, method="bounded")
    return float(np.exp(found.x))


def _log_losses(logits: NDArray[Any], labels: NDArray[np.int64]) -> Losses:
    likelihood = probabilities(logits)[np.arange(len(labels)), labels]
    return np.asarray(-np.log(np.maximum(likelihood, SMALLEST)))
