"""Shorter training steps on the CPU: dropout, attention, and layers in bf16."""

import pytest
import torch
from torch import nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from tests.small_pipeline import FAMILIES, tiny_model
from tests.tuneline.training import tiny_task
from tuneline.training.cpu import (
    PADDING_MULTIPLE,
    Bf16LayerNorm,
    Bf16Linear,
    FastDropout,
    attend,
)
from tuneline.training.data import BatchLoader

HEADS = (2, 4, 6, 8)
"""Rows, heads, tokens and features."""
PADDED = torch.ones(2, 1, 6, 6, dtype=torch.bool)
PADDED[1, :, :, 4:] = False


class SelfAttention(nn.Module):
    is_causal = False


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dropout_has_the_rate_and_follows_from_the_seed(dtype):
    layer = FastDropout(0.1)
    values = torch.ones(300, 7, 11, dtype=dtype, requires_grad=True)
    torch.manual_seed(3)
    dropped = layer(values)
    dropped.sum(dtype=torch.float32).backward()
    assert (dropped == 0).float().mean() == pytest.approx(0.1, abs=0.006), (
        "23,100 elements: three standard deviations"
    )
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.9], rel=2**-8)
    assert torch.equal(values.grad, dropped), "the mask of the output"
    assert not torch.equal(layer(values), dropped), "the next mask is another one"
    torch.manual_seed(3)
    assert torch.equal(layer(values), dropped)
    layer.eval()
    assert torch.equal(layer(values), values)


@pytest.mark.parametrize("mask", [None, PADDED])
def test_attention_with_dropout_is_that_of_torch(mask):
    """By the mean of 2,000 masks, and exactly where no weight is dropped."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(HEADS, generator=generator) for _ in range(3))
    torch.manual_seed(0)
    outputs = torch.stack(
        [attend(SelfAttention(), query, key, value, mask, dropout=0.1)[0] for _ in range(2_000)]
    )
    unchanged = attend(SelfAttention(), query, key, value, mask, dropout=1e-6)[0]
    expected = sdpa_attention_forward(SelfAttention(), query, key, value, mask, dropout=0.0)[0]
    torch.testing.assert_close(unchanged, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(outputs.mean(0), expected, rtol=0, atol=0.05)
    assert float(outputs.std(0).mean()) > 0.05


@pytest.mark.parametrize("mask", [None, PADDED])
def test_attention_in_bf16_has_output_and_gradients_of_torch_in_float32(mask):
    """Without dropout, in training; torch's fused kernel would take half of the step to go back."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(HEADS, generator=generator) for _ in range(3)]
    results = []
    for dtype, function in ((torch.float32, sdpa_attention_forward), (torch.bfloat16, attend)):
        tensors = [values.to(dtype, copy=True).requires_grad_() for values in inputs]
        output, _ = function(SelfAttention(), *tensors, mask)
        output.square().sum().backward()
        results.append([output, *(values.grad for values in tensors)])
    assert results[1][0].grad_fn.name() != "ScaledDotProductFlashAttentionForCpuBackward0"
    for single, bf16 in zip(*results, strict=True):
        torch.testing.assert_close(bf16.float(), single, rtol=0.05, atol=0.05)


def in_bf16(layer):
    """Return a layer as ``fast_training`` changes it."""
    layer.__class__ = {nn.Linear: Bf16Linear, nn.LayerNorm: Bf16LayerNorm, nn.Dropout: FastDropout}[
        type(layer)
    ]
    return layer


def gradients(family: str, bf16: bool) -> torch.Tensor:
    """Return all gradients of a model without dropout, for rows of several lengths, as one vector."""
    ids = torch.arange(5, 45).view(4, 10)
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    mask[3, 4:] = 0
    model = tiny_model(family, outputs=3)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name in ("dropout_prob", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
        if bf16 and type(module) in (nn.Linear, nn.LayerNorm, nn.Dropout):
            in_bf16(module)
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logits = model(input_ids=ids, attention_mask=mask).logits
    nn.functional.cross_entropy(logits.float(), torch.tensor([0, 1, 2, 0])).backward()
    assert {weight.grad.dtype for weight in model.parameters() if weight.grad is not None} == {torch.float32}
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_every_architecture_are_close_to_those_of_float32(family):
    exact = gradients(family, bf16=False)
    rounded = gradients(family, bf16=True)
    assert float((rounded - exact).norm() / exact.norm()) < 0.02


def test_training_in_bf16_uses_these_layers_and_pads_to_a_multiple_of_tokens(trained, monkeypatch):
    """But not beyond the longest row of the data: a model may have no more positions."""
    shapes = set()
    inputs = BatchLoader.inputs

    def observed(loader, rows):
        batch = inputs(loader, rows)
        shapes.add(batch["input_ids"].shape[1])
        return batch

    monkeypatch.setattr(BatchLoader, "inputs", observed)
    result = trained(tiny_task.params({"max_position_embeddings": 17}, mixed_precision="bf16"))
    kinds = {type(module) for module in result.model.modules()}
    assert {Bf16Linear, Bf16LayerNorm, FastDropout} <= kinds
    assert {tokens for tokens in shapes if tokens % PADDING_MULTIPLE} <= {17}
