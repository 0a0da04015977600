"""Probabilities of outputs, computed in float64."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_EXPONENT = 709.782712893384
"""The largest number whose exponential is finite in float64."""
SMALLEST = 1e-12
"""Smallest probability whose logarithm is taken."""


def probabilities(logits: NDArray[np.float32], temperature: float = 1.0) -> NDArray[np.float64]:
    """Return the softmax of logits that are divided by a temperature; both of shape ``(rows, classes)``.

    A row with a logit that is NaN or infinite is NaN.
    """
    wide = finite_rows(logits)
    wide -= wide.max(axis=1, keepdims=True)  # so that exponentials of logits of any size are finite
    wide /= temperature
    exponentials = np.exp(wide)
    result: NDArray[np.float64] = exponentials / exponentials.sum(axis=1, keepdims=True)
    return result


def finite_rows(outputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return outputs of a model, ``(rows, outputs)``, NaN in a row in which one is NaN or infinite."""
    wide = outputs.astype(np.float64)
    wide[~np.isfinite(wide).all(axis=1)] = np.nan
    return wide


def sigmoid(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the probability of each logit, of the same shape: ``1 / (1 + exp(-logit))``.

    The exponentials are those of the C library, as in ``scipy.special.expit``, to the last bit. NumPy's own
    differ in the last bit, and by the instructions of the processor.
    """
    exponents = -logits.astype(np.float64)
    values = np.minimum(exponents, LARGEST_EXPONENT).ravel().data  # without a list of Python's numbers
    powers = np.fromiter(map(math.exp, values), np.float64, exponents.size).reshape(exponents.shape)
    return np.where(exponents > LARGEST_EXPONENT, 0.0, 1 / (1 + powers))


def likelihoods(probability: NDArray[np.float64], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probability that each decision is as in ``labels``; all of shape ``(rows, labels)``."""
    return np.where(labels == 1, probability, 1 - probability)


def entropies(probability: NDArray[np.float64], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the binary cross-entropy of each row, ``(rows,)``: the mean over its labels."""
    likelihood = likelihoods(probability, labels)
    return np.asarray(-np.log(np.maximum(likelihood, SMALLEST)).mean(axis=1))
