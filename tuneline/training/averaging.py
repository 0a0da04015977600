"""Averages of the frozen checkpoint with its linear model and of what is fine-tuned from them.

Weights between both often predict new rows better than either
(Wortsman et al. 2022, "Robust fine-tuning of zero-shot models").
"""

import copy
from collections.abc import Mapping

from torch import Tensor

from tuneline.model.linear.pooled_classifier import PooledClassifier
from tuneline.model.tasks.task import Logits
from tuneline.training.data import Inputs
from tuneline.training.frozen_head import validation_logits
from tuneline.training.state import TrainingResult

SHARES = (0.25, 0.5, 0.75)
"""Shares of the fine-tuned weights that are tried."""


def averaged(start: Mapping[str, Tensor], tuned: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """Return the weights that are ``share`` of the way from those of the start to the fine-tuned ones."""
    weights = {}
    for name, values in start.items():
        weights[name] = values.lerp(tuned[name].to(values), share)
    return weights


def averaged_logits(start: PooledClassifier, result: TrainingResult, inputs: Inputs) -> dict[float, Logits]:
    """Return the logits of averages for the validation split, by their share; ``start`` keeps its weights."""
    device = result.state.accelerator.device
    model = copy.deepcopy(start).to(device)
    logits = {}
    for share in SHARES:
        model.load_state_dict(averaged(start.state_dict(), result.weights, share))
        logits[share] = validation_logits(model, inputs, device)
    return logits
