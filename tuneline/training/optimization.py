"""A loss of the user, the metric that selects the best weights, optimizer and learning rate schedule."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer
from transformers import get_scheduler

from tuneline.core.params import TrainParams
from tuneline.core.params.section import FunctionName
from tuneline.core.params.train import ThresholdParams
from tuneline.judge.metrics.functions import (
    CustomMetric,
    ProjectFunction,
    example_labels,
    load_function,
    load_metric,
)
from tuneline.judge.metrics.predictions import Predictions
from tuneline.judge.metrics.stats import Estimate
from tuneline.judge.metrics.table import METRIC_TABLE
from tuneline.model.tasks import Task
from tuneline.model.tokens.tokenized_splits import TokenizedSplit
from tuneline.training.losses import balanced_weights, cross_fitted, decided, model_outputs

_ROWS = 6
"""Rows with which the function is tried."""
_TOLERANCE = 1e-4
"""Largest difference between the loss of an example in two batches that counts as rounding."""


def class_weights(params: TrainParams, split: TokenizedSplit) -> NDArray[np.float32] | None:
    """Return the weight of each class from ``train.class_weights``, shape ``(classes,)``.

    Classes that the parameter does not name weigh 1.
    """
    if params.class_weights is None:
        return None
    if params.class_weights == "balanced":
        return balanced_weights(split.task, split.labels)
    weights = [params.class_weights.get(name, 1.0) for name in split.task.output_names]
    return np.array(weights, dtype=np.float32)


def load_loss(params: TrainParams, labels: Task) -> ProjectFunction | None:
    """Import and check the function in ``train.loss``; ``None`` if the parameter is ``None``.

    The function gets logits, float32 of shape ``(examples, classes)``, and labels, int64 of shape
    ``(examples,)``. In a regression both are float32 of shape ``(examples,)``. It returns the loss of each
    example, of shape ``(examples,)``: the training loop weights them, shards them over processes and
    accumulates them over micro-batches.
    """
    if params.loss is None:
        return None
    function = load_function("train.loss", FunctionName.parse("train.loss", params.loss))

    # a generator of its own: trying a function must not move the random numbers of the run
    generator = torch.Generator().manual_seed(0)
    logits = model_outputs(labels, torch.randn((_ROWS, labels.outputs), generator=generator))
    examples = torch.from_numpy(example_labels(labels, _ROWS))
    losses = function(logits, examples)
    if not isinstance(losses, Tensor) or losses.shape != (_ROWS,):
        raise function.error(
            f"returns a {type(losses).__name__} of shape {tuple(getattr(losses, 'shape', ()))} for {_ROWS}"
            " examples.",
            f"Return the loss of each example, of shape ({_ROWS},), as torch.nn.functional does with"
            " reduction='none'.",
        )
    if not torch.allclose(function(logits[:2], examples[:2]), losses[:2], atol=_TOLERANCE):
        raise function.error(
            "gives an example another loss in a smaller batch.",
            "Compute the loss of each example on its own: how a batch is split into micro-batches must not"
            " change the model.",
        )
    return function


@dataclass(frozen=True)
class ValidationMetric:
    """The metric that selects the best weights: ``train.metric``.

    It is a metric of the table, or a function of the user (``custom``).
    """

    name: str
    greater_is_better: bool
    custom: CustomMetric | None = None
    thresholds: ThresholdParams = field(default_factory=ThresholdParams)
    """How the outputs of rows of validation become predictions, before they are scored."""

    @classmethod
    def load(cls, params: TrainParams, labels: Task) -> Self:
        """Look the metric up in the table, or import it."""
        if not FunctionName.matches(params.metric):
            greater_is_better = METRIC_TABLE[params.metric].greater_is_better
            return cls(params.metric, greater_is_better, thresholds=params.thresholds)
        custom = load_metric("train.metric", FunctionName.parse("train.metric", params.metric), labels)
        return cls(custom.name, custom.greater_is_better, custom, params.thresholds)

    def decided(self, predictions: Predictions) -> Task:
        """Return the task with the decisions that suit rows best."""
        return decided(predictions, self.thresholds)

    def measured(self, predictions: Predictions) -> Predictions:
        """Return predictions to measure by: no row is decided by thresholds that it has chosen."""
        return cross_fitted(predictions, self.thresholds)

    def scores(self, predictions: Predictions) -> Mapping[str, float]:
        """Return the metrics of rows by name: the metrics of their task, the loss, and this one."""
        metrics = predictions.scores()
        metrics["loss"] = predictions.loss()
        if self.custom is not None:
            metrics[self.name] = self.custom.compute(predictions.logits, predictions.labels)
        return metrics

    def interval(self, predictions: Predictions, seed: int) -> Estimate | None:
        """Return this metric with its interval; ``None`` without one, as a user's function."""
        if self.custom is not None or not METRIC_TABLE[self.name].resampled:
            return None
        return predictions.interval(METRIC_TABLE[self.name], seed)


def build_optimizer(model: nn.Module, params: TrainParams, device: torch.device) -> Optimizer:
    """Build AdamW over the trainable parameters.

    It uses the fused kernel where the device has one: on 2 CPU cores, with a vocabulary of 30,522 words, a
    step takes 5 ms instead of 45 ms.
    """
    groups = parameter_groups(model, params.weight_decay)
    # the default of "fused" would be the slower kernel, even where the device has the faster one
    fused = device.type in ("cpu", "cuda", "xpu", "mps", "hpu")
    return torch.optim.AdamW(groups, lr=params.learning_rate, fused=fused)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Return the optimizer's parameter groups that are not empty.

    Matrices have weight decay, vectors (biases, norms) have none.
    """
    matrices = []
    vectors = []
    for parameter in model.parameters():
        if not parameter.requires_grad:
            continue
        if parameter.ndim >= 2:
            matrices.append(parameter)
        else:
            vectors.append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def total_steps(params: TrainParams, steps_per_epoch: int) -> int:
    """Return the number of optimizer steps of the whole run."""
    if params.max_steps is not None:
        return params.max_steps
    return steps_per_epoch * (params.epochs or 0)


def build_schedule(optimizer: Optimizer, params: TrainParams, total: int) -> Any:
    """Build the learning rate schedule, which the training loop steps."""
    name = "constant_with_warmup" if params.schedule == "constant" else params.schedule
    return get_scheduler(name, optimizer, math.ceil(total * params.warmup_ratio), total)
