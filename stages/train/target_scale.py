"""Scale of regression targets: a newly drawn head learns standardised targets, and predicts in the unit of the targets all the same.

A head that is drawn at random predicts values around 0 and changes by about one learning rate in each step: from there, targets around
3,000 are thousands of steps away. With mean and standard deviation in a forward hook of its last layer, the head has only to learn what
differs between the rows. Loss, metrics and curves are in the unit of the targets, as everything behind the hook is. When the model is
published, the two numbers become part of the layer's weights, so nothing that loads the model knows of them.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import PreTrainedModel

_PART = 1_000_000
"""Targets that are copied at a time."""


@dataclass(frozen=True)
class TargetScale:
    """Mean and standard deviation of the training targets, applied to the output of a head.

    Attributes:
        head: Name of the linear layer that predicts.
        mean: Mean of the targets.
        deviation: Their standard deviation; 1 if all are equal.
        hook: Forward hook of the layer.
    """

    head: str
    mean: float
    deviation: float
    hook: RemovableHandle

    @classmethod
    def apply(cls, model: PreTrainedModel, drawn: Collection[str], targets: NDArray[Any]) -> Self | None:
        """Let a model predict in the unit of the targets, if its head was drawn at random and has a bias.

        Args:
            model: Regression model, changed in place.
            drawn: Names of the weights that were drawn at random. A head that was loaded predicts in its own unit already.
            targets: Targets of the train split, shape ``(rows,)``.
        """
        head = _last_layer(model)
        if head is None or f"{head}.bias" not in drawn:
            return None
        mean = _mean(targets, lambda values: values)
        deviation = math.sqrt(_mean(targets, lambda values: (values - mean) ** 2)) or 1.0

        def restore(_: nn.Module, __: Any, output: Tensor) -> Tensor:
            return output.float() * deviation + mean

        return cls(head, mean, deviation, model.get_submodule(head).register_forward_hook(restore))

    def fold(self, weights: dict[str, Tensor]) -> None:
        """Make the scale part of trained weights, and remove the hook.

        Args:
            weights: Weights of the plain model by name, changed in place.
        """
        self.hook.remove()
        weight, bias = f"{self.head}.weight", f"{self.head}.bias"
        weights[weight] = weights[weight].float() * self.deviation  # new tensors: those of the model stay as they were trained
        weights[bias] = weights[bias].float() * self.deviation + self.mean


def _mean(targets: NDArray[Any], function: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> float:
    """Return the mean of a function of the finite targets: NaN is reported with its row, in the step that meets it."""
    parts = (targets[start : start + _PART] for start in range(0, len(targets), _PART))
    finite = (part[np.isfinite(part)].astype(np.float64) for part in parts)
    sums = [(float(function(values).sum()), len(values)) for values in finite]
    return sum(total for total, _ in sums) / sum(count for _, count in sums)


def _last_layer(model: PreTrainedModel) -> str | None:
    """Return the name of the linear layer behind the body with one output and a bias."""
    body = f"{model.base_model_prefix}."
    layers = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear) and not name.startswith(body)]
    return next((name for name, layer in reversed(layers) if layer.out_features == 1 and layer.bias is not None), None)
