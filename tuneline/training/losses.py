"""The loss of each example, and what else of a training depends on the kind of task."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tuneline.core.params import TrainParams
from tuneline.core.params.section import FunctionName
from tuneline.core.params.train import ThresholdParams
from tuneline.core.runtime.errors import ParamsError
from tuneline.judge.metrics.functions import ProjectFunction
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.scores import task_metrics
from tuneline.model.linear.thresholds import choose_thresholds, divisions
from tuneline.model.tasks import Multilabel, Task
from tuneline.model.tasks.probabilities import SMALLEST
from tuneline.model.tasks.task import Labels


@dataclass(frozen=True)
class Loss:
    """The loss of the task, or a function of the user, per example.

    ``label_smoothing`` is the share of the target spread over all classes (Szegedy et al. 2016, "Rethinking
    the Inception Architecture for Computer Vision", section 7). Class weights have the shape ``(classes,)``;
    ``None`` for 1 each. A row has the weight of its own class: torch's ``weight`` weighs each part of a
    smoothed target, so sure rows would seem to be rare ones.
    """

    task: Task
    label_smoothing: float = 0.0
    class_weights: NDArray[np.float32] | None = None
    function: ProjectFunction | None = None

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
    names = [metric.name for metric in task_metrics(task) if metric.validated]
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
