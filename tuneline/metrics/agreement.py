"""Whether two models predict the same."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.core.tables import LabelSchema
from tuneline.metrics.scores import predictions_of

LEAST_CLOSE = 1e-3
"""Difference that agrees in any case, in standard deviations of the labels: a trained model without any error still rounds."""


def agreeing_rows(
    reference: NDArray[np.float32],
    logits: NDArray[np.float32],
    labels: NDArray[Any],
    label_schema: LabelSchema,
    close_rmse: float,
) -> NDArray[np.bool_]:
    """Return for each row whether the prediction of ``logits`` agrees with that of ``reference``, the trained model's logits.

    Both have the shape ``(rows, outputs)``. Classes agree if they are the same, numbers if their difference is at most
    ``agreeing_difference``.
    """
    expected = predictions_of(reference, label_schema)
    predicted = predictions_of(logits, label_schema)
    if not label_schema.is_regression:
        return np.asarray(expected == predicted)
    difference = np.abs(expected.astype(np.float64) - predicted)
    return np.asarray(difference <= agreeing_difference(expected, labels, close_rmse))


def agreeing_difference(predictions: NDArray[np.float32], labels: NDArray[Any], close_rmse: float) -> float:
    """Return the largest difference of two predictions of a regression that agree: ``close_rmse`` root mean squared errors of the model.

    The error of the trained model says how exact a prediction can be meant. If all predictions differed by this much, and at random, the
    error would be ``sqrt(1 + close_rmse**2)`` times as large: 3 % larger with 0.25. A part of the labels' deviation, the usual choice,
    says nothing of this: it is strict for a model with a large error, and lenient for an exact one.
    """
    rmse = float(np.sqrt(np.mean((predictions.astype(np.float64) - labels) ** 2)))
    return max(close_rmse * rmse, LEAST_CLOSE * float(labels.std()))
