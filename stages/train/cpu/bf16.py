"""Layers that train in bf16 on a CPU.

Autocast, which accelerate uses for ``mixed_precision: bf16``, computes products in bf16 and everything
between them in float32. These layers keep what flows between them in bf16 as well, which halves the memory
that is read and written. Weights, their gradients and the optimizer stay float32, and so do checkpoints and
the published model. Layers of other kinds compute as autocast does.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from stages.train.cpu.dropout import below, random_bits
from stages.train.cpu.linear import multiply

PADDING_MULTIPLE = 4
"""Batches are padded to a multiple of this number of tokens.

For each new number of tokens, oneDNN compiles some twenty kernels, 1.4 ms and 300 KB each.
"""


def use_bf16(model: nn.Module) -> None:
    """Let the linear layers, layer norms and dropouts of a model compute in bf16.

    Names, values and types of the weights stay.
    """
    for module in model.modules():
        if type(module) in BF16_LAYERS:
            module.__class__ = BF16_LAYERS[type(module)]


class Bf16Linear(nn.Linear):
    """A linear layer that multiplies in bf16. Its weight is rounded in each forward pass."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name in nn.Linear
        """Return the output, bf16 of shape ``(..., out_features)``."""
        product: Any = _Product.apply
        output: Tensor = product(input, self.weight, self.bias)
        return output


class _Product(torch.autograd.Function):
    """``values @ weight.T + bias`` in bf16; gradients of weight and bias are float32."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.type_of_values = values.dtype
        rounded = values.to(torch.bfloat16).contiguous()
        weight = weight.to(torch.bfloat16)
        if bias is not None:
            bias = bias.to(torch.bfloat16)
        ctx.save_for_backward(rounded, weight)
        return multiply(rounded, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        values, weight = ctx.saved_tensors
        needs_values, needs_weight, needs_bias = ctx.needs_input_grad
        rows = gradient.flatten(0, -2).contiguous()
        values_gradient = None
        weight_gradient = None
        bias_gradient = None
        if needs_values:
            values_gradient = (rows @ weight).view(values.shape).to(ctx.type_of_values)
        if needs_weight:
            weight_gradient = (rows.t() @ values.flatten(0, -2)).float()
        if needs_bias:
            bias_gradient = rows.sum(0).float()
        return values_gradient, weight_gradient, bias_gradient


class Bf16LayerNorm(nn.LayerNorm):
    """A layer norm of bf16 values, whose sums, weight and bias are float32."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name in nn.LayerNorm
        """Return the normalized values, bf16 of the same shape."""
        values = input.to(torch.bfloat16)
        return functional.layer_norm(values, self.normalized_shape, self.weight, self.bias, self.eps)


class Bf16Dropout(nn.Dropout):
    """A dropout that keeps the type of its input."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name in nn.Dropout
        """Return the input without the dropped values."""
        if not self.training or input.dtype != torch.bfloat16:
            return super().forward(input)
        return dropout_in_bf16(input, self.p)


def dropout_in_bf16(values: Tensor, rate: float) -> Tensor:
    """Return bf16 values: a part of them, ``rate``, is 0, and the others are divided by ``1 - rate``."""
    if not 0 < rate < 1:
        return functional.dropout(values, rate)
    dropout: Any = _Dropout.apply
    kept: Tensor = dropout(values, rate)
    return kept


class _Dropout(torch.autograd.Function):
    """The mask has all bits or none, and is applied by a bitwise and: a product takes three times as long."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rate: float) -> Tensor:
        mask = torch.empty(values.shape, dtype=torch.int16)
        torch.lt(random_bits(values.shape), below(1 - rate), out=mask)
        mask.neg_()  # 1 becomes -1, which has all bits
        ctx.save_for_backward(mask)
        ctx.scale = 1 / (1 - rate)
        return _apply(mask, values).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return _apply(mask, gradient).mul_(ctx.scale), None


def _apply(mask: Tensor, values: Tensor) -> Tensor:
    bits = values.contiguous().view(torch.int16)
    return torch.bitwise_and(bits, mask).view(torch.bfloat16)


BF16_LAYERS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: Bf16Linear,
    nn.LayerNorm: Bf16LayerNorm,
    nn.Dropout: Bf16Dropout,
}
