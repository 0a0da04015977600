"""Attention in training by single products, where torch's own is slow."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from stages.train.cpu.bf16 import dropout_in_bf16


@contextlib.contextmanager
def fast_attention() -> Iterator[None]:
    """Until the block ends, models with the attention ``sdpa`` compute it with ``attend``."""
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

    Its shape is ``(batch, tokens, heads, features)``. With dropout, torch attends with single operations too,
    and looks in each layer for rows in which everything is masked. In bf16 without dropout, its fused kernel
    takes half of a training step to go back. What is not bidirectional self-attention, or has neither of the
    two reasons, is left to transformers. Where all tokens are masked, a token attends to all of them alike,
    instead of to none: nothing reads its output.
    """
    # what torch computes slowly, and this function can compute
    in_bf16 = query.dtype == torch.bfloat16
    is_slow = dropout > 0 or (in_bf16 and query.requires_grad)
    is_on_cpu = query.device.type == "cpu" and (in_bf16 or query.dtype == torch.float32)
    is_plain = is_on_cpu and key.shape[:2] == query.shape[:2]
    has_mask = attention_mask is not None and attention_mask.dtype == torch.bool
    is_bidirectional = has_mask or (attention_mask is None and not getattr(module, "is_causal", True))
    has_options = any(option is not None for option in options.values())
    if not is_slow or not is_plain or not is_bidirectional or has_options:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **options
        )

    # softmax(query @ key.T * scaling) @ value (Vaswani et al. 2017, section 3.2.1)
    if scaling is None:
        scaling = query.shape[-1] ** -0.5
    scores = torch.matmul(query, key.transpose(2, 3)).mul_(scaling)
    if attention_mask is not None:
        # not -infinity: where all tokens are masked, the softmax would be NaN
        scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    weights = functional.softmax(scores, dim=-1)
    if in_bf16:
        weights = dropout_in_bf16(weights, dropout)
    else:
        weights = functional.dropout(weights, dropout)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), None
