"""The loss of each example and of pairs of them, and what else of a training depends on the kind of task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tuneline.core.params import TrainParams
from tuneline.core.params.section import FunctionName
from tuneline.core.params.train import ThresholdParams
from tuneline.core.runtime.errors import ParamsError
from tuneline.core.stage.arrays import RowNumbers
from tuneline.judge.metrics.functions import ProjectFunction
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.table import metrics_for
from tuneline.model.linear.thresholds import choose_thresholds, divisions
from tuneline.model.tasks import Multilabel, Task
from tuneline.model.tasks.probabilities import SMALLEST
from tuneline.model.tasks.task import Labels

TEMPERATURE = 0.07
"""Divisor of the cosines in the contrastive loss, that of Khosla et al."""


@dataclass(frozen=True)
class Loss:
    """The loss of the task, or a function of the user, per example.

    ``label_smoothing`` is the share of the target spread over all classes (Szegedy et al. 2016, "Rethinking
    the Inception Architecture for Computer Vision", section 7). ``contrastive`` is the share of the loss of
    pairs in that of a batch (``contrastive_loss``). Class weights have the shape ``(classes,)``;
    ``None`` for 1 each. A row has the weight of its own class: torch's ``weight`` weighs each part of a
    smoothed target, so sure rows would seem to be rare ones.
    """

    task: Task
    label_smoothing: float = 0.0
    class_weights: NDArray[np.float32] | None = None
    function: ProjectFunction | None = None
    contrastive: float = 0.0

    def per_example(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the weighted loss of each example, float32 of shape ``(examples,)``.

        Args:
            logits: Shape ``(examples, outputs)``, in float32 or half precision.
            labels: Shape ``(examples, *Task.label_shape)``: int64 classes, float32 targets, or what another
                kind of task has.
        """
        outputs = model_outputs(self.task, logits)
        weight = None
        if self.class_weights is not None:
            weight = torch.as_tensor(self.class_weights, device=logits.device)

        losses: Tensor
        if self.function is not None:
            losses = self.function(outputs, labels).float()
        elif not self.task.has_classes:
            losses = functional.mse_loss(outputs, labels, reduction="none")
        elif self.task.label_shape:
            # the mean over the labels; smoothing moves each target by half its share towards 0.5
            targets = labels.float() * (1 - self.label_smoothing) + self.label_smoothing / 2
            losses = functional.binary_cross_entropy_with_logits(outputs, targets, reduction="none")
            if weight is not None:
                losses = torch.where(labels == 1, losses * weight, losses)
            return losses.mean(dim=1)
        else:
            losses = functional.cross_entropy(
                outputs, labels, reduction="none", label_smoothing=self.label_smoothing
            )
        return losses if weight is None else losses * weight[labels]

    def total_weight(self, labels: Labels) -> float:
        """Return the divisor of the summed losses: the number of examples, or their summed class weights."""
        if self.class_weights is None or self.task.label_shape:
            return float(len(labels))
        return float(self.class_weights[labels.astype(np.int64)].sum(dtype=np.float64))


def contrastive_loss(vectors: Tensor, labels: Tensor) -> Tensor:
    """Return the supervised contrastive loss: vectors of a class become more alike than those of others.

    A linear model on the frozen vectors has few rows by heart, and a training that begins with it finds
    little left to learn from them. Their pairs are many more examples. The loss is the mean of the rows of a
    batch that share their class with another one; 0 without any. Sources: Khosla et al. 2020, "Supervised
    Contrastive Learning", arXiv:2004.11362, equation 2; beside cross-entropy: Gunel et al. 2021, "Supervised
    Contrastive Learning for Pre-trained Language Model Fine-tuning", arXiv:2011.01403.

    Args:
        vectors: Shape ``(rows, width)``, in float32 or half precision.
        labels: Classes, int64 of shape ``(rows,)``.
    """
    directions = functional.normalize(vectors.float(), dim=1)
    similarities = directions @ directions.T / TEMPERATURE
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    lowest = torch.finfo(similarities.dtype).min
    others = similarities.masked_fill(itself, lowest).logsumexp(dim=1, keepdim=True)

    is_partner = (labels[:, None] == labels) & ~itself
    partners = is_partner.sum(dim=1)
    losses = ((others - similarities) * is_partner).sum(dim=1) / partners.clamp(min=1)
    return losses.sum() / (partners > 0).sum().clamp(min=1)


@dataclass(frozen=True)
class DividedContrast:
    """The contrastive loss of a batch that is divided into micro-batches or processes.

    Rows of a pair may be in two of them, so the loss and its gradient for each vector are computed before the
    step. Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup",
    arXiv:2101.06983.

    Attributes:
        loss: The loss of the whole batch.
        gradient: Its gradient for the vectors, ``(rows, width)``.
        places: The place of each row in the gradient, by its number.
    """

    loss: Tensor
    gradient: Tensor
    places: Mapping[int, int]

    @classmethod
    def of(cls, rows: RowNumbers, vectors: Tensor, labels: Tensor) -> Self:
        """Compute loss and gradient of the vectors of all rows of the batch, ``(rows, width)``."""
        leaves = vectors.detach().requires_grad_()
        loss = contrastive_loss(leaves, labels)
        (gradient,) = torch.autograd.grad(loss, leaves)
        return cls(loss.detach(), gradient, {row: place for place, row in enumerate(rows.tolist())})

    def share(self, vectors: Tensor, rows: RowNumbers) -> Tensor:
        """Return the share of some rows, with their gradient; all shares add up to the loss."""
        places = [self.places[row] for row in rows.tolist()]
        directed = (vectors.float() * self.gradient[places]).sum()
        return directed - directed.detach() + self.loss * len(rows) / len(self.places)


def model_outputs(task: Task, logits: Tensor) -> Tensor:
    """Return what a loss takes: logits in float32, ``(rows, outputs)``, or ``(rows,)`` in a regression."""
    if not task.has_classes:
        return logits.float().squeeze(-1)
    return logits.float()


def balanced_weights(task: Task, labels: Labels) -> NDArray[np.float32]:
    """Return the weights with which all classes have the same total weight, shape ``(classes,)``.

    They are rows / (classes x rows of the class) (King & Zeng 2001, "Logistic Regression in Rare Events
    Data"); with several labels per row, the rows without each label by the rows with it. A label without rows
    weighs 1.
    """
    if task.label_shape:
        rows = (labels == 1).sum(axis=0)
        weights = np.where(rows > 0, (len(labels) - rows) / np.maximum(rows, 1), 1.0)
        return np.maximum(weights, SMALLEST).astype(np.float32)
    counts = np.bincount(labels.astype(np.int64, copy=False), minlength=task.outputs)
    weights = len(labels) / (task.outputs * np.maximum(counts, 1))
    return weights.astype(np.float32)


def new_bias(
    task: Task, labels: Labels, class_weights: NDArray[np.float32] | None
) -> NDArray[np.float32] | None:
    """Return the bias of a new head on a checkpoint, shape ``(outputs,)``; ``None`` to leave it at 0.

    With several labels per row, it is the log odds of each label in train. With a bias of 0, the first epochs
    teach the model nothing but that most labels are rare (Lin et al. 2017, "Focal Loss for Dense Object
    Detection", section 4.1): on 2,798 package descriptions with 25 labels, 6 epochs of MiniLM gave a macro F1
    of 0.455 on validation with it, and 0.263 without.
    """
    if not task.label_shape:
        return None
    with_label = (labels == 1).sum(axis=0) + 0.5
    without = (labels == 0).sum(axis=0) + 0.5
    odds = with_label / without
    if class_weights is not None:
        odds = odds * class_weights
    return np.asarray(np.log(odds), np.float32)


def check_metric(params: TrainParams, task: Task) -> None:
    """Check that the metric fits the labels.

    Raises:
        ParamsError: It does not.
    """
    names = [metric.name for metric in metrics_for(task.judged_as) if metric.validated]
    if params.metric not in names and not FunctionName.matches(params.metric):
        raise ParamsError(
            f"train.metric: {params.metric!r} is not a metric of {task.kind}.",
            f"Choose one of {', '.join(names)}, or write project/FILE.py:FUNCTION.",
        )


def decided(predictions: Predictions, rule: ThresholdParams) -> Task:
    """Return the task with the decisions, such as thresholds, that suit rows of validation best."""
    task = predictions.task
    if not isinstance(task, Multilabel):
        return task
    thresholds = choose_thresholds(predictions.logits.astype(np.float64), predictions.labels == 1, rule)
    return replace(task, thresholds=tuple(thresholds.tolist()), at_least_one=rule.at_least_one)


def cross_fitted(predictions: Predictions, rule: ThresholdParams) -> Predictions:
    """Return predictions of rows of validation, each decided as the rows in other folds have chosen."""
    values = np.empty_like(predictions.values)
    for held_out, others in divisions(len(predictions)):
        chosen = decided(predictions.take(others), rule)
        values[held_out] = chosen.predictions(predictions.logits[held_out])
    return replace(predictions, values=values)
