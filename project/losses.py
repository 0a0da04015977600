"""Losses for train.loss.

Each returns the loss of each example; the training loop weights, sums and accumulates them.
"""

import torch
from torch import Tensor
from torch.nn import functional


def focal(logits: Tensor, labels: Tensor, gamma: float = 2.0) -> Tensor:
    """Return the focal loss, -(1 - p)^gamma log(p), with p the probability of the right class.

    Easy examples count less than with cross-entropy.

    Source: Lin, Goyal, Girshick, He & Dollár, "Focal Loss for Dense Object Detection", ICCV 2017, equation 4.
    The alpha of its equation 5 is train.class_weights.

    Args:
        logits: Shape (examples, classes), float32.
        labels: Class ids of shape (examples,).
        gamma: 0 gives cross-entropy.

    Returns:
        Loss of each example, shape (examples,).
    """
    log_p = -functional.cross_entropy(logits, labels, reduction="none")
    one_minus_p = -torch.expm1(log_p)
    # At 0, the power has an infinite gradient if gamma is below 1.
    return -(one_minus_p.clamp(min=1e-6) ** gamma) * log_p


def huber(predictions: Tensor, labels: Tensor, delta: float = 1.0) -> Tensor:
    """Return Huber's loss of a regression, which is linear for errors above delta.

    Outliers count less than in squared error.

    Source: Huber, "Robust Estimation of a Location Parameter", Annals of Mathematical Statistics 35, 1964.

    Args:
        predictions: Shape (examples,), float32.
        labels: Numbers of the same shape.
        delta: Error from which the loss is linear.

    Returns:
        Loss of each example, shape (examples,).
    """
    return functional.huber_loss(predictions, labels, reduction="none", delta=delta)
