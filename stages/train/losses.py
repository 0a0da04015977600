"""The loss of each example, and how much each counts in its group."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tuneline.batches import TokenizedSplit
from tuneline.params import TrainParams


@dataclass(frozen=True)
class Loss:
    """Cross-entropy for classes, squared error for numbers, per example.

    Attributes:
        regression: Whether labels are numbers.
        label_smoothing: Share of the target spread over all classes (Szegedy et al. 2016, section 7).
        class_weights: Weight of each class, shape ``[classes]``; ``None`` for 1 each.
    """

    regression: bool
    label_smoothing: float = 0.0
    class_weights: NDArray[np.float32] | None = None

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Weighted loss of each example, float32 of shape ``[batch]``, also where the forward pass ran in half precision."""
        if self.regression:
            return functional.mse_loss(logits.float().squeeze(-1), labels, reduction="none")
        weight = None if self.class_weights is None else torch.as_tensor(self.class_weights, device=logits.device)
        return functional.cross_entropy(logits.float(), labels, weight, reduction="none", label_smoothing=self.label_smoothing)

    def total_weight(self, labels: NDArray[np.int64] | NDArray[np.float32]) -> float:
        """What the sum of the losses of these examples is divided by: their number, or the sum of their classes' weights."""
        return float(len(labels) if self.class_weights is None else self.class_weights[labels.astype(np.int64)].sum(dtype=np.float64))


def class_weights(params: TrainParams, split: TokenizedSplit) -> NDArray[np.float32] | None:
    """The weight of each class as ``train.class_weights`` says; a class it does not name weighs 1."""
    if params.class_weights is None:
        return None
    if params.class_weights == "balanced":
        return balanced_weights(split)
    return np.array([params.class_weights.get(name, 1.0) for name in split.label_schema.names or ()], dtype=np.float32)


def balanced_weights(split: TokenizedSplit) -> NDArray[np.float32]:
    """Rows / (classes x rows of the class), so that each class weighs the same in all (King & Zeng 2001)."""
    counts = np.bincount(split.labels.astype(np.int64), minlength=split.label_schema.outputs)
    return (len(split) / (split.label_schema.outputs * np.maximum(counts, 1))).astype(np.float32)
