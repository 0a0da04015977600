"""How well a classifier's probabilities are calibrated."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

BINS = 15


def probabilities_of(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Softmax in float64, of shape ``[rows, classes]``."""
    probabilities: NDArray[np.float64] = special.softmax(logits.astype(np.float64), axis=1)
    return probabilities


def expected_calibration_error(logits: NDArray[np.float32], labels: NDArray[Any]) -> float:
    """Expected calibration error (Guo et al. 2017, equation 3): confidence against accuracy in 15 bins of equal width.

    Args:
        logits: Shape ``[rows, classes]``.
        labels: Class ids of shape ``[rows]``.
    """
    probabilities = probabilities_of(logits)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gaps = np.abs(np.bincount(bins, right, BINS) - np.bincount(bins, confidence, BINS))
    return float(gaps.sum() / len(labels))
