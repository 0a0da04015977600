"""When two predicted numbers agree."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
