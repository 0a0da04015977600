"""Linear layers in float32 by oneDNN, for processors on which MKL does not use all instructions."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tuneline.core.machine import processor_words


def onednn_is_faster() -> bool:
    """Return True if oneDNN multiplies float32 matrices faster than MKL, which torch uses.

    MKL uses AVX-512 on Intel's processors only.
    """
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    words = processor_words()
    return bool(words) and "GenuineIntel" not in words  # no words: the system does not name its processor


class OneDnnLinear(nn.Linear):
    """A linear layer in float32 whose output and gradient of the input are computed by oneDNN."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name in nn.Linear
        """Return the output, shape ``(..., out_features)``."""
        product: Any = _OneDnnProduct.apply
        output: Tensor = product(input, self.weight, self.bias)
        return output


class _OneDnnProduct(torch.autograd.Function):
    """The gradient of the weight stays with MKL, which reads transposed operands as they are."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(values, weight)
        return multiply(values, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        values, weight = ctx.saved_tensors
        needs_values, needs_weight, needs_bias = ctx.needs_input_grad
        rows = gradient.flatten(0, -2)
        values_gradient = None
        weight_gradient = None
        bias_gradient = None
        if needs_values:
            values_gradient = multiply(gradient, weight.t(), None)
        if needs_weight:
            weight_gradient = rows.t() @ values.flatten(0, -2)
        if needs_bias:
            bias_gradient = rows.sum(0)
        return values_gradient, weight_gradient, bias_gradient


def multiply(values: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``values @ weight.T + bias``, computed by oneDNN; all have one type.

    torch would copy the bias to every row first.
    """
    if values.dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return functional.linear(values, weight, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(values, weight, bias, "none", [], "")
    return product


def use_onednn(model: nn.Module) -> None:
    """Let the linear layers of a model compute with oneDNN. Names and values of the weights stay."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = OneDnnLinear
