"""The log losses of a classifier, and the temperature that corrects its confidence."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.metrics.curves import probabilities

Losses = NDArray[np.float64]

LOG_TEMPERATURES = np.log(0.05), np.log(20.0)
"""Bounds of the logarithm of a temperature."""
SMALLEST = 1e-12
"""Smallest probability whose logarithm is taken."""


def best_temperature(
    logits: NDArray[np.float32],
    labels: NDArray[Any],
    losses: Callable[[NDArray[Any], NDArray[Any]], Losses],
) -> float:
    """Return the number by which logits are divided for the smallest mean of their ``losses``."""
    from scipy.optimize import minimize_scalar

    minimum = minimize_scalar(
        lambda log: losses(logits / np.exp(log), labels).mean(), bounds=LOG_TEMPERATURES, method="bounded"
    )
    return float(np.exp(minimum.x))


def log_losses(logits: NDArray[Any], labels: NDArray[np.int64]) -> Losses:
    """Return the log loss of each row, shape ``(rows,)``."""
    likelihood = probabilities(logits)[np.arange(len(labels)), labels]
    return np.asarray(-np.log(np.maximum(likelihood, SMALLEST)))
