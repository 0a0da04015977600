"""The loss of each row, and what a row weighs, by kind of task."""

from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tuneline.runtime.errors import ParamsError
from tuneline.tasks import Classification, Multilabel, Regression, Task
from tuneline.tasks.named_classes import NamedClasses
from tuneline.tasks.probabilities import SMALLEST
from tuneline.tasks.task import Labels

if TYPE_CHECKING:
    from torch import Tensor


@singledispatch
def balanced_weights(task: Task, labels: Labels) -> NDArray[np.float32]:
    """Return rows / (classes x rows of the class), shape ``(classes,)``.

    It gives every class the same total weight (King & Zeng 2001).
    """
    counts = np.bincount(labels.astype(np.int64, copy=False), minlength=task.outputs)
    weights = len(labels) / (task.outputs * np.maximum(counts, 1))
    return weights.astype(np.float32)


@balanced_weights.register(Multilabel)
def _(_task: Multilabel, labels: Labels) -> NDArray[np.float32]:
    """Return the rows without each label by the rows with it, shape ``(labels,)``.

    So both kinds of rows have the same total weight. A label without rows weighs 1.
    """
    rows = (labels == 1).sum(axis=0)
    weights = np.where(rows > 0, (len(labels) - rows) / np.maximum(rows, 1), 1.0)
    return np.maximum(weights, SMALLEST).astype(np.float32)


@singledispatch
def total_weight(_task: Task, labels: Labels, class_weights: NDArray[np.float32]) -> float:
    """Return the divisor of the summed losses of rows with these weights of classes."""
    return float(class_weights[labels.astype(np.int64)].sum(dtype=np.float64))


@total_weight.register(Multilabel)
def _(_task: Multilabel, labels: Labels, _class_weights: NDArray[np.float32]) -> float:
    """Return the number of rows: a weight is of the label of a row, not of the row."""
    return float(len(labels))


@singledispatch
def weighted(_task: Task, losses: "Tensor", labels: "Tensor", weight: "Tensor") -> "Tensor":
    """Return the losses of a function of the user, ``(rows,)``, with the weights of classes.

    Raises:
        ParamsError: The weights are not of rows.
    """
    return losses * weight[labels]


@weighted.register(Multilabel)
def _(_task: Multilabel, _losses: "Tensor", _labels: "Tensor", _weight: "Tensor") -> "Tensor":
    """Refuse weights: a function of the user returns the loss of all labels of a row together."""
    raise ParamsError(
        "train.class_weights: with several labels per row, a loss of your own cannot be weighted.",
        "Set it to null, and weight the labels in the function.",
    )


@singledispatch
def model_outputs(task: Task, logits: "Tensor") -> "Tensor":
    """Return what a loss takes: logits in float32.

    The shape is ``(rows,)`` where there is one output, else ``(rows, outputs)``.
    """
    raise NotImplementedError(task.kind)


@model_outputs.register(NamedClasses)
def _(_task: NamedClasses, logits: "Tensor") -> "Tensor":
    """Return the logits."""
    return logits.float()


@model_outputs.register(Regression)
def _(_task: Regression, logits: "Tensor") -> "Tensor":
    """Return the only output of each row."""
    return logits.float().squeeze(-1)


@singledispatch
def row_losses(
    task: Task, outputs: "Tensor", labels: "Tensor", weight: "Tensor | None", label_smoothing: float
) -> "Tensor":
    """Return the loss of each row, ``(rows,)``.

    Args:
        task: The kind of task.
        outputs: Logits as ``model_outputs`` returns them.
        labels: Labels, shape ``(rows,)``.
        weight: Weight of each class.
        label_smoothing: As ``train.label_smoothing``.
    """
    raise NotImplementedError(task.kind)


@row_losses.register(Classification)
def _(
    _task: Classification,
    outputs: "Tensor",
    labels: "Tensor",
    weight: "Tensor | None",
    label_smoothing: float,
) -> "Tensor":
    """Return the cross-entropy, with a share of the target spread over all classes (Szegedy et al.

    2016, section 7).
    """
    from torch.nn import functional

    return functional.cross_entropy(
        outputs, labels, weight, reduction="none", label_smoothing=label_smoothing
    )


@row_losses.register(Multilabel)
def _(
    _task: Multilabel, outputs: "Tensor", labels: "Tensor", weight: "Tensor | None", label_smoothing: float
) -> "Tensor":
    """Return the binary cross-entropy, mean over the labels.

    ``weight`` multiplies the loss of the labels that a row has. Smoothing moves each target by half its
    share towards 0.5.
    """
    from torch.nn import functional

    targets = labels.float() * (1 - label_smoothing) + label_smoothing / 2
    entropies = functional.binary_cross_entropy_with_logits(
        outputs, targets, pos_weight=weight, reduction="none"
    )
    return entropies.mean(dim=1)


@row_losses.register(Regression)
def _(
    _task: Regression,
    outputs: "Tensor",
    labels: "Tensor",
    _weight: "Tensor | None",
    _label_smoothing: float,
) -> "Tensor":
    """Return the squared error."""
    from torch.nn import functional

    return functional.mse_loss(outputs, labels, reduction="none")
