"""Metrics for evaluate.metrics and train.metric.

Each gets NumPy arrays of a whole split and returns one number.
"""

import numpy as np
from numpy.typing import NDArray

UNNOTICED = 5.0
"""Cost of an example of class 0 that is predicted as another class; every other error costs 1.

Replace it with your own costs.
"""


def balanced_accuracy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Return the mean of the recalls of the classes, so that a rare class counts as much as a frequent one.

    Source: Brodersen et al., "The Balanced Accuracy and Its Posterior Distribution", ICPR 2010. Classes
    without a label are left out.

    Args:
        logits: Shape (rows, classes).
        labels: Class ids of shape (rows,).
    """
    right = logits.argmax(axis=1) == labels
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


def cost(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    """Return the mean cost of a prediction, if overlooking class 0 is worse than any other error.

    Args:
        logits: Shape (rows, classes).
        labels: Class ids of shape (rows,).
    """
    wrong = logits.argmax(axis=1) != labels
    return float(np.mean(wrong * np.where(labels == 0, UNNOTICED, 1.0)))


cost.greater_is_better = False
