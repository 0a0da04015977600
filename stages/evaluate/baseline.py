"""What a model must beat: the answer that looks at no text."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuneline.files.schemas import LabelSchema
from tuneline.metrics import Averaging, classification_metrics


def baseline_metrics(train: NDArray[Any], labels: NDArray[Any], label_schema: LabelSchema, average: Averaging) -> dict[str, float]:
    """Scores of always giving the most frequent class of the train split, or its mean.

    Args:
        train: LabelSchema of the train split.
        labels: LabelSchema of the reported split.
        label_schema: What they mean.
        average: How F1 is averaged.

    Returns:
        ``majority_accuracy`` and ``majority_f1``; for a regression ``mean_mse`` (its correlations are undefined).
    """
    if label_schema.is_regression:
        return {"mean_mse": float(np.mean((labels.astype(np.float64) - train.astype(np.float64).mean()) ** 2))}
    majority = np.full_like(labels, np.bincount(train, minlength=label_schema.outputs).argmax())
    scores = classification_metrics(labels, majority, average)
    return {f"majority_{name}": scores[name] for name in ("accuracy", "f1")}
