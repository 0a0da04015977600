"""Shorter training steps on the CPU: one entry for the loop, ``fast_training``.

- Dropout masks come from random bits of numpy, which take a tenth of the time of torch's: torch draws them
  with one thread, from 53 bits of a Mersenne twister for each element.
- Attention with dropout, and all attention in bf16, is computed by single products: torch's kernel looks in
  each layer for rows in which everything is masked, and in bf16 it takes half of a step to go back.
- With ``mixed_precision: bf16``, linear layers, layer norms and dropouts compute in bf16, and what flows
  between them is bf16, too. Autocast, which accelerate uses, computes all but the products in float32.
  Weights, their gradients and the optimizer stay float32, and so do checkpoints and the published model.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

PADDING_MULTIPLE = 4
"""Batches in bf16 are padded to a multiple of this number of tokens.

For each new number of tokens, oneDNN compiles some twenty kernels, 1.4 ms and 300 KB each.
"""
BITS = 16
"""Random bits for each element of a dropout mask: a rate is rounded to a multiple of 1/65536."""


def uses_bf16_layers(accelerator: Accelerator) -> bool:
    """Return True if ``fast_training`` lets a model compute in bf16: on a CPU, unless weights are sharded."""
    in_bf16 = accelerator.device.type == "cpu" and accelerator.mixed_precision == "bf16"
    return in_bf16 and accelerator.distributed_type.value in ("NO", "MULTI_CPU")


@contextlib.contextmanager
def fast_training(accelerator: Accelerator, model: nn.Module) -> Iterator[None]:
    """Until the block ends, let a model train in the fastest way that is known for a CPU.

    On a GPU, nothing changes. The layers of the model stay changed; names, values and types of its weights do
    not change.
    """
    if accelerator.device.type != "cpu":
        yield
        return
    layers: dict[type[nn.Module], type[nn.Module]] = {nn.Dropout: FastDropout}
    if uses_bf16_layers(accelerator):
        layers |= {nn.Linear: Bf16Linear, nn.LayerNorm: Bf16LayerNorm}
    for module in model.modules():
        if type(module) in layers:
            module.__class__ = layers[type(module)]

    AttentionInterface.register("sdpa", attend)
    try:
        yield
    finally:
        AttentionInterface.register("sdpa", sdpa_attention_forward)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Return scaled dot-product attention, as transformers does, and no weights.

    Its shape is ``(batch, tokens, heads, features)``. What torch computes fast, or what is not bidirectional
    self-attention, is left to transformers. Where all tokens are masked, a token attends to all of them
    alike, instead of to none: nothing reads its output.
    """
    # what torch computes slowly, and this function can compute
    is_slow = dropout > 0 or (query.dtype == torch.bfloat16 and query.requires_grad)
    is_plain = query.dtype in (torch.bfloat16, torch.float32) and key.shape[:2] == query.shape[:2]
    has_mask = attention_mask is not None and attention_mask.dtype == torch.bool
    is_bidirectional = has_mask or (attention_mask is None and not getattr(module, "is_causal", True))
    has_options = any(option is not None for option in options.values())
    if not is_slow or not is_plain or not is_bidirectional or has_options:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )

    # softmax(query @ key.T * scaling) @ value (Vaswani et al. 2017, "Attention Is All You Need", 3.2.1)
    if scaling is None:
        scaling = query.shape[-1] ** -0.5
    scores = torch.matmul(query, key.transpose(2, 3)).mul_(scaling)
    if attention_mask is not None:
        # not -infinity: where all tokens are masked, the softmax would be NaN
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    weights = fast_dropout(functional.softmax(scores, dim=-1), dropout)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), None


class FastDropout(nn.Dropout):
    """A dropout whose masks numpy draws. torch's generator draws their seed."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name in nn.Dropout
        """Return the input without the dropped values, in its type."""
        return fast_dropout(input, self.p) if self.training else input


def fast_dropout(values: Tensor, rate: float) -> Tensor:
    """Return values: a part of them, ``rate``, is 0, and the others are divided by ``1 - rate``."""
    if round(rate * 2**BITS) == 0:
        return values
    if rate >= 1 or values.dtype not in _BITS_OF:
        return functional.dropout(values, rate)
    dropout: Any = _Dropout.apply
    kept: Tensor = dropout(values, rate)
    return kept


_BITS_OF = {torch.float32: torch.int32, torch.bfloat16: torch.int16}
"""Type of the bits of a number, by its type."""


class _Dropout(torch.autograd.Function):
    """The mask has all bits or none, and is applied by a bitwise and: in bf16, a product takes long."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rate: float) -> Tensor:
        limit = round((1 - rate) * 2**BITS) - 2 ** (BITS - 1)  # below it, a random int16 keeps its value
        mask = torch.empty(values.shape, dtype=_BITS_OF[values.dtype])
        torch.lt(random_bits(values.shape), limit, out=mask)
        ctx.save_for_backward(mask.neg_())  # 1 becomes -1, which has all bits
        ctx.scale = 1 / (1 - rate)
        return _apply(mask, values).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return _apply(mask, gradient).mul_(ctx.scale), None


def _apply(mask: Tensor, values: Tensor) -> Tensor:
    return torch.bitwise_and(values.contiguous().view(mask.dtype), mask).view(values.dtype)


def random_bits(shape: Sequence[int]) -> Tensor:
    """Return random int16 numbers of a shape, uniform over all values; torch's generator draws their seed."""
    seed = int(torch.empty((), dtype=torch.int64).random_())
    count = math.prod(shape)
    words = np.random.SFC64(seed).random_raw(math.ceil(count / 4))  # a word of 64 bits has four numbers
    return torch.from_numpy(words.view(np.int16)[:count]).view(shape)


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
        return functional.linear(rounded, weight, bias)

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
