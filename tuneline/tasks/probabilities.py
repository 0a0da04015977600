"""Probabilities of outputs, computed in float64."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST = 1e-12
"""Smallest probability whose logarithm is taken."""


def probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the softmax of logits; both of shape ``(rows, classes)``."""
    wide = logits.astype(np.float64)
    exponentials = np.exp(wide - wide.max(axis=1, keepdims=True))  # finite for logits of any size
    result: NDArray[np.float64] = exponentials / exponentials.sum(axis=1, keepdims=True)
    return result


def sigmoid(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the probability of each logit, of the same shape."""
    from scipy.special import expit

    return np.asarray(expit(logits.astype(np.float64)))


def likelihoods(probability: NDArray[np.float64], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the probability that each decision is as in ``labels``; all of shape ``(rows, labels)``."""
    return np.where(labels == 1, probability, 1 - probability)


def entropies(probability: NDArray[np.float64], labels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the binary cross-entropy of each row, ``(rows,)``: the mean over its labels."""
    likelihood = likelihoods(probability, labels)
    return np.asarray(-np.log(np.maximum(likelihood, SMALLEST)).mean(axis=1))
