"""The optimizer, by name."""

import torch
from torch import nn

from stages.params import TrainParams


def build_optimizer(model: nn.Module, params: TrainParams) -> torch.optim.Optimizer:
    """Builds the optimizer over the parameters that learn."""
    return torch.optim.AdamW(parameter_groups(model, params.weight_decay), lr=params.learning_rate, fused=True)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Two groups: matrices decay, vectors (biases, the weights of norms) do not."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [parameter for parameter in learning if parameter.ndim >= 2], "weight_decay": weight_decay},
        {"params": [parameter for parameter in learning if parameter.ndim < 2], "weight_decay": 0.0},
    ]
