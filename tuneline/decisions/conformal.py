"""The interval around a predicted number that a new row's number is in as often as promised: split conformal.

The source is Lei et al. 2018, "Distribution-Free Predictive Inference for Regression", algorithm 2: of ``n``
rows that neither training nor validation has seen, the ``ceil((n + 1) * level)``-th smallest absolute error
is half the width. A new row of the same kind lies within it with a probability of at least ``level``.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.tasks.regression import INTERVAL_LEVEL


def half_width(
    predictions: NDArray[Any], labels: NDArray[Any], level: float = INTERVAL_LEVEL
) -> float | None:
    """Return half the width of the interval; ``None`` if there are too few rows for the level.

    Args:
        predictions: Predicted numbers of independent rows, ``(rows,)``.
        labels: Their labels.
        level: Share of new rows that the interval holds.
    """
    errors = np.sort(np.abs(predictions.astype(np.float64) - labels))
    rank = math.ceil((len(errors) + 1) * level)
    if rank > len(errors):
        return None
    return float(errors[rank - 1])
