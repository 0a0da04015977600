"""The user's loss: a function in ``project/`` that ``train.loss`` names, tried on a few rows before a model is built."""

from typing import Any

import torch
from torch import Tensor

from tuneline.files.schemas import LabelSchema
from tuneline.functions import ProjectFunction, load_function
from tuneline.params import TrainParams
from tuneline.params.functions import FunctionName

_ROWS = 6
"""Rows with which the function is tried."""
_TOLERANCE = 1e-4
"""Largest difference between the loss of an example in two batches that counts as rounding."""


def load_loss(params: TrainParams, labels: LabelSchema) -> ProjectFunction | None:
    """Import and check the function in ``train.loss``; ``None`` if the parameter is.

    The function gets logits, float32 of shape ``(examples, classes)``, and labels, int64 of shape ``(examples,)``. In a regression
    both are float32 of shape ``(examples,)``. It returns the loss of each example, of shape ``(examples,)``: the training loop
    weights them, shards them over processes and accumulates them over micro-batches.

    Raises:
        ParamsError: It cannot be imported or called, or what it returns is not of this kind.
    """
    if params.loss is None:
        return None
    function = load_function("train.loss", FunctionName.parse("train.loss", params.loss), params.loss_options)
    _check_losses(function, *_example(labels))
    return function


def _example(labels: LabelSchema) -> tuple[Tensor, Tensor]:
    """Return logits that require a gradient, and labels of several classes."""
    rows = torch.arange(_ROWS)
    shape = (_ROWS,) if labels.is_regression else (_ROWS, labels.outputs)
    logits = torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
    return logits, rows.float() if labels.is_regression else rows % labels.outputs


def _check_losses(function: ProjectFunction, logits: Tensor, labels: Tensor) -> None:
    """Check shape, type, values and gradient of the losses, of a batch, of a smaller one, and of an empty one."""
    losses = function(logits, labels)
    _check_shape(function, losses, logits)
    if not losses.requires_grad:
        raise function.error("returns losses without a gradient.", "Compute them from the logits with torch, without detach and argmax.")
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    if not torch.isfinite(losses).all() or not torch.isfinite(gradient).all():
        what = "losses" if not torch.isfinite(losses).all() else "a gradient"
        raise function.error(f"gives {what} with NaN or infinity for logits around 0.", "Use log_softmax instead of the log of a softmax.")
    fewer = function(logits[:2], labels[:2])
    _check_shape(function, fewer, logits[:2])
    if not torch.allclose(fewer, losses[:2], atol=_TOLERANCE):
        raise function.error(
            "gives an example another loss in a smaller batch.",
            "Compute the loss of each example on its own: how a batch is split into micro-batches must not change the model.",
        )
    _check_shape(function, function(logits[:0], labels[:0]), logits[:0])  # of a process without rows in the last batch


def _check_shape(function: ProjectFunction, losses: Any, logits: Tensor) -> None:
    examples = len(logits)
    if not isinstance(losses, Tensor) or losses.shape != (examples,) or not losses.is_floating_point():
        found = f"{losses.dtype} of shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else type(losses).__name__
        raise function.error(
            f"returns {found} for {examples} examples.",
            f"Return the loss of each example, of shape ({examples},), as torch.nn.functional does with reduction='none'.",
        )
