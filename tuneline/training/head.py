"""The head of a checkpoint: its classes are matched with those of the data, its outputs with the labels."""

import contextlib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

from tuneline.core.runtime.terminal import say
from tuneline.model.linear.pooled_classifier import PooledClassifier, TrainedModel
from tuneline.model.tasks import Task
from tuneline.model.tasks.task import Labels, Logits

HeadStart = Literal["kept", "moved", "drawn"]
"""Whether a loaded head stays as it is, has its rows in another order, or is drawn at random."""
HEAD_NOTES: Mapping[HeadStart, str] = {
    "kept": "",
    "moved": "; its head has the same classes in another order: its rows were moved to theirs",
    "drawn": " (the checkpoint's head is of other classes)",
}


def match_head(model: PreTrainedModel, stored: Sequence[str], labels: Task) -> HeadStart:
    """Give each class the row of the loaded head that was trained for it, and return what was done.

    A checkpoint with as many classes loads without an error, whatever they are. ``stored`` has their names,
    by row. Where these are the names of the data in another order, rows are moved; where they are others, the
    head starts anew: a row of another class would have to be unlearned first. The head of a regression has
    one row, and stays.
    """
    if not labels.has_classes:
        return "kept"
    stored_names = compared_names(stored)
    names = compared_names(labels.output_names)
    if stored_names == names:
        return "kept"

    # other classes
    if set(stored_names) != set(names):
        draw_head(model)
        return "drawn"

    # the same classes in another order
    weights = dict(model.named_parameters())
    rows = torch.tensor([stored_names.index(name) for name in names])
    with torch.no_grad():
        for name in output_weights(model):
            weights[name].copy_(weights[name][rows])
    return "moved"


def compared_names(names: Sequence[Any]) -> list[str]:
    """Return names of classes without what a file may write in another way: case, and marks between words.

    A number is the same in text (``0``, ``"0"``, ``0.0``). Where names would become equal, they stay as they
    are.
    """
    compared = []
    for name in names:
        text = re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", str(name).strip().casefold())
        with contextlib.suppress(ValueError):
            text = f"{float(text):.15g}"
        compared.append(text)
    if len(set(compared)) < len(compared):
        return [str(name) for name in names]
    return compared


def draw_head(model: PreTrainedModel) -> None:
    """Draw the output layer at random, as transformers does for a new model."""
    name = _output_layer(model)
    if name is None:
        return
    layer = model.get_submodule(name)
    for parameter in layer.parameters():
        vars(parameter).pop("_is_hf_initialized", None)  # else transformers leaves what was loaded
    model._init_weights(layer)  # type: ignore[no-untyped-call]


def has_loaded_head(model: PreTrainedModel, drawn: frozenset[str]) -> bool:
    """Return True if the checkpoint has given the output layer."""
    weights = output_weights(model)
    return bool(weights) and drawn.isdisjoint(weights)


def replace_foreign_head(
    model: PreTrainedModel, task: Task, logits: Logits, labels: Labels
) -> frozenset[str]:
    """Draw a loaded head anew if it does not mean the labels, and print why.

    The names of its classes may be permuted, or its number may have another unit than the targets.

    Args:
        model: The model, before its first step.
        task: What it is to learn.
        logits: Its outputs for some rows of train, ``(rows, outputs)``.
        labels: Their labels.

    Returns:
        The names of the weights that are new.
    """
    outputs = logits.astype(np.float64)
    follows = follows_labels(task, outputs, labels)
    place = f"train: on {len(labels)} rows of train, the checkpoint's head"
    if task.has_classes:
        if follows:
            return frozenset()
        right = int((~task.errors(task.predictions(logits), labels)).sum())
        say(f"{place} does not follow the names of its classes ({right} right): it starts anew")
    else:
        if follows and np.square(outputs[:, 0] - labels).mean() <= labels.var(dtype=np.float64):
            return frozenset()
        say(f"{place} does not follow the labels, or has another unit: it starts anew")
    draw_head(model)
    return frozenset(output_weights(model))


def follows_labels(task: Task, outputs: NDArray[np.float64], labels: Labels) -> bool:
    """Return True if outputs are high in the rows whose label they stand for, not in those of another label.

    The measure is the covariance of outputs (of one class per row, of the highest one) and labels, so neither
    a bias of an output matters, nor how frequent a label is. If the outputs in another order have more than
    twice as much of it, their names are not these labels. NaN is False.

    Args:
        task: What is predicted.
        outputs: Outputs for rows, ``(rows, outputs)``.
        labels: Labels of the rows.
    """
    from scipy.optimize import linear_sum_assignment

    if not np.isfinite(outputs).all():
        return False
    centered = outputs - outputs.mean(axis=0)
    if task.one_class:
        targets = np.eye(task.outputs)[labels]
        centered = np.eye(task.outputs)[centered.argmax(axis=1)]
    else:
        targets = labels.astype(np.float64).reshape(outputs.shape)
    covariances = centered.T @ (targets - targets.mean(axis=0))
    best_order = linear_sum_assignment(covariances, maximize=True)
    return bool(2 * covariances.trace() >= covariances[best_order].sum())


def output_weights(model: TrainedModel) -> list[str]:
    """Return the names of the weight and bias of the output layer; an empty list without one."""
    name = _output_layer(model)
    if name is None:
        return []
    return [f"{name}.{part}" for part, _ in model.get_submodule(name).named_parameters()]


def _output_layer(model: TrainedModel) -> str | None:
    """Return the name of the last linear layer behind the body with as many rows as the model has outputs."""
    body = f"{model.base_model_prefix}."
    output_layer = None
    for name, module in model.named_modules():
        if not isinstance(module, nn.Linear) or name.startswith(body):
            continue
        if module.out_features == model.config.num_labels:
            output_layer = name
    return output_layer


def start_head(model: PreTrainedModel, drawn: Collection[str], bias: NDArray[np.float32]) -> None:
    """Set the bias of the output layer, shape ``(outputs,)``, if the layer was drawn and has one."""
    head = _output_layer(model)
    if head is None or f"{head}.bias" not in drawn:
        return
    with torch.no_grad():
        model.get_parameter(f"{head}.bias").copy_(torch.from_numpy(bias))


@dataclass(frozen=True)
class TargetScale:
    """Mean and standard deviation of the training targets, applied to the output of the layer ``head``.

    The deviation is 1 if all targets are equal.
    """

    head: str
    mean: float
    deviation: float
    hook: RemovableHandle

    @classmethod
    def apply(cls, model: TrainedModel, new: Collection[str], targets: NDArray[Any]) -> Self | None:
        """Let a regression model predict in the unit of its targets, if its head is new and has a bias.

        A head that was loaded predicts in its own unit already. That of the linear model predicts in the unit
        of the targets: it is divided by the scale, or the learning rate would fit one unit only.

        Args:
            model: The model, before its first step.
            new: Names of its new weights.
            targets: Labels of the train split, shape ``(rows,)``.
        """
        head = _output_layer(model)
        if head is None or f"{head}.bias" not in new:
            return None
        # in two passes: the difference of large sums would lose the deviation of targets far from 0
        values = targets.astype(np.float64)
        mean = float(values.sum()) / len(values)
        deviation = math.sqrt(float(((values - mean) ** 2).sum()) / len(values)) or 1.0

        def restore(_: nn.Module, __: Any, output: Tensor) -> Tensor:
            return output.float() * deviation + mean

        layer = model.get_submodule(head)
        if isinstance(model, PooledClassifier):
            with torch.no_grad():
                model.head.weight.div_(deviation)
                model.head.bias.sub_(mean).div_(deviation)
        return cls(head, mean, deviation, layer.register_forward_hook(restore))

    def fold(self, weights: dict[str, Tensor]) -> None:
        """Make the scale part of trained weights, and remove the hook."""
        self.hook.remove()
        weight = f"{self.head}.weight"
        bias = f"{self.head}.bias"
        # new tensors: the weights in the model stay as they were trained
        weights[weight] = weights[weight].float() * self.deviation
        weights[bias] = weights[bias].float() * self.deviation + self.mean
